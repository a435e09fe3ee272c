"""Self-check: a small cluster of our own is decided before the first claim comes, and compared with known answers.

A damaged installation shows here, and not in what somebody's claim is given. And what a process does once is done: the
first claim costs what the others cost (docs/decisions.md).
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.decision import Allocated, Decision, Failed
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

Wire = dict[str, Any]

_DOMAIN: Final = "rehearsal.invalid"
_CARD, _PORT, _PART, _TILE = (f"{name}.{_DOMAIN}" for name in ("card", "port", "part", "tile"))
_CLASSES: Final = {
    "card": f'device.driver == "{_CARD}"',
    "port": f'device.driver == "{_PORT}" && device.allowMultipleAllocations',
    "part": f'device.driver == "{_PART}"',
    "tile": f'device.driver == "{_TILE}"',
}
_NODES: Final = ("amber", "birch")
_BUS: Final = f"{_DOMAIN}/bus"
_IS_SLATE: Final = f'device.attributes["{_CARD}"].kind in ["slate", "basalt"]'
_IS_LARGE: Final = (
    f'device.capacity["{_CARD}"].memory.compareTo(quantity("20Gi")) >= 0 && '
    f'device.attributes["{_CARD}"].firmware.isGreaterThan(semver("2.0.0"))'
)
_IS_QUARTER: Final = f'device.attributes["{_PART}"].profile.matches("^1q$")'
_IS_OUTER: Final = f'device.attributes["{_TILE}"].?place.orValue(1) in [0, 3]'
_IS_LOW: Final = f'device.attributes["{_TILE}"].place < 2'
_READS_WHAT_IS_NOT_THERE: Final = f'device.attributes["{_TILE}"].colour == "red"'


# --- what there is


def _slice(name: str, driver: str, pool: str, *, slices: int = 1, **fields: Any) -> Wire:
    of_pool = {"name": pool, "generation": 1, "resourceSliceCount": slices}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "pool": of_pool, **fields}}


def _card(number: int, node: str) -> Wire:
    return {
        "name": f"card-{number}",
        "attributes": {
            "kind": {"string": "slate" if node == "birch" else "flint"},
            "firmware": {"version": "2.1.0" if node == "birch" else "1.4.2"},
            _BUS: {"string": f"bus-{number // 2}"},
        },
        "capacity": {"memory": {"value": "32Gi"}},
    }


def _port(number: int) -> Wire:
    policy = {"default": "5G", "validRange": {"min": "5G", "step": "5G"}}
    return {
        "name": f"port-{number}",
        "allowMultipleAllocations": True,
        "attributes": {_BUS: {"string": f"bus-{number * 3}"}},
        "capacity": {"bandwidth": {"value": "40G", "requestPolicy": policy}},
    }


def _part(name: str, quarters: int) -> Wire:
    return {
        "name": name,
        "attributes": {"profile": {"string": f"{quarters}q"}},
        "consumesCounters": [{"counterSet": "whole", "counters": {"memory": {"value": f"{8 * quarters}Gi"}}}],
    }


def _slices_of(node: str) -> list[Wire]:
    """Return the slices of a node: cards, ports and a device in partitions."""
    whole = {"name": "whole", "counters": {"memory": {"value": "32Gi"}}}
    parts = [_part("half-0", 2), _part("half-1", 2), *(_part(f"quarter-{number}", 1) for number in range(4))]
    cards, ports = [_card(number, node) for number in range(8)], [_port(number) for number in range(2)]
    return [
        _slice(f"{node}-card", _CARD, node, nodeName=node, devices=cards),
        _slice(f"{node}-port", _PORT, node, nodeName=node, devices=ports),
        _slice(f"{node}-whole", _PART, node, slices=2, nodeName=node, sharedCounters=[whole]),
        _slice(f"{node}-part", _PART, node, slices=2, nodeName=node, devices=parts),
    ]


_TILES: Final = [{"name": f"tile-{number}", "attributes": {"place": {"int": number}}} for number in range(4)]


# --- what is asked


def _claim(name: str, *requests: Wire, constraints: Sequence[Wire] = ()) -> Wire:
    devices = {"requests": list(requests), "constraints": list(constraints)}
    metadata = {"name": name, "namespace": "rehearsal", "uid": name}
    return {"metadata": metadata, "spec": {"devices": devices}}


def _wanted(device_class: str, count: int = 1, expression: str = "true", **fields: Any) -> Wire:
    selectors = [{"cel": {"expression": expression}}]
    return {"deviceClassName": device_class, "count": count, "selectors": selectors, **fields}


def _every(device_class: str, expression: str = "true", **fields: Any) -> Wire:
    return {**_wanted(device_class, 0, expression, **fields), "allocationMode": "All"}


def _request(name: str, *wanted: Wire) -> Wire:
    """Return a request, for the first of several alternatives if there are more."""
    if len(wanted) == 1:
        return {"name": name, "exactly": wanted[0]}
    alternatives = [{"name": f"choice-{number}", **each} for number, each in enumerate(wanted)]
    return {"name": name, "firstAvailable": alternatives}


def _share(amount: str, count: int = 1) -> Wire:
    return _wanted("port", count, capacity={"requests": {"bandwidth": amount}})


_SAME_BUS: Final = {"matchAttribute": _BUS}
_ANY_TAINT: Final = [{"operator": "Exists"}]
_CLAIMS: Final[tuple[tuple[Wire, str], ...]] = (
    (_claim("any", _request("one", _wanted("card"))), "amber: card-0"),
    (_claim("large", _request("one", _wanted("card", 1, _IS_LARGE))), "birch: card-1"),
    (_claim("pair", _request("two", _wanted("card", 2)), constraints=[_SAME_BUS]), "amber: card-2, card-3"),
    (
        _claim("tolerant", _request("one", _wanted("card", 1, _IS_SLATE, tolerations=_ANY_TAINT))),
        "birch: card-0",
    ),
    (
        _claim("apart", _request("two", _wanted("card", 2)), constraints=[{"distinctAttribute": _BUS}]),
        "amber: card-1, card-4",
    ),
    (_claim("few", _request("nine", _wanted("card", 9))), "nothing"),
    (_claim("first", _request("one", _wanted("card", 7), _wanted("card", 2))), "amber: card-5, card-6"),
    (
        _claim("quarters", _request("every", _every("part", _IS_QUARTER))),
        "amber: quarter-0, quarter-1, quarter-2, quarter-3",
    ),
    (_claim("half", _request("one", _wanted("part"))), "birch: half-0"),
    (_claim("port", _request("one", _share("7G"))), "amber: port-0 bandwidth 10G"),
    (
        _claim(
            "both",
            _request("card", _wanted("card", 1, _IS_SLATE)),
            _request("port", _share("35G")),
            constraints=[_SAME_BUS],
        ),
        "birch: card-6, port-1 bandwidth 35G",
    ),
    (_claim("ports", _request("two", _share("20G", 2))), "amber: port-0 bandwidth 20G, port-1 bandwidth 20G"),
    (
        _claim("watch", _request("every", _every("tile", adminAccess=True))),
        "amber: tile-0, tile-1, tile-2, tile-3",
    ),
    (
        # The lowest device for the first request leaves two requests one device together.
        _claim(
            "tangled",
            _request("outer", _wanted("tile", 1, _IS_OUTER)),
            *(_request(name, _wanted("tile", 1, _IS_LOW)) for name in ("low", "lower")),
        ),
        "amber: tile-3, tile-0, tile-1",
    ),
    (_claim("wrong", _request("one", _wanted("tile", 1, _READS_WHAT_IS_NOT_THERE))), "fatal"),
)

SCENARIO: Final[Mapping[str, Any]] = {
    "name": "rehearsal",
    "nodes": [{"metadata": {"name": name}} for name in _NODES],
    "deviceClasses": [
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        for name, expression in _CLASSES.items()
    ],
    "resourceSlices": [
        *(item for name in _NODES for item in _slices_of(name)),
        _slice("tiles", _TILE, "tiles", allNodes=True, devices=_TILES),
    ],
    "deviceTaintRules": [
        {
            "metadata": {"name": "rule"},
            "spec": {
                "deviceSelector": {"driver": _CARD, "pool": "birch", "device": "card-0"},
                "taint": {"key": _DOMAIN, "effect": "NoSchedule"},
            },
        }
    ],
    "claims": [claim for claim, _ in _CLAIMS],
}
ANSWERS: Final[Mapping[str, str]] = {claim["metadata"]["name"]: answer for claim, answer in _CLAIMS}
"""What each claim gets, in the order of the claims: node and devices, or another word where there are none."""


_PASSES: Final = 2
"""How often each search decides the claims; what they got is given back between.

