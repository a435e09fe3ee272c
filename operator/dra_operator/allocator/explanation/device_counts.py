"""Device counts: how many devices there are for a request, and what keeps each of the others from it.

A device counts at the first obstacle it meets, in the order in which the allocator meets them, so that the numbers add
up: published, in the class, selected, and then down to those that are left. Pools that look the same to a request are
counted once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import or_
from typing import Final, NamedTuple

from dra_operator.allocator import comparison
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, PreemptedError
from dra_operator.allocator.explanation.answer_cache import AnswerCache, never
from dra_operator.allocator.explanation.obstacles import PASSING, USES, Obstacles, Refusal
from dra_operator.allocator.explanation.pool_records import (
    AttributeNames,
    Group,
    PoolRecord,
    PoolRecords,
    SliceRecord,
)
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.matching.selectors import SelectorAnswers
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import listed
from dra_operator.inventory import PoolKey, Slice, bits
from dra_operator.ledger import Availability, ClaimKey

_MAX_DETAILS = 3
_MAX_SHARED = 16_384
_MOST_COUNTED = 65_536
"""How many details and claims all counts have together that are kept."""
_MOST_OF_GROUPS = 524_288
"""How many counts of groups are kept, and details of them."""
_MOST_TEXTS = 131_072
"""How many texts are kept of what slices lack, and of how selectors fail on them."""
CLASS: Final = -1
"""The stage of the selectors of the class."""

Stage = int | Reason
"""Where devices are kept away: by the class, by a request selector of a number, or by an obstacle."""


class Failure(NamedTuple):
    """A device on which the selector of a number fails; `place` is the number of its slice in the pool."""

    number: int
    place: int
    slice_: Slice
    device: int

    @property
    def order(self) -> tuple[int, PoolKey, int, int]:
        """A key by which failures are sorted, the same whatever came first."""
        return (self.number, self.slice_.key, self.place, self.device)


@dataclass(slots=True)
class Refusals:
    """How many devices a stage keeps away, details with their own counts, and a device on which a selector fails."""

    count: int = 0
    details: Counter[str] = field(default_factory=Counter)
    failure: Failure | None = None

    def detail(self, more: str = "") -> str:
        """Return the most frequent details, other drivers' last, and a clause that goes on with them, or nothing.

        What the others have in common is how many devices they are on, so that the numbers add up.
        """
        if not self.details:
            return ""
        # Devices of other drivers were hardly meant: a class tells more by those that it names the driver of.
        ranked = sorted(self.details.items(), key=lambda item: (_is_of_another(item[0]), -item[1], item[0]))
        texts = [f"{text} on {count}" for text, count in ranked[:_MAX_DETAILS]]
        if len(ranked) > _MAX_DETAILS:
            texts.append(f"others on {sum([count for _, count in ranked[_MAX_DETAILS:]])}")
        return f" ({', '.join(texts)}{more})"


class Figures(NamedTuple):
    """Numbers of devices for an alternative, of a pool or of all.

    `old` are those selected of older generations. `left` are left by node, those usable on several nodes by each;
    `rivals` are those of them that draw on counters, so that one may leave too little for the next, and `grouped` those
    of them whose slice has compatibility groups. `kept` are kept away by uses or taints alone, and of `left` and `kept`
    together `drawing` draw on counters.
    """

    published: int = 0
    old: int = 0
    in_class: int = 0
    left: int = 0
    rivals: int = 0
    grouped: int = 0
    kept: int = 0
    drawing: int = 0


class SliceDevices(NamedTuple):
    """The devices of a slice that the selectors of an alternative select: who keeps some away, and those left."""

    pool: PoolRecord
    slice_: SliceRecord
    refusals: tuple[Refusal, ...]
    left: int


class PoolCounts(NamedTuple):
    """What one pool of a group adds to the counts; equal for most pools, so that these share one object.

    `refusals` has for each stage the count, the details, the count of each, and the failure. `held` has for each
    obstacle that is due to uses the devices whose uses these are, a set for each slice; `left_on` the number of those
    left, for each side, and `idle_on` what that would be if no device were in use and none were tainted. `size` is how
    many details it has, and one for itself.
    """

    figures: Figures
    refusals: tuple[tuple[Stage, int, tuple[str, ...], tuple[int, ...], Failure | None], ...]
    held: tuple[tuple[Reason, tuple[int, ...]], ...]
    left_on: tuple[int, ...]
    idle_on: tuple[int, ...]
    size: int


@dataclass(slots=True)
class DeviceCounts:
    """The devices for one alternative: published, in its class, selected, kept away by obstacles, and left.

    `most_on_a_node` are left on one node, the first of which is `node`; `most_if_idle` would be if no device were in
    use and none were tainted, each judged by itself. `holders` are, by obstacle, the claims whose devices it is due to.
    `old_pools` are those with devices selected of older generations.
    """

    figures: Figures
    refusals: dict[Stage, Refusals]
    most_on_a_node: int
    node: str
    most_if_idle: int
    holders: dict[Reason, set[ClaimKey]]
    old_pools: list[PoolKey]

    @property
    def size(self) -> int:
        """How many details and claims it has, and one for itself."""
        details = sum([len(item.details) for item in self.refusals.values()])
        return 1 + details + sum(map(len, self.holders.values()))

    def of_stage(self, stage: Stage) -> Refusals:
        """Return what a stage keeps away."""
        return self.refusals.get(stage) or Refusals()

    def old_text(self) -> str:
        """Return a clause that names the pools of which nodes still see an older generation, or nothing."""
        if not self.old_pools:
            return ""
        pools = listed(["/".join(key) for key in sorted(self.old_pools)])
        are = "is" if self.figures.old == 1 else "are"
        return f"; {self.figures.old} of those matching {are} of an older generation that nodes still see ({pools})"


@dataclass(slots=True)
class DeviceCounter:
    """Counts for alternatives, from what it counted for groups of pools."""

    availability: Availability
    candidates: Candidates
    _records: PoolRecords | None = None
    _known: AnswerCache[DeviceCounts] = field(init=False)
    _of_groups: AnswerCache[Mapping[Group, PoolCounts]] = field(
        default_factory=lambda: AnswerCache(_MOST_OF_GROUPS, never)
    )
    _texts: AnswerCache[Counter[str]] = field(default_factory=lambda: AnswerCache(_MOST_TEXTS, never))
    _shared: dict[PoolCounts, PoolCounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known = AnswerCache(_MOST_COUNTED, self.version)

    def version(self) -> object:
        """Return the version of what is published and in use."""
        return self.availability.views.inventory.version, self.availability.ledger.version

    def count(self, alternative: Alternative, budget: Budget) -> DeviceCounts:
        """Return the counts of an alternative. Raises AbortedError if the time is used up."""
        asked = (alternative.key.serial, alternative.admin_access)
        found = self._known.get(asked)
        if found is None:
            found = self._count(alternative, budget)
            self._known.put(asked, found, found.size)
        return found

    def find_devices(self, alternative: Alternative, budget: Budget) -> Iterator[SliceDevices]:
        """Yield the devices that the selectors of an alternative select, slice by slice.

        Raises AbortedError if the time is used up.
        """
        if self._records is None:
            self._records = PoolRecords(self.availability)
        for pool in self._records.pools():
            obstacles = Obstacles(self.availability, self.candidates, alternative, pool)
            for record in pool.slices:
                selected = left = self.candidates.select(alternative.key, record.slice_, budget)
                if selected:
                    refusals = tuple(obstacles.each(record, selected))
                    for refusal in refusals:
                        left &= ~refusal.devices
                    yield SliceDevices(pool, record, refusals, left)

    def texts(self, key: object, make: Callable[[], Counter[str]]) -> Counter[str]:
        """Return texts that are the same for all slices with equal columns."""
        found = self._texts.get(key)
        if found is None:
            found = make()
            self._texts.put(key, found, len(found))
        return found

    def keep_up(self) -> None:
        """Stop following what changes, after nobody has explained for as long as it took for most pools to change."""
        if self._records is not None and self._records.is_far_behind:
            self._records = None
            # Its keys are groups of these records.
            self._of_groups = AnswerCache(_MOST_OF_GROUPS, never)

    def _count(self, alternative: Alternative, budget: Budget) -> DeviceCounts:
        if self._records is None:
            # Whoever never explains need not follow what changes.
            self._records = PoolRecords(self.availability)
        grouping = self._records.grouping(self._attributes_read(alternative))
        counted = self._count_groups(alternative, grouping.groups.values(), budget)
        refusals: dict[Stage, Refusals] = {}
        holders: dict[Reason, set[ClaimKey]] = {}
        old_pools: list[PoolKey] = []
        figures = [0] * len(Figures())
        for group, counts in counted.items():
            times = len(group.members)
            figures = [total + number * times for total, number in zip(figures, counts.figures, strict=True)]
            _add_refusals(refusals, counts, group)
            if counts.figures.old:
                old_pools += group.members
            for reason, devices in counts.held:
                holders.setdefault(reason, set()).update(group.holders(self.availability, devices))
        total = Figures(*figures)
        nodes = self._records.nodes()
        most, node = 0, ""
        if total.left:
            left_on = {group: counts.left_on for group, counts in counted.items()}
            most, node = grouping.most_on_a_node(left_on, nodes)
        most_if_idle = most
        if total.kept:
            idle_on = {group: counts.idle_on for group, counts in counted.items()}
            most_if_idle, _ = grouping.most_on_a_node(idle_on, nodes)
        return DeviceCounts(total, refusals, most, node, most_if_idle, holders, old_pools)

    def _attributes_read(self, alternative: Alternative) -> AttributeNames:
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

    def _count_groups(
        self, alternative: Alternative, groups: Iterable[Group], budget: Budget
    ) -> Mapping[Group, PoolCounts]:
        """Return the counts of one pool of each group."""
        asked = (alternative.key.serial, alternative.admin_access)
        known = self._of_groups.get(asked) or {}
        counted: dict[Group, PoolCounts] = {}
        try:
            for group in groups:
                counts = known.get(group)
                if counts is None:
                    example = next(iter(group.members.values()))
                    counts = self._share(_PoolCounting(self, alternative, example, budget).count())
                counted[group] = counts
        except (AbortedError, PreemptedError):
            # The next attempt goes on from here.
            counted = {**known, **counted}
            raise
        finally:
            self._of_groups.put(asked, counted, 1 + sum([counts.size for counts in counted.values()]))
        return counted

    def _share(self, counts: PoolCounts) -> PoolCounts:
        """Return the one object that stands for all equal ones. Those with details are hardly ever equal."""
        if counts.size > 1:
            return counts
        if len(self._shared) >= _MAX_SHARED:
            self._shared.clear()
        return self._shared.setdefault(counts, counts)


@dataclass(slots=True)
class _PoolCounting:
    """The counting of one pool for one alternative."""

    counter: DeviceCounter
    alternative: Alternative
    record: PoolRecord
    budget: Budget
    obstacles: Obstacles = field(init=False)
    refusals: dict[Stage, Refusals] = field(default_factory=dict)
    held: dict[Reason, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counter = self.counter
        self.obstacles = Obstacles(counter.availability, counter.candidates, self.alternative, self.record)

    def count(self) -> PoolCounts:
        """Return the counts of the pool."""
        published = in_class = left = kept = 0
        old = rivals = grouped = drawing = 0
        left_on, idle_on = [0] * len(self.record.sides), [0] * len(self.record.sides)
        content = self.alternative.key.content
        for place, record in enumerate(self.record.slices):
            slice_ = record.slice_
            published += slice_.every.bit_count()
            selected = slice_.every
            for selector in enumerate(content.class_selectors):
                selected = self._ask(CLASS, selector, place, selected)
            in_class += selected.bit_count()
            for selector in enumerate(content.request_selectors):
                selected = self._ask(selector[0], selector, place, selected)
            remaining, freed = self._obstruct(place, selected)
            old += selected.bit_count() if record.old else 0
            left += remaining.bit_count()
            kept += freed.bit_count()
            drawn = (remaining & slice_.counted).bit_count()
            rivals += drawn
            grouped += drawn if slice_.has_groups else 0
            drawing += ((remaining | freed) & slice_.counted).bit_count()
            for side, visible in record.slots:
                left_on[side] += (remaining & visible).bit_count()
                idle_on[side] += ((remaining | freed) & visible).bit_count()
        return PoolCounts(
            Figures(published, old, in_class, left, rivals, grouped, kept, drawing),
            tuple(
                [
                    (stage, item.count, tuple(item.details), tuple(item.details.values()), item.failure)
                    for stage, item in self.refusals.items()
                ]
            ),
            tuple([(reason, tuple(devices)) for reason, devices in self.held.items()]),
            tuple(left_on),
            tuple(idle_on),
            1 + sum([len(item.details) for item in self.refusals.values()]),
        )

    def _ask(self, stage: Stage, selector: tuple[int, str], place: int, devices: int) -> int:
        """Return those of some devices that a selector, which comes with its number, selects; count the others."""
        if not devices:
            return 0
        number, expression = selector
        slice_ = self.record.slices[place].slice_
        answers = self.counter.candidates.selectors.get(expression)
        selected, failed = answers.ask(slice_, devices, self.budget)
        if refused := devices & ~selected:
            refusals = self.refusals.setdefault(stage, Refusals())
            refusals.count += refused.bit_count()
            if failed:
                key = answers.failure_key(slice_, failed)
                refusals.details.update(self.counter.texts(key, lambda: answers.errors(slice_, failed)))
                if refusals.failure is None:
                    refusals.failure = Failure(number, place, slice_, bits.lowest(failed))
            compared = self._compare(refusals, expression, slice_, refused & ~failed)
            if others := refused & ~failed & ~compared:
                refusals.details[f"selector #{number} is false"] += others.bit_count()
        return selected

    def _compare(self, refusals: Refusals, expression: str, slice_: Slice, refused: int) -> int:
        """Add what the first false part of an expression compared, for the devices it refused.

        Returns those of which that can be told: the others may have it under a name that is computed.
        """
        parts = comparison.conjuncts(expression)
        compared = 0
        for part in parts:
            if not refused:
                break
            passed = 0
            answers = self.counter.candidates.selectors.get(part)
            if len(parts) > 1:
                passed, _ = answers.ask(slice_, refused, self.budget)
            if (devices := refused & ~passed) and (found := _comparison(answers)) is not None:
                refusals.details.update(self._compared(found, slice_, devices))
                compared |= devices
            refused = passed
        return compared

    def _compared(
        self, compared: comparison.Comparison | comparison.Reading, slice_: Slice, devices: int
    ) -> Counter[str]:
        serials = tuple(column and column.serial for column in compared.columns(slice_))
        key = (compared, slice_.driver, slice_.shareable, serials, devices)
        return self.counter.texts(key, lambda: compared.describe(slice_, devices))

    def _obstruct(self, place: int, devices: int) -> tuple[int, int]:
        """Count what keeps the selected devices of a slice away, and what that is due to.

        Returns those left, and those that would be left as well if no device were in use and none were tainted.
        """
        freed = 0
        for reason, refused, detail, users in self.obstacles.each(self.record.slices[place], devices):
            refusals = self.refusals.setdefault(reason, Refusals())
            refusals.count += refused.bit_count()
            if detail:
                refusals.details[detail] += refused.bit_count()
            if reason in PASSING and (users is None or any(users)):
                freed |= refused
            if reason in USES:
                sets = self.held.setdefault(reason, [0] * len(self.record.slices))
                if users is None:
                    sets[place] |= refused
                else:
                    sets[:] = map(or_, sets, users)
            devices &= ~refused
        return devices, freed


def _is_of_another(detail: str) -> bool:
    return detail.startswith("driver ") and " != " in detail


def _comparison(answers: SelectorAnswers) -> comparison.Comparison | comparison.Reading | None:
    """Return what can be told of a part of an expression: what it compares, or else what it reads."""
    plain = comparison.read(answers.expression)
    if plain is not None or answers.program is None:
        return plain
    return comparison.reading(answers.program.reads)


def _add_refusals(total: dict[Stage, Refusals], counts: PoolCounts, group: Group) -> None:
    """Add what one pool of a group refuses, once for each pool of the group."""
    times = len(group.members)
    for stage, count, details, of_details, failure in counts.refusals:
        refusals = total.setdefault(stage, Refusals())
        refusals.count += count * times
        for text, number in zip(details, of_details, strict=True):
            refusals.details[text] += number * times
        if failure is not None:
            # The first pool by name, so that the text stays the same while groups come and go.
            slice_ = group.members[min(group.members)].slices[failure.place].slice_
            first = failure._replace(slice_=slice_)
            if refusals.failure is None or first.order < refusals.failure.order:
                refusals.failure = first
