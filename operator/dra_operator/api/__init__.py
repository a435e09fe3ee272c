"""The objects of resource.k8s.io: their types, how they are read from the wire, their defaults, and their value types."""
