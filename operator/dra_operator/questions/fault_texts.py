"""What is said of a state that cannot be right: devices held twice, more allocated than there is, broken allocations.

The same words stand in Events, in the annotations of claims and in the answers of commands.
"""

from collections.abc import Collection, Mapping, Sequence

from dra_operator.api.names import OPT_OUT_LABEL
from dra_operator.api.quantity import format_beside
from dra_operator.api.text import listed, shown
from dra_operator.api.types import AllocationResult
from dra_operator.ledger import Breakage, Overcommitment, Resource

END_BOTH = (
    "two allocators serve this driver; nothing is taken back: let no new pod start there, end what uses any of these "
    "claims, and then restart kube-scheduler (docs/operator.md, Two holders)"
)
"""What to do where several claims hold a device, in this order."""
DELETE_CLAIM = "end what uses this claim, and delete it: a new claim gets other devices"
"""What to do about an allocation that is broken."""
DRIVER_FIRST = (
    "see whether its driver runs: one that restarts publishes its devices again, and pods go on meanwhile; "
    "if it does not come back, end what uses this claim, and delete it"
)
"""What to do about an allocation of whose pool there is no slice."""
MAKE_ROOM = "delete claims until the others fit, or have the driver publish more"
"""What to do where more is allocated than there is, and slices are the cause."""
NOT_REACHED = "the claim was allocated before such a device was reached; kube-scheduler would refuse it"
"""What a selector that fails on some devices comes to, of a claim that is allocated."""


def everywhere(allocation: AllocationResult) -> str:
    """Return the nodes on which pods can use an allocation without a node selector."""
    return "every node that can skip node operations" if allocation.skips_node_operations else "every node"


def allocated_twice(device: tuple[str, str, str], owners: Sequence[tuple[str, str]]) -> str:
    """Return the line about a device (driver, pool and device) that several claims hold, for who may know of all."""
    return f"device {'/'.join(device)} is allocated to {join_claims(owners)}; {END_BOTH}"


def too_much(case: Overcommitment, namespace: str = "") -> str:
    """Return of what more is allocated than there is, how much, and to whom; claims of other namespaces by number."""
    path = "/".join(case.pool)
    if case.resource is Resource.COUNTER:
        what = f"counter {case.owner}/{case.name} of pool {path}"
    else:
        what = f"capacity {case.name} of device {path}/{case.owner}"
    node = f" on node {case.node}" if case.node else ""
    total, used = format_beside(case.total, case.used)
    if not case.parts:
        # The API server admits amounts below zero.
        return f"{what}{node}: {total} published, nothing allocated"
    owners = listed(
        [
            f"{known_claims(part.claims, namespace)} ({format_beside(part.amount, case.total)[0]})"
            for part in case.parts
        ]
    )
    return f"{what}{node}: {total} published, {used} allocated, to {owners}"


def room_for(case: Overcommitment) -> str:
    """Return what to do about it."""
    return MAKE_ROOM if case.parts else "the driver must not publish less than nothing"


def join_claims(claims: Sequence[tuple[str, str]]) -> str:
    """Return the names of some claims, each with its namespace."""
    return " and ".join(f"{namespace}/{name}" for namespace, name in claims)


def known_claims(claims: Collection[tuple[str, str]], namespace: str) -> str:
    """Return some claims by name, but those of other namespaces than this one by number; empty: all by name."""
    known = sorted(claim for claim in claims if not namespace or claim[0] == namespace)
    texts = [join_claims([claim]) for claim in known]
    if foreign := len(claims) - len(known):
        texts.append(
            "a claim of another namespace" if foreign == 1 else f"{foreign} claims of other namespaces"
        )
    return " and ".join(texts)


def broken(breakages: Sequence[Breakage]) -> str:
    """Return the sentence about an allocation whose devices cannot be used any more."""
    return f"{describe_breakages(breakages)}; {DELETE_CLAIM}"


def describe_breakages(breakages: Sequence[Breakage]) -> str:
    """Return why the devices of an allocation cannot be used any more."""
    return listed([_breakage(item) for item in breakages])


def _breakage(item: Breakage) -> str:
    if item.device is None:
        return f"node {item.node} is gone"
    device = f"device {'/'.join(item.device)}"
    if item.taint is None:
        return f"{device} is not in generation {item.generation} of its pool, which is complete"
    value = f"={item.taint.value}" if item.taint.value else ""
    rule = f" of DeviceTaintRule {item.rule}" if item.rule else ""
    return f"{device} has the taint {item.taint.key}{value}:{item.taint.effect}{rule}, which is not tolerated"


def odd_label(labels: Mapping[str, str]) -> str | None:
    """Return what is wrong with the label that keeps the operator away from a claim; None if nothing is."""
    value = labels.get(OPT_OUT_LABEL)
    if value in (None, "true", "false"):
        return None
    return f'label {OPT_OUT_LABEL} is {shown(value)}, neither "false" nor "true": the claim is allocated as without it'
