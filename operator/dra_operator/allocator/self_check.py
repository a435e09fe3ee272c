"""Self-check: a small cluster of our own is decided before the first claim comes, and compared with known answers.

A damaged installation shows here, and not in what somebody's claim is given. And what a process does once is done: the
first claim costs what the others cost (docs/decisions.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.decision import Allocated, Decision, Failed
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

Wire = dict[str, Any]

_DOMAIN: Final = "rehearsal.invalid"
_CARD, _PORT, _PART, _BOARD, _BEAM, _TILE = (
    f"{name}.{_DOMAIN}" for name in ("card", "port", "part", "board", "beam", "tile")
)
_CLASSES: Final = {
    "card": f'device.driver == "{_CARD}"',
    "port": f'device.driver == "{_PORT}" && device.allowMultipleAllocations',
    "part": f'device.driver == "{_PART}"',
    "board": f'device.driver == "{_BOARD}"',
    "beam": f'device.driver == "{_BEAM}"',
    "tile": f'device.driver == "{_TILE}"',
}
_NODES: Final = ("amber", "birch", "cedar")
_BUS, _BANK, _RACK = f"{_DOMAIN}/bus", f"{_CARD}/bank", f"{_BOARD}/rack"

_IS_SLATE: Final = f'device.attributes["{_CARD}"].kind == "slate"'
_IS_LARGE: Final = (
    f'device.capacity["{_CARD}"].memory.compareTo(quantity("20Gi")) >= 0 && '
    f'device.attributes["{_CARD}"].firmware.isGreaterThan(semver("2.0.0"))'
)
_IS_FIRST: Final = (
    f'device.attributes["{_CARD}"].kind in ["slate", "basalt"] && '
    f'device.attributes["{_CARD}"].slot == 0 && !device.attributes["{_CARD}"].spare'
)
_IS_UPPER: Final = f'device.attributes["{_CARD}"].slot > 1'
_IS_QUARTER: Final = f'device.attributes["{_PART}"].profile.matches("^[1-4]q$")'
_IS_SMALL: Final = f'device.attributes["{_PART}"].profile == "1q"'
_IS_HALF: Final = f'device.attributes["{_PART}"].profile == "2q"'
_IS_NEAR: Final = f'device.attributes["{_BOARD}"].?rack.orValue("").startsWith("rack-")'
_HAS_SPEED: Final = f'"speed" in device.attributes["{_PORT}"] && device.attributes["{_PORT}"].speed >= 40'
_IS_OUTER: Final = f'device.attributes["{_TILE}"].place in [0, 3]'
_IS_LOW: Final = f'device.attributes["{_TILE}"].place < 2'
_READS_WHAT_IS_NOT_THERE: Final = f'device.attributes["{_BEAM}"].colour == "red"'


# --- what there is


def _object(metadata: Wire, spec: Wire | None = None) -> Wire:
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def _slice(name: str, driver: str, pool: str, *, slices: int = 1, **fields: Any) -> Wire:
    of_pool = {"name": pool, "generation": 1, "resourceSliceCount": slices}
    return _object({"name": name}, {"driver": driver, "pool": of_pool, **fields})


def _card(number: int, kind: str) -> Wire:
    slate = kind == "slate"
    return {
        "name": f"card-{number}",
        "attributes": {
            "kind": {"string": kind},
            "firmware": {"version": "2.1.0" if slate else "1.4.2"},
            "slot": {"int": number},
            "bank": {"int": number // 4},
            "spare": {"bool": False},
            _BUS: {"string": f"bus-{number // 2}"},
        },
        "capacity": {"memory": {"value": "32Gi" if slate else "16Gi"}},
    }


def _port(number: int) -> Wire:
    policy = {"default": "5G", "validRange": {"min": "5G", "step": "5G"}}
    return {
        "name": f"port-{number}",
        "allowMultipleAllocations": True,
        "attributes": {"speed": {"int": 40}, _BUS: {"string": f"bus-{number * 3}"}},
        "capacity": {"bandwidth": {"value": "40G", "requestPolicy": policy}},
    }


def _part(name: str, quarters: int) -> Wire:
    counters = {"cores": {"value": str(2 * quarters)}, "memory": {"value": f"{8 * quarters}Gi"}}
    return {
        "name": name,
        "attributes": {"profile": {"string": f"{quarters}q"}},
        "consumesCounters": [{"counterSet": "whole", "counters": counters}],
    }


def _slices_of(node: str) -> list[Wire]:
    """Return the slices of a node: cards, ports, a device in partitions, and its share of the boards of all nodes."""
    kind = "flint" if node == "amber" else "slate"
    whole = {"name": "whole", "counters": {"cores": {"value": "8"}, "memory": {"value": "32Gi"}}}
    parts = [_part("half-0", 2), _part("half-1", 2), *(_part(f"quarter-{number}", 1) for number in range(4))]
    boards = [
        {"name": f"{node}-{number}", "attributes": {"rack": {"string": f"rack-{node[0]}"}}}
        for number in range(3)
    ]
    return [
        _slice(
            f"{node}-card", _CARD, node, nodeName=node, devices=[_card(number, kind) for number in range(8)]
        ),
        _slice(f"{node}-port", _PORT, node, nodeName=node, devices=[_port(number) for number in range(2)]),
        _slice(f"{node}-whole", _PART, node, slices=2, nodeName=node, sharedCounters=[whole]),
        _slice(f"{node}-part", _PART, node, slices=2, nodeName=node, devices=parts),
        _slice(f"{node}-board", _BOARD, "boards", slices=len(_NODES), nodeName=node, devices=boards),
    ]


def _beams() -> Wire:
    devices = [{"name": f"beam-{number}"} for number in range(3)]
    return _slice("beams", _BEAM, "beams", allNodes=True, devices=devices)


def _tiles() -> Wire:
    devices = [{"name": f"tile-{number}", "attributes": {"place": {"int": number}}} for number in range(4)]
    return _slice("tiles", _TILE, "tiles", allNodes=True, devices=devices)


def _in_use() -> Wire:
    """Return the claim that holds devices already."""
    used = [
        *((_CARD, "amber", f"card-{number}") for number in range(5)),
        *((_CARD, "birch", f"card-{number}") for number in (1, 4, 6)),
        *((_BOARD, "boards", f"amber-{number}") for number in range(2)),
        (_PART, "amber", "half-1"),
        (_BEAM, "beams", "beam-0"),
    ]
    results: list[Wire] = [
        {"request": "held", "driver": driver, "pool": pool, "device": device} for driver, pool, device in used
    ]
    share = "00000000-0000-4000-8000-000000000000"
    results.append(
        {
            "request": "held",
            "driver": _PORT,
            "pool": "amber",
            "device": "port-0",
            "shareID": share,
            "consumedCapacity": {"bandwidth": "35G"},
        }
    )
    return {
        **_claim("holder", _request("held", _wanted("card"))),
        "status": {"allocation": {"devices": {"results": results}}},
    }


# --- what is asked


def _claim(name: str, *requests: Wire, constraints: Sequence[Wire] = ()) -> Wire:
    devices: Wire = {
        "requests": list(requests),
        **({"constraints": list(constraints)} if constraints else {}),
    }
    return _object({"name": name, "namespace": "rehearsal", "uid": name}, {"devices": devices})


def _wanted(device_class: str, count: int = 1, expression: str | None = None, **fields: Any) -> Wire:
    selectors = [] if expression is None else [{"cel": {"expression": expression}}]
    return {"deviceClassName": device_class, "count": count, "selectors": selectors, **fields}


def _every(device_class: str, expression: str | None = None, **fields: Any) -> Wire:
    return {**_wanted(device_class, 0, expression, **fields), "allocationMode": "All"}


def _request(name: str, wanted: Wire) -> Wire:
    return {"name": name, "exactly": wanted}


def _first(name: str, *alternatives: Wire) -> Wire:
    named = [{"name": f"choice-{number}", **wanted} for number, wanted in enumerate(alternatives)]
    return {"name": name, "firstAvailable": named}


def _match(attribute: str, *requests: str) -> Wire:
    return {"matchAttribute": attribute, "requests": list(requests)}


def _distinct(attribute: str, *requests: str) -> Wire:
    return {"distinctAttribute": attribute, "requests": list(requests)}


def _share(amount: str, expression: str | None = None, count: int = 1) -> Wire:
    return _wanted("port", count, expression, capacity={"requests": {"bandwidth": amount}})


_ANY_TAINT: Final = [{"operator": "Exists"}]
_ALTERNATIVES: Final = (_wanted("card", 4, _IS_SLATE), _wanted("card", 2), _wanted("board", 3, _IS_NEAR))
_CLAIMS: Final[tuple[tuple[Wire, str], ...]] = (
    (_claim("any", _request("one", _wanted("card"))), "amber: card-5"),
    (_claim("large", _request("one", _wanted("card", 1, _IS_LARGE))), "birch: card-0"),
    (
        # The first devices that the first request could have leave no pair for the second.
        _claim(
            "tight",
            _request("one", _wanted("card", 1, _IS_UPPER)),
            _request("two", _wanted("card", 2)),
            constraints=[_match(_BUS, "two")],
        ),
        "birch: card-5, card-2, card-3",
    ),
    (
        _claim("pair", _request("two", _wanted("card", 2)), constraints=[_match(_BUS)]),
        "amber: card-6, card-7",
    ),
    (
        _claim("bank", _request("three", _wanted("card", 3, _IS_SLATE)), constraints=[_match(_BANK)]),
        "cedar: card-1, card-2, card-3",
    ),
    (
        _claim("tolerant", _request("one", _wanted("card", 1, _IS_FIRST, tolerations=_ANY_TAINT))),
        "cedar: card-0",
    ),
    (
        _claim("apart", _request("two", _wanted("card", 2)), constraints=[_distinct(_BUS)]),
        "cedar: card-4, card-6",
    ),
    (_claim("few", _request("seven", _wanted("card", 7))), "nothing"),
    (
        _claim("first", _first("one", *_ALTERNATIVES), constraints=[_match(_RACK)]),
        "birch: birch-0, birch-1, birch-2",
    ),
    (_claim("boards", _request("two", _wanted("board", 2))), "cedar: cedar-0, cedar-1"),
    (_claim("quarter", _request("one", _wanted("part", 1, _IS_QUARTER))), "amber: half-0"),
    (_claim("halves", _request("two", _wanted("part", 2, _IS_HALF))), "birch: half-0, half-1"),
    (
        _claim("quarters", _request("every", _every("part", _IS_SMALL))),
        "cedar: quarter-0, quarter-1, quarter-2, quarter-3",
    ),
    (_claim("port", _request("one", _share("10G", _HAS_SPEED))), "amber: port-1 bandwidth 10G"),
    (_claim("port-again", _request("one", _share("10G"))), "amber: port-1 bandwidth 10G"),
    (
        _claim(
            "both",
            _request("card", _wanted("card", 1, _IS_SLATE)),
            _request("port", _share("20G")),
            constraints=[_match(_BUS)],
        ),
        "birch: card-7, port-1 bandwidth 20G",
    ),
    (
        _claim("ports", _request("two", _share("20G", count=2))),
        "birch: port-0 bandwidth 20G, port-1 bandwidth 20G",
    ),
    (_claim("beam", _request("one", _wanted("beam"))), "amber: beam-1"),
    (_claim("watch", _request("every", _every("beam", adminAccess=True))), "amber: beam-0, beam-1, beam-2"),
    (
        # The lowest device for the first request leaves two requests one device together.
        _claim(
            "tangled",
            _request("outer", _wanted("tile", 1, _IS_OUTER)),
            *(_request(name, _wanted("tile", 1, _IS_LOW)) for name in ("low", "lower")),
        ),
        "amber: tile-3, tile-0, tile-1",
    ),
    (_claim("wrong", _request("one", _wanted("beam", 1, _READS_WHAT_IS_NOT_THERE))), "fatal"),
)

SCENARIO: Final[Mapping[str, Any]] = {
    "name": "rehearsal",
    "nodes": [_object({"name": name}) for name in _NODES],
    "deviceClasses": [
        _object({"name": name}, {"selectors": [{"cel": {"expression": expression}}]})
        for name, expression in _CLASSES.items()
    ],
    "resourceSlices": [*(item for name in _NODES for item in _slices_of(name)), _beams(), _tiles()],
    "deviceTaintRules": [
        _object(
            {"name": "rule"},
            {
                "deviceSelector": {"driver": _CARD, "pool": "cedar", "device": "card-0"},
                "taint": {"key": _DOMAIN, "effect": "NoSchedule"},
            },
        )
    ],
    "allocated": [_in_use()],
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
        cluster = _Cluster.read(SCENARIO)
        for searching in SearchMode:
            allocator = cluster.allocator(searching)
            for _ in range(_PASSES):
                _check(allocator, cluster.claims, answers)
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


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The objects of a cluster, the claims that hold devices in it, and those to be decided."""

    objects: Sequence[Any]
    holders: Sequence[ResourceClaim]
    claims: Sequence[ResourceClaim]

    @classmethod
    def read(cls, scenario: Mapping[str, Any]) -> "_Cluster":
        """Return what a scenario, as it is on the wire, consists of."""
        objects = [read_object(body, kind) for name, kind in _KINDS.items() for body in scenario[name]]
        holders, claims = (
            [apply_defaults(read_object(body, "ResourceClaim")) for body in scenario[name]]
            for name in ("allocated", "claims")
        )
        return cls(objects, holders, claims)

    def allocator(self, searching: SearchMode) -> Allocator:
        """Return an allocator for the cluster as it is at first, which shares nothing with others."""
        inventory, ledger = Inventory(), Ledger()
        for item in self.objects:
            inventory.put(item)
        for claim in self.holders:
            ledger.put(claim)
        numbers = count(1)
        return Allocator(
            inventory,
            ledger,
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
