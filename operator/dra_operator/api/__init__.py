"""The objects of resource.k8s.io: types, reading, writing, conversion, defaults and value types."""
