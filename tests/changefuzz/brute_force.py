"""The smallest change of each kind, found by deciding every single edit of the claims in wire form.

By the exhaustive search, and without a thought of what cannot help. Sizes are those of `dra_operator.pods.edits`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from fractions import Fraction
from itertools import combinations
from typing import Any

from changefuzz.cluster import Body, Case, Key, build_allocator, read
from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Allocated
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger
from dra_operator.pods.smallest_change import SmallestChanges

Claims = Mapping[str, Body]
Size = tuple[Fraction | int, ...]
LARGEST_SET = 3
_VERSIONS = ("0.9.0", "1.0.0", "1.2.0", "2.0.0-rc.1", "2.0.0", "2.5.0", "3.1.0", "4.0.0")
"""All that there are, in order."""
_COMPARISON = re.compile(
    r'device\.(?:attributes|capacity)\["[^"]+"\]\.(\w+)(?: (?:==|!=|[<>]=?) |\.compareTo\((?:quantity|semver)\()'
    r'("[^"]+"|\d+|true|false)(?:\)\) [<>]= 0)?'
)
_DRIVER = re.compile(r'device\.driver == ("[^"]+")')


def find_sizes(case: Case) -> dict[str, Size]:
    """Return the size of the smallest edit of each kind with which the claims fit, by the letter of the kind.

    Of claims that end, sets of more than three are not tried.
    """
    return _BruteForce(case).find()


def find_differences(case: Case, found: SmallestChanges) -> list[str]:
    """Return in which kinds another smallest edit was found than there is, or none, or one that is not there."""
    sizes = {change.kind.value: change.size for change in found.changes}
    if sizes.get("E", (0,))[0] > LARGEST_SET:
        # A greedy set, and sets of this size are not tried here.
        del sizes["E"]
    wanted = find_sizes(case)
    return [
        f"{kind}: {sizes.get(kind)} instead of {wanted.get(kind)}"
        for kind in sorted(sizes.keys() | wanted.keys())
        if sizes.get(kind) != wanted.get(kind)
    ]


@dataclass
class _BruteForce:
    case: Case
    inventory: Inventory = field(init=False)
    holders: dict[Key, Any] = field(init=False)
    allocator: Allocator = field(init=False)

    def __post_init__(self) -> None:
        self.inventory = self.case.inventory()
        self.holders = {key: read("ResourceClaim", body) for key, body in self.case.holders.items()}
        self.allocator = self.without(())

    def find(self) -> dict[str, Size]:
        tried = {
            "T": self.tolerations(),
            "S": self.selectors(),
            "A": self.amounts(),
            "C": self.counts(),
        }
        found: dict[str, Size] = {}
        for kind, edits in tried.items():
            sizes = [size for size, claims in edits if self.fit(claims)]
            if sizes:
                found[kind] = min(sizes)
        conditions = Counter(self.case.obstacles.values())
        sizes = [(nodes,) for name, nodes in conditions.items() if self.fit_without_condition(name)]
        if sizes:
            found["N"] = min(sizes)
        for number in range(1, LARGEST_SET + 1):
            sizes = [
                self.size_of(keys)
                for keys in combinations(self.holders, number)
                if self.fit(self.case.claims, self.without(keys))
            ]
            if sizes:
                found["E"] = min(sizes)
                break
        return found

    def fit(self, claims: Claims, allocator: Allocator | None = None) -> bool:
        found = [read("ResourceClaim", body) for body in claims.values()]
        return isinstance((allocator or self.allocator).allocate(found, self.case.nodes()), Allocated)

    def without(self, keys: tuple[Key, ...]) -> Allocator:
        ledger = Ledger()
        for key, claim in self.holders.items():
            if key not in keys:
                ledger.put(claim)
        return build_allocator(self.inventory, ledger, SearchMode.PLAIN)

    def fit_without_condition(self, name: str) -> bool:
        found = [read("ResourceClaim", body) for body in self.case.claims.values()]
        nodes = self.case.without_condition(name).nodes()
        return isinstance(self.allocator.allocate(found, nodes), Allocated)

    def size_of(self, keys: tuple[Key, ...]) -> Size:
        claims = [self.case.holders[key] for key in keys]
        used = sum("reservedFor" in claim["status"] for claim in claims)
        devices = sum(len(claim["status"]["allocation"]["devices"]["results"]) for claim in claims)
        return len(keys), used, devices

    # --- edits of claims, each with its size

    def tolerations(self) -> Iterator[tuple[Size, Claims]]:
        for taint in [taint for device in self.devices() for taint in device.get("taints", ())]:
            claims = deepcopy(self.case.claims)
            for asked in _asked(claims):
                asked.setdefault("tolerations", []).append({**taint, "operator": "Equal"})
            yield (1,), claims

    def selectors(self) -> Iterator[tuple[Size, Claims]]:
        for place, asked in enumerate(_asked(self.case.claims)):
            for number, selector in enumerate(asked.get("selectors", ())):
                claims = deepcopy(self.case.claims)
                del _asked(claims)[place]["selectors"][number]
                yield (1, 0), claims
                for rank, expression in self.replaced(selector["cel"]["expression"]):
                    claims = deepcopy(self.case.claims)
                    _asked(claims)[place]["selectors"][number]["cel"]["expression"] = expression
                    yield (0, rank), claims

    def replaced(self, expression: str) -> Iterator[tuple[int, str]]:
        """Yield an expression with each literal of a plain comparison replaced by each value, by rank."""
        parts = expression.split(" && ")
        for number, part in enumerate(parts):
            if match := _COMPARISON.fullmatch(part):
                name, literal = match[1], match[2]
                found = [self.value(device, name) for device in self.devices()]
                where = match.span(2)
            elif match := _DRIVER.fullmatch(part):
                literal, where = match[1], match.span(1)
                drivers = [
                    (body["spec"]["driver"], len(body["spec"].get("devices", ())))
                    for kind, body in self.case.objects
                    if kind == "ResourceSlice"
                ]
                found = [f'"{driver}"' for driver, devices in drivers for _ in range(devices)]
            else:
                continue
            values = _ranked(literal, [value for value in found if value is not None])
            for rank, value in enumerate(values):
                edited = f"{part[: where[0]]}{value}{part[where[1] :]}"
                yield rank, " && ".join([*parts[:number], edited, *parts[number + 1 :]])

    def value(self, device: Body, name: str) -> str | None:
        """Return what a device has under a name, as CEL writes it."""
        if name in device["capacity"]:
            return f'"{device["capacity"][name]["value"]}"'
        attribute = device["attributes"].get(name)
        if attribute is None:
            return None
        ((_, value),) = attribute.items()
        return f'"{value}"' if isinstance(value, str) else str(value).lower()

    def amounts(self) -> Iterator[tuple[Size, Claims]]:
        """Yield each whole number of Gi below what is asked for: there are only such in a case."""
        for place, asked in enumerate(_asked(self.case.claims)):
            if "capacity" in asked:
                requested = int(asked["capacity"]["requests"]["memory"].removesuffix("Gi"))
                for amount in range(requested):
                    claims = deepcopy(self.case.claims)
                    _asked(claims)[place]["capacity"]["requests"]["memory"] = f"{amount}Gi"
                    yield (Fraction(requested - amount, requested),), claims

    def counts(self) -> Iterator[tuple[Size, Claims]]:
        for place, asked in enumerate(_asked(self.case.claims)):
            for count in range(1, asked.get("count", 1)):
                claims = deepcopy(self.case.claims)
                _asked(claims)[place]["count"] = count
                yield (asked["count"] - count,), claims

    def devices(self) -> list[Body]:
        return [
            device
            for kind, body in self.case.objects
            if kind == "ResourceSlice"
            for device in body["spec"].get("devices", ())
        ]


def _asked(claims: Claims) -> list[Body]:
    """Return what requests and their alternatives ask for, to be edited in place."""
    found: list[Body] = []
    for body in claims.values():
        for request in body["spec"]["devices"]["requests"]:
            found += request.get("firstAvailable") or [request["exactly"]]
    return found


def _ranked(literal: str, found: list[str]) -> list[str]:
    """Return the other values than a literal in the order in which they are tried, each as CEL writes it."""
    counts = Counter(found)
    del counts[literal]
    text = literal.strip('"')
    if text in _VERSIONS:
        middle = _VERSIONS.index(text)
        places = sorted(_VERSIONS.index(value.strip('"')) for value in counts)
        older = [place for place in reversed(places) if place < middle]
        newer = [place for place in places if place > middle]
        ranks = {place: (rank, 0) for rank, place in enumerate(older)}
        ranks |= {place: (rank, 1) for rank, place in enumerate(newer)}
        return [f'"{_VERSIONS[place]}"' for place in sorted(ranks, key=ranks.__getitem__)]
    if re.fullmatch(r"\d+(Gi)?", text):
        numbers = {value: int(value.strip('"').removesuffix("Gi")) for value in counts}
        middle = int(text.removesuffix("Gi"))
        return sorted(numbers, key=lambda value: (abs(numbers[value] - middle), numbers[value]))
    return sorted(counts, key=lambda value: (-_likeness(value, literal), -counts[value], value))


def _likeness(value: str, literal: str) -> float:
    one, other = (each.strip('"').lower() for each in (value, literal))
    return SequenceMatcher(None, one, other).ratio()
