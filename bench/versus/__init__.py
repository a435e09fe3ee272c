"""The parts of `bench/allocator.py`, which lets two allocators decide the same claims by turns.

`sides` runs an allocator in a process of its own, `rows` measures two of them over a workload and compares their
answers, and `table` prints that.
"""
