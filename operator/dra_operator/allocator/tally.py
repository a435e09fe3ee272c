"""The tally: how many devices there are for a request, and what keeps each of them from it.

A device counts at the first obstacle it meets, in the order in which the allocator meets them, so that the numbers add
up: published, in the class, selected, and then down to those that are left. Devices are those of the newest generation
of each pool, whichever node they are on.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dra_operator.allocator import comparison
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import Candidates, untolerated
from dra_operator.allocator.capacity import CapacityError, Consumed, has_room, refusal
from dra_operator.allocator.census import Census, Group, Grouping, Place, PoolRecord, Projection
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.parts import Failure, Part, Parts, Refused
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.selectors import SelectorAnswers
from dra_operator.allocator.tainted import taint_text
from dra_operator.api.quantity import NANO, Family, family, format_amount
from dra_operator.inventory import Inventory, Slice, Verdict, bits
from dra_operator.ledger import Availability

_MAX_DETAILS = 3
_MEBI = 2**20 * NANO
_MAX_TOLD = 131_072
"""How many texts are kept of what slices lack."""


@dataclass(slots=True)
class Obstacle:
    """What keeps devices from a request: a reason, how many it keeps, and details with their own counts.

    `failure` is a device on which a selector fails.
    """

    reason: Reason
    count: int = 0
    details: Counter[str] = field(default_factory=Counter)
    failure: Failure | None = None

    def blame(self, number: int, place: int, content: Slice, failed: int) -> None:
        """Note on which devices of a slice a selector fails; the first one is remembered."""
        if failed and self.failure is None:
            self.failure = Failure(number, place, content, bits.lowest(failed))

    def refused(self) -> Refused:
        """Return what it keeps away, as it is kept."""
        details = self.details
        return Refused(self.reason, self.count, tuple(details), tuple(details.values()), self.failure)

    def detail(self, more: str = "") -> str:
        """Return the most frequent details, and a clause that goes on with them, or nothing."""
        if not self.details:
            return ""
        ranked = sorted(self.details.items(), key=lambda item: (-item[1], item[0]))
        texts = [f"{text} on {count}" for text, count in ranked[:_MAX_DETAILS]]
        if len(ranked) > _MAX_DETAILS:
            texts.append(f"{len(ranked) - _MAX_DETAILS} more")
        return f" ({', '.join(texts)}{more})"


@dataclass(slots=True)
class Tally:
    """The devices of one alternative: published, in its class, selected, kept away by obstacles in order, and left.

    `selectors` holds, for each request selector by number, the devices that it was the first to refuse. `left` counts
    the devices that are left by node, those usable on several nodes by each; `rivals` are those of them that draw on
    counters, so that one may leave too little for the next, and `grouped` those of them whose slice has compatibility
    groups. `most_on_a_node` are left on one node, and `most_if_free`
    would be if no device were in use. `claims` are those that hold devices in use.
    """

    published: int = 0
    in_class: int = 0
    class_details: Obstacle = field(default_factory=lambda: Obstacle(Reason.CLASS_MATCHES_NO_DEVICE))
    selectors: list[Obstacle] = field(default_factory=list)
    obstacles: dict[Reason, Obstacle] = field(default_factory=dict)
    left: int = 0
    rivals: int = 0
    grouped: int = 0
    most_on_a_node: int = 0
    most_if_free: int = 0
    claims: set[tuple[str, str]] = field(default_factory=set)

    @property
    def selected(self) -> int:
        """The devices that all selectors select."""
        return self.in_class - sum(item.count for item in self.selectors)


Refusal = tuple[Reason, int, str]
"""A reason, the devices it refuses, and a detail."""


@dataclass(slots=True)
class TallyMaker:
    """Counts for an alternative, from what it counted for groups of pools.

    What it asks of selectors is kept with their other answers; `told` keeps what equal slices have been told to lack.
    """

    inventory: Inventory
    availability: Availability
    candidates: Candidates
    told: dict[object, Counter[str]] = field(default_factory=dict)
    _texts: int = 0
    _parts: Parts = field(default_factory=Parts)
    _census: Census | None = None

    def make(self, alternative: Alternative, budget: Budget) -> Tally:
        """Return the tally of an alternative. Raises AbortedError if the time is used up."""
        if self._census is None:
            # Whoever never explains need not follow what changes.
            self._census = Census(self.inventory, self.availability, self.candidates.features)
        grouping = self._census.grouping(self._projection(alternative))
        content = alternative.key.content
        total = Tally()
        total.selectors = [Obstacle(Reason.SELECTOR_MATCHES_NO_DEVICE) for _ in content.request_selectors]
        parts = self._count_all(alternative, grouping, budget)
        for group, part in parts.items():
            _add(total, part, group)
            if any(part.kept):
                total.claims |= group.owners(self.availability, part.kept)
        shapes = grouping.shapes(self.availability.views)
        if total.left:
            each = (sum([parts[group].left_on[slot] for group, slot in shape]) for shape in shapes)
            total.most_on_a_node = total.most_if_free = max(each, default=0)
        if not _FREED.isdisjoint(total.obstacles):
            each = (sum([parts[group].free_on[slot] for group, slot in shape]) for shape in shapes)
            total.most_if_free = max(each, default=0)
        return total

    def _projection(self, alternative: Alternative) -> Projection:
        """Return the attributes that the selectors of an alternative read."""
        names: set[str] = set()
        content = alternative.key.content
        for expression in (*content.class_selectors, *content.request_selectors):
            program = self.candidates.selectors.get(expression).program
            if program is None:
                continue
            if program.reads is None:
                return None
            names.update(
                read.removeprefix("attributes/") for read in program.reads if read.startswith("attributes/")
            )
        return frozenset(names)

    def _count_all(
        self, alternative: Alternative, grouping: Grouping, budget: Budget
    ) -> Mapping[Group, Part]:
        """Return the part of each group; of those that were counted before, the part that is known."""
        asked = (alternative.key.serial, alternative.admin_access)
        known = self._parts.of(asked)
        parts: dict[Group, Part] = {}
        try:
            for group in grouping.groups.values():
                part = known.get(group)
                parts[group] = part or self._parts.share(self._count(alternative, group.example, budget))
        except AbortedError:
            # The next attempt goes on from here.
            self._parts.keep(asked, {**known, **parts})
            raise
        self._parts.keep(asked, parts)
        return parts

    def _count(self, alternative: Alternative, record: PoolRecord, budget: Budget) -> Part:
        tally = Tally()
        tally.selectors = [
            Obstacle(Reason.SELECTOR_MATCHES_NO_DEVICE) for _ in alternative.key.content.request_selectors
        ]
        kept: list[int] = []
        left = [0] * len(record.slots)
        free = [0] * len(record.slots)
        for number, place in enumerate(record.places):
            selected = self._select(tally, alternative, number, place.content, budget)
            remaining, freed, in_use = self._obstruct(tally, alternative, record, place, selected)
            kept.append(in_use)
            tally.left += remaining.bit_count()
            rivals = (remaining & place.content.counted).bit_count()
            tally.rivals += rivals
            tally.grouped += rivals if place.content.has_groups else 0
            for slot, visible in place.slots:
                left[slot] += (remaining & visible).bit_count()
                free[slot] += ((remaining | freed) & visible).bit_count()
        obstacles = (tally.class_details, *tally.selectors, *tally.obstacles.values())
        return Part(
            published=tally.published,
            in_class=tally.in_class,
            left=tally.left,
            rivals=tally.rivals,
            grouped=tally.grouped,
            class_details=tally.class_details.refused(),
            selectors=tuple([item.refused() for item in tally.selectors]),
            obstacles=tuple([item.refused() for item in tally.obstacles.values()]),
            kept=tuple(kept),
            left_on=tuple(left),
            free_on=tuple(free),
            texts=sum([len(item.details) for item in obstacles]),
        )

    # --- selectors

    def _select(
        self, tally: Tally, alternative: Alternative, place: int, content: Slice, budget: Budget
    ) -> int:
        selected = bits.first(len(content.names))
        tally.published += selected.bit_count()
        for number, expression in enumerate(alternative.key.content.class_selectors):
            selected, failed = self._ask(tally.class_details, expression, content, selected, budget)
            tally.class_details.blame(number, place, content, failed)
        tally.in_class += selected.bit_count()
        for number, expression in enumerate(alternative.key.content.request_selectors):
            obstacle = tally.selectors[number]
            selected, failed = self._ask(obstacle, expression, content, selected, budget)
            obstacle.blame(number, place, content, failed)
        return selected

    def _ask(
        self, obstacle: Obstacle, expression: str, content: Slice, wanted: int, budget: Budget
    ) -> tuple[int, int]:
        """Return the devices that a selector selects, and those on which it fails; count those it refuses."""
        if not wanted:
            return 0, 0
        answers = self.candidates.selectors.get(expression)
        selected, failed = answers.ask(content, wanted, budget)
        if refused := wanted & ~selected:
            obstacle.count += refused.bit_count()
            if failed:
                obstacle.details.update(answers.errors(content, failed))
            self._compare(obstacle, expression, content, refused & ~failed, budget)
        return selected, failed

    def _compare(
        self, obstacle: Obstacle, expression: str, content: Slice, refused: int, budget: Budget
    ) -> None:
        """Add what the first false part of an expression compared, for the devices it refused."""
        parts = comparison.conjuncts(expression)
        for part in parts:
            if not refused:
                return
            passed = 0
            answers = self.candidates.selectors.get(part)
            if len(parts) > 1:
                passed, _ = answers.ask(content, refused, budget)
            if refused & ~passed and (told := _comparison(answers)) is not None:
                obstacle.details.update(self._told(told, content, refused & ~passed))
            refused = passed

    def _told(
        self, compared: comparison.Comparison | comparison.Reading, content: Slice, devices: int
    ) -> Counter[str]:
        serials = tuple(column and column.serial for column in compared.columns(content))
        key = (compared, content.driver, content.shareable, serials, devices)
        if (found := self.told.get(key)) is None:
            if self._texts > _MAX_TOLD:
                self.told.clear()
                self._texts = 0
            found = self.told[key] = compared.tell(content, devices)
            self._texts += len(found)
        return found

    # --- everything else

    def _obstruct(
        self, tally: Tally, alternative: Alternative, record: PoolRecord, place: Place, devices: int
    ) -> tuple[int, int, int]:
        """Count what keeps the selected devices of a place away.

        Returns those left, those that would be left as well if no device were in use, and those that uses keep.
        """
        freed = in_use = 0
        steps = (self._pool, self._amounts, self._taints, self._nodes, self._operations, self._uses)
        for step in (*steps, self._counters, self._shares):
            if not devices:
                break
            for reason, refused, detail in step(alternative, record, place, devices):
                obstacle = tally.obstacles.setdefault(reason, Obstacle(reason))
                obstacle.count += refused.bit_count()
                if detail:
                    obstacle.details[detail] += refused.bit_count()
                if reason in _USES:
                    in_use |= refused
                if reason in _FREED:
                    freed |= refused
                devices &= ~refused
        return devices, freed, in_use

    def _pool(self, _: Alternative, record: PoolRecord, _place: Place, devices: int) -> Iterator[Refusal]:
        judgement = record.judgement
        if judgement.verdict is not Verdict.COMPLETE:
            incomplete = judgement.verdict is Verdict.INCOMPLETE
            reason = Reason.POOL_INCOMPLETE if incomplete else Reason.POOL_INVALID
            yield reason, devices, f"{'/'.join(record.pool.key)}: {judgement.reason}"

    def _amounts(
        self, alternative: Alternative, _: PoolRecord, place: Place, devices: int
    ) -> Iterator[Refusal]:
        if not alternative.key.requests and not place.content.capacity:
            return
        for index in bits.each(devices):
            consumed = self.candidates.consumed(alternative.key, place.content, index)
            if isinstance(consumed, CapacityError):
                yield Reason.CAPACITY_REQUEST_INVALID, 1 << index, str(consumed)
            elif consumed is None:
                yield Reason.CAPACITY_TOO_SMALL, 1 << index, self._refusal(alternative, place.content, index)

    def _refusal(self, alternative: Alternative, content: Slice, index: int) -> str:
        published = {name: column.values[index] for name, column in content.capacity.items()}
        capacity = {name: value for name, value in published.items() if value is not None}
        fractional = self.candidates.features.fractional_capacity_range
        return refusal(alternative.key.requests, capacity, fractional=fractional)

    def _taints(
        self, alternative: Alternative, _: PoolRecord, place: Place, devices: int
    ) -> Iterator[Refusal]:
        tolerated = self.candidates.tolerated(alternative.key, place.content, devices)
        for index in bits.each(devices & ~tolerated):
            taint = untolerated(place.content.taints[index], alternative.tolerations)
            assert taint is not None
            yield Reason.DEVICE_TAINTED, 1 << index, taint_text(taint)

    def _nodes(self, _: Alternative, _record: PoolRecord, place: Place, devices: int) -> Iterator[Refusal]:
        for index in bits.each(devices & ~place.reachable):
            yield Reason.NODE_UNUSABLE, 1 << index, place.unreachable[index]

    def _operations(
        self, _: Alternative, _record: PoolRecord, place: Place, devices: int
    ) -> Iterator[Refusal]:
        if not place.operations:
            yield Reason.NODE_OPERATIONS_UNSUPPORTED, devices, "their nodes cannot skip node operations"

    def _uses(self, alternative: Alternative, _: PoolRecord, place: Place, devices: int) -> Iterator[Refusal]:
        if not alternative.admin_access and (taken := devices & place.taken):
            yield Reason.DEVICE_IN_USE, taken, ""

    def _counters(self, _: Alternative, record: PoolRecord, place: Place, devices: int) -> Iterator[Refusal]:
        layout = record.judgement.counters
        state = None if layout is None else self.availability.find_counters(layout)
        if layout is None or state is None:
            return
        content = place.content
        for index in bits.each(devices & content.counted & ~(content.shareable & place.sharing)):
            draw = layout.draw(content, index)
            placed = state.placed()
            apart = next(
                (
                    f"{_groups(groups)} beside {_groups(there.shared)}"
                    for number, groups in draw.groups
                    if (there := placed[number]) and not there.admits(groups)
                ),
                None,
            )
            if apart is not None:
                yield Reason.GROUP_INCOMPATIBLE, 1 << index, apart
                continue
            short = next(((at, amount) for at, amount in draw.amounts if state.left[at] < amount), None)
            if short is not None:
                at, amount = short
                yield Reason.COUNTERS_EXHAUSTED, 1 << index, _short(layout.names[at], state.left[at], amount)
            elif state.overdrawn:
                yield Reason.COUNTERS_EXHAUSTED, 1 << index, "a counter of the pool is overdrawn"

    def _shares(
        self, alternative: Alternative, _: PoolRecord, place: Place, devices: int
    ) -> Iterator[Refusal]:
        for index in bits.each(devices & place.sharing):
            amounts = place.shared[index]
            consumed = self.candidates.consumed(alternative.key, place.content, index)
            if amounts and isinstance(consumed, Consumed) and not has_room(consumed, amounts, {}):
                yield Reason.CAPACITY_EXHAUSTED, 1 << index, _exhausted(consumed, amounts)


def _comparison(answers: SelectorAnswers) -> comparison.Comparison | comparison.Reading | None:
    """Return what can be told of a part of an expression: what it compares, or else what it reads."""
    plain = comparison.read(answers.expression)
    if plain is not None or answers.program is None:
        return plain
    return comparison.reading(answers.program.reads)


def _add(total: Tally, part: Part, group: Group) -> None:
    """Add what one pool of a group has to a total, once for each pool of the group."""
    times = len(group.members)
    total.published += part.published * times
    total.in_class += part.in_class * times
    total.left += part.left * times
    total.rivals += part.rivals * times
    total.grouped += part.grouped * times
    _join(total.class_details, part.class_details, group)
    for mine, other in zip(total.selectors, part.selectors, strict=True):
        _join(mine, other, group)
    for other in part.obstacles:
        _join(total.obstacles.setdefault(other.reason, Obstacle(other.reason)), other, group)


def _join(total: Obstacle, part: Refused, group: Group) -> None:
    if not part.devices:
        return
    times = len(group.members)
    total.count += part.devices * times
    for text, count in zip(part.details, part.of_details, strict=True):
        total.details[text] += count * times
    if part.failure is None:
        return
    # The first pool by name, so that the text stays the same while groups come and go.
    first = group.members[min(group.members)]
    failure = replace(part.failure, content=first.places[part.failure.place].content)
    if total.failure is None or failure.order < total.failure.order:
        total.failure = failure


_USES = frozenset((Reason.DEVICE_IN_USE, Reason.CAPACITY_EXHAUSTED))
_FREED = _USES | {Reason.COUNTERS_EXHAUSTED, Reason.GROUP_INCOMPATIBLE}


def _groups(names: frozenset[str]) -> str:
    """Return the compatibility groups of a device, or those that the devices in use share."""
    return f"group{'s' if len(names) > 1 else ''} {', '.join(sorted(names))}" if names else "no group"


def _short(counter: tuple[str, str], left: int, wanted: int) -> str:
    """Return what is left of a counter and what a device takes, in nano-units: memory shows by its round numbers."""
    binary = wanted % _MEBI == left % _MEBI == 0
    written = Family.BINARY if binary else Family.DECIMAL
    return f"{'/'.join(counter)} {format_amount(left, written)} left < {format_amount(wanted, written)}"


def _exhausted(consumed: Consumed, used: Mapping[str, int]) -> str:
    for name, amount, value in consumed.amounts:
        left = value - used.get(name, 0)
        if left < amount.nano:
            return f"{name} {format_amount(left, family(amount))} left < {amount.text}"
    return ""