Python adapts a function to what it meets there after some calls (3.11 at the ninth), and many claims call each. More
than two passes make the claims that follow no faster.
"""
TIMES: Final = len(SearchMode) * _PASSES
"""How often each claim is decided in all."""

_KINDS: Final = {
    "nodes": "Node",
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "deviceTaintRules": "DeviceTaintRule",
}


class SelfCheckError(Exception):
    """A claim of the rehearsal did not get what it should, or something in it ended with an exception."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; this installation would not decide as Kubernetes does: install dra-operator anew, with the "
            "versions in requirements/run.txt, and report it if that does not help"
        )


def run_self_check(answers: Mapping[str, str] = ANSWERS) -> None:
    """Decide the built-in cluster, by the plain search and by those that count, and compare with the known answers.

    `answers` has what each claim gets, as `answer_of` puts it. Raises SelfCheckError for the first claim that gets
    something else.
    """
    try:
        claims = [apply_defaults(read_object(body, "ResourceClaim")) for body in SCENARIO["claims"]]
        for searching in SearchMode:
            allocator = _allocator(searching)
            for _ in range(_PASSES):
                _check(allocator, claims, answers)
    except SelfCheckError:
        raise
    except Exception as error:
        raise SelfCheckError(f"the self-check ended with {type(error).__name__}: {error}") from error


