"""Workloads for allocators: clusters with devices in use, and claims to be allocated one after the other.

    PYTHONPATH=bench python -m workloads --list
    PYTHONPATH=bench python -m workloads cluster-01000 mig-00100 --folder /tmp/workloads

The name of a workload is its shape and size. Besides the listed sizes, any other works, such as `cluster-02500`. The
same name and seed always give the same scenario, in the format that `python -m conformance replay` reads.

The shapes are those that are hardest for an allocator: nearly full clusters, where most nodes are searched in vain;
devices that overlap, are shared, or belong to all nodes; selectors that no two claims have in common; and small cases
in which a search that does not count tries every combination before it says no.
"""

from workloads.names import SHAPES, check, names, workload, write

__all__ = ["SHAPES", "check", "names", "workload", "write"]
