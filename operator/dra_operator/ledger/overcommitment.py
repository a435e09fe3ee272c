"""Overcommitment: a counter, or a capacity of a shared device, of which more is allocated than is published.

Two allocators that decide at once bring it about, or a driver that publishes less than before. Claims did if all fits
without those whose allocation came in just now, and as much is published as when the pool was complete the last time;
otherwise slices did (docs/operator.md). Incremental: our own decisions never overcommit, so only pools are looked at
that changed, or where an allocation of others came in.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum

from dra_operator.inventory import Features, Inventory, PoolKey, Verdict
from dra_operator.inventory.change_set import ChangeSet
from dra_operator.inventory.pool import CounterLayout, Judgement
from dra_operator.inventory.slices import Slice
from dra_operator.ledger.allocated_state import ClaimKey, Ledger
from dra_operator.ledger.availability import CounterState

_FEATURES = Features.all_on()


class Resource(Enum):
    """What there is too little of; the value is the word for it."""

    COUNTER = "counter"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class Part:
    """An amount, in nano-units, that comes back when the last of some claims is gone."""

    amount: int
    claims: frozenset[ClaimKey]


@dataclass(frozen=True, slots=True)
class Overcommitment:
    """Too little of a counter of a counter set, or of a capacity of a device: `owner` is that set or device.

    `total` is what `slice_name` publishes, `used` what is allocated, in nano-units; `node` is empty if the devices are
    not those of one node. `by_claims` says that claims brought it about, not slices.
    """

    pool: PoolKey
    resource: Resource
    owner: str
    name: str
    total: int
    used: int
    parts: tuple[Part, ...]
    slice_name: str
    node: str
    by_claims: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """What it is about, and how much there is of that; another amount makes it another case."""
        return (self.pool, self.resource, self.owner, self.name, self.total)

    @property
    def excess(self) -> int:
        """How much is allocated beyond what there is."""
        return self.used - self.total

    @property
    def claims(self) -> tuple[ClaimKey, ...]:
        """The claims that take part, sorted."""
        return tuple(sorted({claim for part in self.parts for claim in part.claims}))

    def returned(self, claims: Collection[ClaimKey]) -> int:
        """Return what comes back when all these claims are gone."""
        return sum(part.amount for part in self.parts if part.claims.issubset(claims))


@dataclass(slots=True)
class Overcommitments:
    """Finds what is overcommitted, and remembers what claims brought about."""

    inventory: Inventory
    ledger: Ledger
    _changes: ChangeSet = field(init=False)
    _complete: dict[PoolKey, Judgement] = field(default_factory=dict)
    """The last verdict on each pool that is in use, of when it was complete."""
    _incomplete: set[PoolKey] = field(default_factory=set)
    _found: dict[PoolKey, tuple[Overcommitment, ...]] = field(default_factory=dict)
    _by_claims: dict[PoolKey, frozenset[tuple[object, ...]]] = field(default_factory=dict)
    """The keys of the cases that claims brought about. Kept while a pool is incomplete: most are, with each update."""
    _ledger_version: int = -1
    _is_started: bool = False

    def __post_init__(self) -> None:
        self._changes = self.inventory.subscribe()

    def find(self) -> tuple[Overcommitment, ...]:
        """Return what is overcommitted now, sorted. Everything has been listed."""
        newcomers = self._pop_newcomers()
        changed, self._changes.pools = self._changes.pools, {}
        self._changes.nodes.clear()
        self._changes.classes.clear()
        keys = {*newcomers, *changed}
        if self.ledger.version != self._ledger_version:
            keys |= self._found.keys()
        self._ledger_version = self.ledger.version
        for key in keys:
            self._judge_pool(key, newcomers.get(key, frozenset()), has_changed=key in changed)
        self._is_started = True
        found = [item for items in self._found.values() for item in items]
        return tuple(sorted(found, key=lambda item: (item.pool, item.resource.value, item.owner, item.name)))

    def _pop_newcomers(self) -> Mapping[PoolKey, AbstractSet[ClaimKey]]:
        """Return the claims that came in as allocated since the last call, by pool; none where all are new."""
        found: dict[PoolKey, set[ClaimKey]] = {}
        for claim in self.ledger.pop_arrived():
            for result in self.ledger.results(claim) if self._is_started else ():
                found.setdefault((result.driver, result.pool), set()).add(claim)
        return found

    def _judge_pool(self, key: PoolKey, came: AbstractSet[ClaimKey], *, has_changed: bool) -> None:
        """Find the cases of a pool; none while it is not complete."""
        self._found.pop(key, None)
        if not self._is_concerned(key):
            self._incomplete.discard(key)
            self._complete.pop(key, None)
            self._by_claims.pop(key, None)
            return
        last = judgement = self._complete.get(key)
        if judgement is None or has_changed or key in self._incomplete:
            judgement = self.inventory.pools[key].judge_all(_FEATURES)
            if judgement.verdict is not Verdict.COMPLETE:
                self._incomplete.add(key)
                return
            self._complete[key] = judgement
            self._incomplete.discard(key)
        blamed, before = self._by_claims.get(key, frozenset()), last if has_changed else judgement

        def is_by_claims(item: Overcommitment) -> bool:
            if item.key in blamed:
                return True
            return item.returned(came) >= item.excess and _total(before, item) == item.total

        cases = list(self._find_in(key, judgement))
        if found := tuple([replace(item, by_claims=is_by_claims(item)) for item in cases]):
            self._found[key] = found
        self._by_claims[key] = frozenset(item.key for item in found if item.by_claims)

    def _is_concerned(self, key: PoolKey) -> bool:
        """Return whether something of a pool is in use, and could be overcommitted."""
        pool = self.inventory.pools.get(key)
        if pool is None or not (self.ledger.held(key) or self.ledger.shared(key)):
            return False
        return any(slice_.counted or slice_.shareable for slice_ in pool.slices.values())

    def _find_in(self, key: PoolKey, judgement: Judgement) -> Iterator[Overcommitment]:
        """Yield what is overcommitted of a pool."""
        held, shared = self.ledger.held(key), self.ledger.shared(key)
        if (layout := judgement.counters) is not None:
            used = layout.draws.keys() & {*held, *shared}
            yield from _counters(key, judgement, layout, self.ledger, used)
        for slice_ in judgement.slices if shared else ():
            if slice_.shareable:
                for device in sorted(shared.keys() & slice_.indexes.keys()):
                    yield from _capacities(key, slice_, device, self.ledger)


def _total(judgement: Judgement | None, item: Overcommitment) -> int | None:
    """Return how much a pool published of what a case is about; None if it was not there, or is not known."""
    if judgement is None:
        return None
    if item.resource is Resource.COUNTER:
        layout, name = judgement.counters, (item.owner, item.name)
        return None if layout is None or name not in layout.names else layout.totals[layout.names.index(name)]
    for slice_ in judgement.slices:
        index, column = slice_.indexes.get(item.owner), slice_.capacity.get(item.name)
        if index is not None and column is not None and (capacity := column.values[index]) is not None:
            return capacity.value.nano
    return None


def _counters(
    key: PoolKey, judgement: Judgement, layout: CounterLayout, ledger: Ledger, used: Collection[str]
) -> Iterator[Overcommitment]:
    """Yield the counters that are overdrawn, given the devices in use that draw on them.

    They are counted as the allocator counts them: each device pays once.
    """
    state = CounterState(layout)
    for device in used:
        state.mark(device, used=True)
    if not state.overdrawn:
        return
    for position, left in enumerate(state.left):
        if left >= 0:
            continue
        owner, name = layout.names[position]
        publisher = next(
            item for item in judgement.slices if any(each.name == owner for each in item.counter_sets)
        )
        amounts = Counter[frozenset[ClaimKey]]()
        for device in sorted(used):
            if (taken := _drawn(layout, device, position)) > 0:
                amounts[frozenset(ledger.holders(key, [device]))] += taken
        total = layout.totals[position]
        yield Overcommitment(
            pool=key,
            resource=Resource.COUNTER,
            owner=owner,
            name=name,
            total=total,
            used=total - left,
            parts=tuple(Part(amount, claims) for claims, amount in amounts.items()),
            slice_name=publisher.name,
            node=publisher.nodes.node_name or "",
        )


def _drawn(layout: CounterLayout, device: str, position: int) -> int:
    """Return what a device draws of a counter."""
    return sum(amount for draw in layout.draws[device] for at, amount in draw.amounts if at == position)


def _capacities(key: PoolKey, slice_: Slice, device: str, ledger: Ledger) -> Iterator[Overcommitment]:
    """Yield the capacities of a shared device of which its shares consume more than there is."""
    index, shares = slice_.indexes[device], ledger.shared(key)[device]
    if not slice_.shareable >> index & 1:
        return
    for name, used in sorted(shares.amounts.items()):
        column = slice_.capacity.get(name)
        published = None if column is None else column.values[index]
        if published is None or used <= published.value.nano:
            continue
        amounts = {claim: _consumed(ledger, claim, key, device, name) for claim in sorted(set(shares.claims))}
        yield Overcommitment(
            pool=key,
            resource=Resource.CAPACITY,
            owner=device,
            name=name,
            total=published.value.nano,
            used=used,
            parts=tuple(Part(amount, frozenset({claim})) for claim, amount in amounts.items() if amount > 0),
            slice_name=slice_.name,
            node=slice_.effective_nodes(index).node_name or "",
        )


def _consumed(ledger: Ledger, claim: ClaimKey, key: PoolKey, device: str, name: str) -> int:
    """Return what the shares that a claim has of a device consume of a capacity, in nano-units."""
    amounts = [
        result.consumed_capacity.get(name)
        for result in ledger.results(claim)
        if ((result.driver, result.pool), result.device) == (key, device)
        if result.share_id and not result.admin_access
    ]
    return sum(amount.nano for amount in amounts if amount is not None)
