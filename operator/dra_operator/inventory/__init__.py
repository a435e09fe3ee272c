"""What exists: pools, slices, classes, nodes and taint rules, kept incrementally."""
