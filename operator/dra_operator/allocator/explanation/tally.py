"""The tally: how many devices there are for a request, and what keeps each of them from it.

A device counts at the first obstacle it meets, in the order in which the allocator meets them, so that the numbers add
up: published, in the class, selected, and then down to those that are left. Which devices count is said by `published`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import or_

from dra_operator.allocator import comparison
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.explanation.census import AttributeNames, Census, Group, PoolGrouping, PoolRecord
from dra_operator.allocator.explanation.obstacles import PASSING, USES, Obstacles
from dra_operator.allocator.explanation.parts import Failure, Part, Parts, Refused
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.matching.selectors import SelectorAnswers
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import listed
from dra_operator.inventory import Inventory, PoolKey, Slice, bits
from dra_operator.ledger import Availability, ClaimKey

_MAX_DETAILS = 3
_MAX_TOLD = 131_072
"""How many texts are kept of what slices lack, and of how selectors fail on them."""


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


@dataclass(slots=True)
class Tally:
    """The devices of one alternative: published, in its class, selected, kept away by obstacles in order, and left.

    `selectors` holds, for each request selector by number, the devices that it was the first to refuse. `left` counts
    the devices that are left by node, those usable on several nodes by each; `rivals` are those of them that draw on
    counters, so that one may leave too little for the next, and `grouped` those of them whose slice has compatibility
    groups. `most_on_a_node` are left on one node, the first of which is `node`; `most_if_idle` would be if no device
    were in use and none were tainted, each judged by itself. `kept` counts those that uses or taints alone keep away,
    and of all these `drawing` draw on counters.
    `holders` are, by obstacle, the claims whose devices it is due to. `old` counts those selected of older generations,
    by pool.
    """

    published: int = 0
    old: dict[PoolKey, int] = field(default_factory=dict)
    in_class: int = 0
    class_details: Obstacle = field(default_factory=lambda: Obstacle(Reason.CLASS_MATCHES_NO_DEVICE))
    selectors: list[Obstacle] = field(default_factory=list)
    obstacles: dict[Reason, Obstacle] = field(default_factory=dict)
    left: int = 0
    rivals: int = 0
    grouped: int = 0
    most_on_a_node: int = 0
    node: str = ""
    most_if_idle: int = 0
    kept: int = 0
    drawing: int = 0
    holders: dict[Reason, set[ClaimKey]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many details and claims it has, and one for itself."""
        details = (self.class_details, *self.selectors, *self.obstacles.values())
        return 1 + sum([len(item.details) for item in details]) + sum(map(len, self.holders.values()))


