"""dra-operator: the control plane of Dynamic Resource Allocation, with a reason for every claim that waits.

The packages, from the bottom up: `api`, `cel`, `inventory`, `ledger`, `allocator`, `cluster`, `controller`, `cli`;
`sim` stands beside them. docs/architecture.md says what each is for and which way data flows.
"""

from dra_operator._version import __version__

__all__ = ["__version__"]