def answer_of(decision: Decision) -> str:
    """Return a decision on one claim as a line: node and devices with what is consumed of them, or how it ended."""
    match decision:
        case Allocated():
            return f"{decision.node}: {', '.join(_devices(decision.results[0]))}"
        case Failed():
            return decision.kind
        case _:
            return "nothing"


def _allocator(searching: SearchMode) -> Allocator:
    """Return an allocator for the cluster as it is at first, which shares nothing with others."""
    inventory, numbers = Inventory(), count(1)
    for name, kind in _KINDS.items():
        for body in SCENARIO[name]:
            inventory.put(read_object(body, kind))
    return Allocator(
        inventory,
        Ledger(),
        # What bounds a search here is its steps; and nobody else ever sees the ids.
        clock=lambda: 0.0,
        share_ids=lambda: f"00000000-0000-4000-8000-{next(numbers):012x}",
        admin_access=AdminAccess.ANY_NAMESPACE,
        searching=searching,
    )


def _check(allocator: Allocator, claims: Sequence[ResourceClaim], answers: Mapping[str, str]) -> None:
    """Decide claims one after the other, compare, and give back what they got."""
    ledger = allocator.ledger
    for claim in claims:
        name = claim.metadata.name
        decision = allocator.allocate((claim,))
        if isinstance(decision, Allocated):
            ledger.assume(claim.metadata.namespace, name, decision.results[0])
            allocator.refresh()
        answer = answer_of(decision)
        if answer != answers[name]:
            why = f" ({decision.message})" if isinstance(decision, Failed) else ""
            raise SelfCheckError(
                f'claim "{name}" of the self-check, {allocator.searching.value} search: '
                f'expected "{answers[name]}", found "{answer}"{why}'
            )
    for claim in claims:
        ledger.withdraw(claim.metadata.namespace, claim.metadata.name)
    allocator.refresh()


def _devices(allocation: AllocationResult) -> list[str]:
    return [
        " ".join(
            [result.device, *(f"{name} {amount.text}" for name, amount in result.consumed_capacity.items())]
        )
        for result in allocation.devices.results
    ]
