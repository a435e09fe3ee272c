"""Sweep: the devices of a record over time, each moment as `top` sees it, by going through its changes in their order.

Only the pools that a change touches are asked anew. In a gap a device is used if what held it was there all the while;
what else it was is unknown. Source: docs/history.md.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import Pod
from dra_operator.api.types import ResourceClaim
from dra_operator.history.reader import Moment, Reader, Span, StateRow, build_state
from dra_operator.inventory import PoolKey
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claims import named_claims
from dra_operator.questions.claims import ConsumerIndex, Use, results_of
from dra_operator.questions.contents import gather_stored
from dra_operator.questions.device_table import DeviceRow, DeviceState, DeviceTable, newest_generation
from dra_operator.questions.usage import classes_of_request

UNKNOWN: Final = "unknown"
STATES: Final = (*(each.value for each in DeviceState), UNKNOWN)
_OF_INVENTORY: Final = ("ResourceSlice", "Node", "DeviceTaintRule")
KINDS: Final = (*_OF_INVENTORY, "ResourceClaim", "Pod")
_HELD: Final = (DeviceState.USED, DeviceState.SHARED)
_ORDER: Final = (DeviceState.FREE, DeviceState.TAINTED, DeviceState.BLOCKED)
"""What the rest of a card is: the first of these that a device is in which draws on it."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a claim has of a card: 1 is all of it. `is_published` is False for a device that is not there any more."""

    claim: ClaimKey
    uid: str
    device_class: str
    part: Fraction
    is_idle: bool
    is_published: bool = True


@dataclass(frozen=True, slots=True)
class Card:
    """A device that draws on no counters, or a counter set: how much of it is in each state, which is 1 in all.

    `idle` is what has no holder with a running pod. A device that is not published is no card, and has only `shares`.
    """

    node: str
    states: Mapping[str, Fraction]
    idle: Fraction = Fraction(0)
    shares: tuple[Share, ...] = ()


Cards = dict[tuple[str, ...], Card]