@dataclass(slots=True)
class TallyMaker:
    """Counts for an alternative, from what it counted for groups of pools.

    What it asks of selectors is kept with their other answers; `told` keeps what equal slices have been told to lack,
    and how selectors fail on them.
    """

    inventory: Inventory
    availability: Availability
    candidates: Candidates
    told: dict[object, Counter[str]] = field(default_factory=dict)
    _texts: int = 0
    _parts: Parts = field(default_factory=Parts)
    _census: Census | None = None
    _obstacles: Obstacles = field(init=False)

    def __post_init__(self) -> None:
        self._obstacles = Obstacles(self.availability, self.candidates)

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
            for reason, devices in part.held:
                owners = group.owners(self.availability, devices)
                total.holders.setdefault(reason, set()).update(owners)
        shapes = grouping.shapes(self.availability.views)
        if total.left:
            left = {shape: sum([parts[group].left_on[slot] for group, slot in shape]) for shape in shapes}
            total.most_on_a_node = total.most_if_idle = max(left.values(), default=0)
            most = [shape for shape, number in left.items() if number == total.most_on_a_node]
            total.node = grouping.first_node(most, self.availability.views) if most else ""
        if total.kept:
            each = (sum([parts[group].idle_on[slot] for group, slot in shape]) for shape in shapes)
            total.most_if_idle = max(each, default=0)
        return total

    def keep_up(self) -> None:
        """Stop following what changes, after nobody has explained for as long as it took for most pools to change."""
        if self._census is not None and self._census.is_far_behind:
            self._census, self._parts = None, Parts()

    def _projection(self, alternative: Alternative) -> AttributeNames:
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
        self, alternative: Alternative, grouping: PoolGrouping, budget: Budget
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
        held: dict[Reason, list[int]] = {}
        old = 0
        left = [0] * len(record.slots)
        idle = [0] * len(record.slots)
        for number, place in enumerate(record.places):
            selected = self._select(tally, alternative, number, place.content, budget)
            old += selected.bit_count() if place.old else 0
            remaining, freed = self._obstruct(tally, alternative, record, number, selected, held=held)
            tally.left += remaining.bit_count()
            rivals = (remaining & place.content.counted).bit_count()
            tally.rivals += rivals
            tally.grouped += rivals if place.content.has_groups else 0
            tally.kept += freed.bit_count()
            tally.drawing += ((remaining | freed) & place.content.counted).bit_count()
            for slot, visible in place.slots:
                left[slot] += (remaining & visible).bit_count()
                idle[slot] += ((remaining | freed) & visible).bit_count()
        obstacles = (tally.class_details, *tally.selectors, *tally.obstacles.values())
        return Part(
            published=tally.published,
            old=old,
            in_class=tally.in_class,
            left=tally.left,
            rivals=tally.rivals,
            grouped=tally.grouped,
            class_details=tally.class_details.refused(),
            selectors=tuple([item.refused() for item in tally.selectors]),
            obstacles=tuple([item.refused() for item in tally.obstacles.values()]),
            held=tuple([(reason, tuple(devices)) for reason, devices in held.items()]),
            left_on=tuple(left),
            idle_on=tuple(idle),
            kept=tally.kept,
            drawing=tally.drawing,
            texts=sum([len(item.details) for item in obstacles]),
        )

    # --- selectors

    def _select(
        self, tally: Tally, alternative: Alternative, place: int, content: Slice, budget: Budget
    ) -> int:
        selected = content.every
        tally.published += selected.bit_count()
        for selector in enumerate(alternative.key.content.class_selectors):
            selected, failed = self._ask(tally.class_details, selector, content, selected, budget)
            tally.class_details.blame(selector[0], place, content, failed)
        tally.in_class += selected.bit_count()
        for selector in enumerate(alternative.key.content.request_selectors):
            obstacle = tally.selectors[selector[0]]
            selected, failed = self._ask(obstacle, selector, content, selected, budget)
            obstacle.blame(selector[0], place, content, failed)
        return selected

    def _ask(
        self, obstacle: Obstacle, selector: tuple[int, str], content: Slice, wanted: int, budget: Budget
    ) -> tuple[int, int]:
        """Return the devices that a selector selects, and those on which it fails; count those it refuses.

        The selector comes with its number.
        """
        if not wanted:
            return 0, 0
        number, expression = selector
        answers = self.candidates.selectors.get(expression)
        selected, failed = answers.ask(content, wanted, budget)
        if refused := wanted & ~selected:
            obstacle.count += refused.bit_count()
            if failed:
                key = answers.failure_key(content, failed)
                obstacle.details.update(self._told(key, lambda: answers.errors(content, failed)))
            told = self._compare(obstacle, expression, content, refused & ~failed, budget)
            if untold := refused & ~failed & ~told:
                obstacle.details[f"selector #{number} is false"] += untold.bit_count()
        return selected, failed

    def _compare(
        self, obstacle: Obstacle, expression: str, content: Slice, refused: int, budget: Budget
    ) -> int:
        """Add what the first false part of an expression compared, for the devices it refused.

        Returns those of which that can be told: the others may have it under a name that is computed.
        """
        parts = comparison.conjuncts(expression)
        told = 0
        for part in parts:
            if not refused:
                break
            passed = 0
            answers = self.candidates.selectors.get(part)
            if len(parts) > 1:
                passed, _ = answers.ask(content, refused, budget)
            if refused & ~passed and (compared := _comparison(answers)) is not None:
                obstacle.details.update(self._tell(compared, content, refused & ~passed))
                told |= refused & ~passed
            refused = passed
        return told

    def _tell(
        self, compared: comparison.Comparison | comparison.Reading, content: Slice, devices: int
    ) -> Counter[str]:
        serials = tuple(column and column.serial for column in compared.columns(content))
        key = (compared, content.driver, content.shareable, serials, devices)
        return self._told(key, lambda: compared.tell(content, devices))

    def _told(self, key: object, tell: Callable[[], Counter[str]]) -> Counter[str]:
        """Return what has been told under a key, or tell it: claims with a selector each share this room."""
        if (found := self.told.get(key)) is None:
            if self._texts > _MAX_TOLD:
                self.told.clear()
                self._texts = 0
            found = self.told[key] = tell()
            self._texts += len(found)
        return found

    # --- everything else

    def _obstruct(
        self,
        tally: Tally,
        alternative: Alternative,
        record: PoolRecord,
        number: int,
        devices: int,
        *,
        held: dict[Reason, list[int]],
    ) -> tuple[int, int]:
        """Count what keeps the selected devices of a place away, and add to `held` what it is due to.

        Returns those left, and those that would be left as well if no device were in use and none were tainted.
        """
        freed = 0
        place = record.places[number]
        for reason, refused, detail, users in self._obstacles.each(alternative, record, place, devices):
            obstacle = tally.obstacles.setdefault(reason, Obstacle(reason))
            obstacle.count += refused.bit_count()
            if detail:
                obstacle.details[detail] += refused.bit_count()
            if reason in PASSING and (users is None or any(users)):
                freed |= refused
            if reason in USES:
                sets = held.setdefault(reason, [0] * len(record.places))
                if users is None:
                    sets[number] |= refused
                else:
                    sets[:] = map(or_, sets, users)
            devices &= ~refused
        return devices, freed


def _is_of_another(detail: str) -> bool:
    return detail.startswith("driver ") and " != " in detail


def tell_old(tally: Tally) -> str:
    """Return a clause that names the pools of which nodes still see an older generation, or nothing."""
    if not tally.old:
        return ""
    pools = listed(["/".join(key) for key in sorted(tally.old)])
    count = sum(tally.old.values())
    are = "is" if count == 1 else "are"
    return f"; {count} of those matching {are} of an older generation that nodes still see ({pools})"


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
    if part.old:
        total.old.update(dict.fromkeys(group.members, part.old))
    total.in_class += part.in_class * times
    total.left += part.left * times
    total.rivals += part.rivals * times
    total.grouped += part.grouped * times
    total.kept += part.kept * times
    total.drawing += part.drawing * times
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
