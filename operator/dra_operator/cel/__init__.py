"""The CEL of DRA: expressions over one device, compiled to Python functions."""