class Sweep:
    """Goes through a span of a record; shares and partitions count by the capacity, or counter, `by_amount`."""

    def __init__(self, reader: Reader, span: Span, by_amount: str = "memory") -> None:
        self.users: dict[str, StateRow] = {}
        """A pod that used a claim, by the uid of the claim; the last one of those that ended."""
        self._by_amount = by_amount
        self._reader = reader
        self._span = span
        self._rows = [*reader.read_states(span, *KINDS)]
        self._state = self._build_empty_state()
        self._table = DeviceTable(self._state)
        self._pods: dict[tuple[str, str], Pod] = {}
        self._groups: dict[tuple[str, str], list[Pod]] = {}
        self._consumers = ConsumerIndex(self._pods, self._groups, {}, are_pods_known=True)
        self._claims: dict[ClaimKey, ResourceClaim] = {}
        self._names: dict[tuple[str, str], set[ClaimKey]] = defaultdict(set)
        """The claims that are reserved for a pod."""
        self._dirty: set[PoolKey] = set()
        self._is_gap = False

    def _build_empty_state(self) -> Any:
        """Return a state without objects, which owns devices if anything in the span does."""
        bodies = tuple(row.body for row in self._rows if row.kind in _OF_INVENTORY)
        state = build_state(Moment(self._span.until, bodies, {}, ""))
        for name in [*state.inventory.rules]:
            state.inventory.remove("DeviceTaintRule", name)
        for row in self._rows:
            if row.kind in ("ResourceSlice", "Node"):
                state.inventory.remove(row.kind, row.name)
        return state

    def run(self, take: Callable[[Span, Cards], None], every: int = 0) -> None:
        """Call `take` with what cards there were for each span in which nothing of them changed, pool by pool.

        What there is at the boundaries of `every` microseconds is given in parts.
        """
        current: dict[PoolKey, tuple[int, Cards]] = {}
        for at, rows in self._moments(every):
            for row, begins in rows:
                self._apply(row, begins=begins)
            gap = self._reader.find_gap(at)
            if (gap is not None) != self._is_gap:
                self._is_gap = gap is not None
                self._dirty |= current.keys()
            is_boundary = at >= self._span.until or (every and (at - self._span.since) % every == 0)
            changed = {key: self._find_cards(key) for key in self._dirty}
            self._dirty.clear()
            for key in current.keys() | changed.keys() if is_boundary else changed:
                since, before = current.get(key, (at, {}))
                after = changed.get(key, before)
                if before and at > since and (is_boundary or after != before):
                    take(Span(since, at), before)
                elif before == after:
                    continue
                current[key] = at, after

    def _moments(self, every: int) -> Iterator[tuple[int, list[tuple[StateRow, bool]]]]:
        """Yield each time of the span at which something begins or ends, in order, ends before beginnings."""
        span, found = self._span, defaultdict[int, list[tuple[StateRow, bool]]](list)
        for row in self._rows:
            found[max(row.since, span.since)].append((row, True))
            if row.until < span.until or not row.is_open:
                found[min(row.until, span.until)].append((row, False))
        for gap in self._reader.gaps:
            for each in gap:
                if span.since <= each < span.until:
                    found[each] += []
        for at in range(span.since, span.until, every) if every else (span.since,):
            found[at] += []
        found[span.until] += []
        for at in sorted(found):
            yield at, sorted(found[at], key=lambda each: each[1])

    # --- one change

    def _apply(self, row: StateRow, *, begins: bool) -> None:
        match row.kind:
            case "ResourceClaim":
                self._apply_claim(row, begins=begins)
            case "Pod":
                self._apply_pod(row, begins=begins)
            case _:
                self._apply_inventory(row, begins=begins)

    def _apply_inventory(self, row: StateRow, *, begins: bool) -> None:
        inventory = self._state.inventory
        self._dirty |= inventory.pools.keys() if row.kind != "ResourceSlice" else set()
        if begins:
            inventory.put(_read(row))
        else:
            inventory.remove(row.kind, row.name)
        if row.kind == "ResourceSlice":
            spec = row.body["spec"]
            self._dirty.add((spec["driver"], spec["pool"]["name"]))
        if inventory.settlement is not None:
            inventory.settle(inventory.rules.keys(), inventory.pools.keys())
            self._dirty |= inventory.pools.keys()

    def _apply_claim(self, row: StateRow, *, begins: bool) -> None:
        claim: ResourceClaim = _read(row)
        key = claim_key(claim)
        if begins:
            self._claims[key] = claim
            self._state.ledger.put(claim)
        elif self._claims.get(key) is not None:
            del self._claims[key]
            self._state.ledger.remove(*key)
        self._dirty |= {(result.driver, result.pool) for result in results_of(claim)}
        for entry in claim.status.reserved_for:
            (self._names[key[0], entry.name].add if begins else self._names[key[0], entry.name].discard)(key)

    def _apply_pod(self, row: StateRow, *, begins: bool) -> None:
        pod: Pod = _read(row)
        key = row.namespace, row.name
        if begins:
            self._pods[key] = pod
        elif self._pods.get(key) is not None:
            del self._pods[key]
        group = pod.spec.scheduling_group
        if group is not None and group.pod_group_name:
            members = self._groups.setdefault((key[0], group.pod_group_name), [])
            members[:] = [each for each in members if each.metadata.name != pod.metadata.name]
            members += [pod] if begins else []
        names = {(key[0], name) for name in named_claims(pod)}
        if group is not None and group.pod_group_name:
            names |= self._names[key[0], group.pod_group_name]
        for name in names | self._names[key]:
            if (claim := self._claims.get(name)) is not None:
                self._dirty |= {(result.driver, result.pool) for result in results_of(claim)}
                if begins:
                    self.users[claim.metadata.uid] = row

    # --- what there is

    def _find_cards(self, key: PoolKey) -> Cards:
        """Return the cards of a pool, and what is held of it that is not published."""
        ledger, cards = self._state.ledger, Cards()
        held = {*ledger.held(key), *ledger.shared(key)}
        if key in self._state.inventory.pools:
            pool = newest_generation(self._state.inventory, key)
            rows = [*self._table.rows_of(pool)]
            held -= {row.name for row in rows}
            by_set = defaultdict[str, list[tuple[DeviceRow, Fraction]]](list)
            layout = pool.judgement.counters
            for row in rows:
                parts = self._parts_of(layout, row) if layout is not None else {}
                for name, part in parts.items():
                    by_set[name].append((row, part))
                if not parts:
                    state = row.state
                    shares = self._shares(row, Fraction(1))
                    cards[(*key, row.slice_.name, row.name)] = self._card(
                        row.node, {state: Fraction(1)}, shares
                    )
            for name, drawing in by_set.items():
                cards[(*key, name)] = self._counted_card(drawing)
        for device in held:
            shares = tuple(self._shares_of(key, device, {}, Fraction(1), is_published=False))
            cards[(*key, "", device)] = Card("", {}, shares=shares)
        return cards

    def _parts_of(self, layout: Any, row: DeviceRow) -> dict[str, Fraction]:
        """Return which part of each counter set a device draws."""
        found: dict[str, dict[str, Fraction]] = defaultdict(dict)
        for position, amount in (
            layout.draw(row.slice_, row.index).amounts if row.slice_.counted >> row.index & 1 else ()
        ):
            name, counter = layout.names[position]
            if layout.totals[position] > 0:
                found[name][counter] = Fraction(max(amount, 0), layout.totals[position])
        return {name: min(each[self._choose(each)], Fraction(1)) for name, each in found.items()}

    def _choose(self, names: Iterable[str]) -> str:
        known = sorted(names)
        return next((each for each in known if each.rpartition("/")[2] == self._by_amount), known[0])

    def _card(self, node: str, states: Mapping[DeviceState, Fraction], shares: tuple[Share, ...]) -> Card:
        """Return a card; in a gap it is used as far as what held it stayed, and else unknown."""
        used = states.get(DeviceState.USED, Fraction(0))
        idle = Fraction(0)
        if self._is_gap:
            found = {DeviceState.USED.value: used, UNKNOWN: 1 - used}
            shares = tuple(share for share in shares) if used else ()
        else:
            found = {state.value: part for state, part in states.items()}
            if shares and all(share.is_idle for share in shares):
                idle = sum((states.get(each, Fraction(0)) for each in _HELD), Fraction(0))
        return Card(node, {name: part for name, part in found.items() if part}, idle, shares)

    def _counted_card(self, drawing: list[tuple[DeviceRow, Fraction]]) -> Card:
        """Return a counter set: what is drawn is held, and the rest is what the best of the other devices is."""
        states: dict[DeviceState, Fraction] = defaultdict(Fraction)
        left, idle, shares = Fraction(1), Fraction(0), list[Share]()
        for row, part in drawing:
            if row.state in _HELD:
                taken = min(part, left)
                left -= taken
                states[row.state] += taken
                own = self._shares(row, taken)
                shares += own
                if own and all(share.is_idle for share in own):
                    idle += taken
        others = {row.state for row, _ in drawing}
        rest = next((each for each in _ORDER if each in others), DeviceState.BLOCKED)
        states[rest] += left
        card = self._card(drawing[0][0].node, states, tuple(shares))
        return Card(card.node, card.states, Fraction(0) if self._is_gap else idle, card.shares)

    def _shares(self, row: DeviceRow, part: Fraction) -> tuple[Share, ...]:
        capacity = {name: each.value.nano for name, each in row.slice_.capacity_of(row.index).items()}
        return tuple(self._shares_of(row.pool.key, row.name, capacity, part, is_published=True))

    def _shares_of(
        self, pool: PoolKey, device: str, capacity: Mapping[str, int], part: Fraction, *, is_published: bool
    ) -> Iterator[Share]:
        """Yield what each claim has of a device: all of it, its part of the capacity, or one of n if it names none."""
        results = [
            (key, result)
            for key in sorted(self._state.ledger.holders(pool, [device]))
            for result in self._state.ledger.results(key)
            if (result.driver, result.pool, result.device) == (*pool, device) and not result.admin_access
        ]
        for key, result in results:
            claim = self._claims[key]
            consumed = {
                name: each.nano for name, each in result.consumed_capacity.items() if capacity.get(name)
            }
            own = Fraction(1, len(results))
            if result.share_id and consumed:
                name = self._choose(consumed)
                own = min(Fraction(consumed[name], capacity[name]), Fraction(1))
            use = self._consumers.find_use(claim)
            classes = sorted(classes_of_request(claim, result.request))
            is_idle = use is not Use.UNKNOWN and use is not Use.RUNNING and not self._is_gap
            yield Share(
                key, claim.metadata.uid, classes[0] if classes else "", own * part, is_idle, is_published
            )


def _read(row: StateRow) -> Any:
    """Return the object of a row, as an API server sends it."""
    (record,) = gather_stored([row.body]).records.values()
    return record.obj
