"""Versions of Kubernetes: what each decides otherwise than the one before. Nothing else compares versions.

A rule is a field: since when it holds, and what it says; docs/versions.md is made of them.
Source: k8s.io/dynamic-resource-allocation and k8s.io/apiserver of each version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from re import match, sub
from typing import Any, Final, Literal, TypeAlias, get_args

Version: TypeAlias = Literal["1.36", "1.37", "1.38"]
VERSIONS: Final[tuple[Version, ...]] = get_args(Version)
"""The versions of Kubernetes whose rules are known, the oldest first."""
RELEASED: Final[Version] = "1.37"
"""Whose rules hold where nobody says which version there is, and with an API server that is older."""
FOLLOWED: Final = VERSIONS[VERSIONS.index(RELEASED) :]
"""By whose rules decisions can be made; those of older ones are known for expressions alone."""


def _since(version: Version, text: str) -> bool:
    rule: bool = field(default=False, compare=False, metadata={"since": version, "text": text})
    return rule


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a version: what holds in it that did not hold from the beginning."""

    kubernetes: Version
    quoted_fields: bool = _since("1.37", "CEL: a field name may stand in back quotes")
    stored_lists: bool = _since(
        "1.37", "CEL: in a stored expression an attribute may be a list, whatever the gate"
    )
    any_list_is_searched: bool = _since("1.37", "CEL: `includes` looks through lists of any length")
    durations_of_texts: bool = _since(
        "1.37", "CEL: `duration` takes texts alone (before: ints as well, and failed)"
    )
    device_is_looked_up: bool = _since(
        "1.38",
        "CEL: a value of an unknown type, or an empty list, fails the expressions that read it (before: the former "
        "failed each, the latter was a list), and a key of the maps of a device becomes a string",
    )
    failure_ends_call: bool = _since(
        "1.38",
        "CEL: a call ends at the first argument that fails, and costs nothing then (before: it went on)",
    )
    empty_texts_are_ranges: bool = _since(
        "1.38", "CEL: `all`, `exists` and so on go through an empty string as through an empty list"
    )
    least_int_is_subtracted: bool = _since(
        "1.38", "CEL: `sub` of a quantity takes the least int away (before: it may add it)"
    )
    masks_of_cidrs: bool = _since("1.38", "CEL: there is `isMask`; for new expressions, from 1.39 on")
    parts_are_bounded: bool = _since(
        "1.38",
        "CEL, worst-case cost: a part of a URL is at most as long as the URL, a type and a presence test have a size, "
        "and what is unbounded stays so",
    )
    includes_without_gate: bool = _since(
        "1.38", "CEL: new expressions may call `includes`, whatever the gate"
    )
    full_names: bool = _since(
        "1.38",
        "A capacity without a domain is the driver's, in slices, requests and shares: both spellings in one request "
        "are an error, and of both in one device the one with the domain counts",
    )
    versions_without_build: bool = _since(
        "1.38", "Constraints compare versions without build metadata (before: as text)"
    )
    unknown_values_fail: bool = _since(
        "1.38",
        "A constraint on a value of an unknown type, or on a list without the gate, is an error "
        "(before: it does not match)",
    )
    negative_amounts_fail: bool = _since(
        "1.38", "A negative amount in a request is an error (before: a request policy may round it up)"
    )
    default_is_itself: bool = _since(
        "1.38",
        "The default of a request policy is permitted however large it is, and an amount that is rounded up to it is "
        "judged like others (before: both by how Go holds them)",
    )
    all_by_node: bool = _since(
        "1.38",
        "All, on a pool that is being updated or invalid, rules out the node (before: it ends the attempt)",
    )
    any_share_keeps: bool = _since(
        "1.38",
        "A device of which somebody has a share is given to nobody alone, also where consumable capacity is off "
        "(before: to anybody, once it is no longer shareable, which we never do)",
    )
    any_effect_keeps: bool = _since(
        "1.38",
        "A toleration without an effect keeps pods from being evicted (before: it has to say NoExecute)",
    )


def _rules(version: Version) -> Rules:
    there = VERSIONS[: VERSIONS.index(version) + 1]
    switches = {rule.name: rule.metadata["since"] in there for rule in fields(Rules) if rule.metadata}
    return Rules(version, **switches)


RULES: Final = {version: _rules(version) for version in VERSIONS}


def rules_of(version: str) -> Rules:
    """Return the rules to decide by with an API server of a version, such as `v1.38.2`.

    Older ones are followed like the released one, newer ones like the newest that is known, and text that is no
    version like the released one.
    """
    found = match(r"v?1\.(\d+)", version)
    minor = 0 if found is None else int(found[1])
    known = [each for each in VERSIONS if int(each.partition(".")[2]) <= minor]
    return RULES[max(RELEASED, *known)] if known else RULES[RELEASED]


# --- What is decided by, as one value: which parts of Dynamic Resource Allocation are on, and whose rules hold.
# The names are those of upstream's `structured.Features`, which the reference scenarios use too; inside Python they
# are spelled in snake case. A gate decides at one place each: some hide slices (`inventory.pool`), some refuse
# requests (`allocator.plan`), some change how values are compared (`allocator.constraints`).


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
