"""Workloads for allocators: clusters, what is in use in them, and claims to be allocated one after the other.

    PYTHONPATH=bench python -m workloads --list
    PYTHONPATH=bench python -m workloads cluster-01000 mig-00100 --folder /tmp/workloads

A workload is named by its shape and its size, and any size can be had: `cluster-02500` is as good as the sizes that
are listed. The same name and seed always give the same scenario, in the format that `dra-operator replay` reads.

The shapes are those that cost an allocator most: nearly full clusters, where most nodes are looked at in vain; devices
that overlap, are shared, or belong to all nodes; selectors that no two claims have in common; and small cases in which
a search that does not count tries every combination before it says no.
"""

from workloads.names import SHAPES, check, names, workload, write

__all__ = ["SHAPES", "check", "names", "workload", "write"]
