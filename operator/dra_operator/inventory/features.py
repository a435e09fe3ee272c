"""What is decided by, as one value: which parts of Dynamic Resource Allocation are on, and whose rules hold.

The names are those of upstream's `structured.Features`, which the reference scenarios use too; inside Python they are
spelled in snake case. A gate decides at one place each: some hide slices (`inventory.pool`), some refuse requests
(`allocator.plan`), some change how values are compared (`allocator.constraints`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from re import sub
from typing import Any

from dra_operator.api.versions import RELEASED, RULES, Rules


@dataclass(frozen=True, slots=True)
class Features:
    """Which features are on, and the rules of the version of Kubernetes.

    Source: `structured.Features` of k8s.io/dynamic-resource-allocation 0.37.2.
    """

    admin_access: bool = True
    compatibility_groups: bool = True
    consumable_capacity: bool = True
    derived_attributes: bool = True
    device_binding_and_status: bool = True
    device_taints: bool = True
    fractional_capacity_range: bool = True
    list_type_attributes: bool = True
    optional_node_operations: bool = True
    partitionable_devices: bool = True
    prioritized_list: bool = True
    rules: Rules = RULES[RELEASED]

    @classmethod
    def all_on(cls) -> "Features":
        """Return the value in which every feature is on."""
        return cls()

    @classmethod
    def named(cls, switches: Mapping[str, bool]) -> "Features":
        """Return the features with the given ones switched, by upstream's names such as `PartitionableDevices`.

        A name that is absent is on. Raises ValueError for a name that is no feature.
        """
        known = _names()
        if unknown := sorted(set(switches) - set(known)):
            raise ValueError(f"unknown feature {unknown[0]!r}; known are {', '.join(sorted(known))}")
        switched: dict[str, Any] = {known[name]: on for name, on in switches.items()}
        return cls(**switched)


@cache
def _names() -> dict[str, str]:
    """Return the name of each feature in Python by upstream's."""
    return {_upstream_name(item.name): item.name for item in fields(Features) if item.name != "rules"}


def _upstream_name(name: str) -> str:
    return sub(r"(?:^|_)([a-z])", lambda match: match.group(1).upper(), name)
