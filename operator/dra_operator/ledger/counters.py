"""What is left of a pool's counters, and which compatibility groups still have a place.

A device pays its counters once, however many claims share it. Compatibility groups of the devices in place are folded
in the order of the slices, those that concern the node first; where they contradict each other, the first decides and
the others narrow it down. Source: docs/dra-semantics 4.3.
"""

from dataclasses import dataclass, field

from dra_operator.inventory.counters import CounterLayout, Draw


@dataclass(frozen=True, slots=True)
class SetOccupancy:
    """The devices placed in one counter set: whether they name groups, and the groups they all share."""

    grouped: bool
    shared: frozenset[str]

    def admits(self, groups: frozenset[str]) -> bool:
        """True if a device with these groups may join."""
        return bool(self.shared & groups) if self.grouped and groups else not self.grouped and not groups


def join(placed: SetOccupancy | None, groups: frozenset[str]) -> SetOccupancy:
    """Return what is placed in a set after a device with these groups joined."""
    if placed is None:
        return SetOccupancy(bool(groups), groups)
    if placed.grouped and groups:
        return SetOccupancy(grouped=True, shared=placed.shared & groups)
    return placed


@dataclass(slots=True)
class CounterState:
    """What is left of a layout's counters: `left` by position in nano-units, `overdrawn` how many are negative.

    `version` is another object after each change. What committed devices occupy is computed when it is asked for.
    """

    layout: CounterLayout
    left: list[int] = field(init=False)
    overdrawn: int = field(init=False)
    version: object = field(default_factory=object)
    _used: set[str] = field(default_factory=set)
    _placed: dict[frozenset[int], tuple[SetOccupancy | None, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = list(self.layout.totals)
        self.overdrawn = sum(amount < 0 for amount in self.left)

    def mark(self, device: str, *, used: bool) -> None:
        """Count a device as used, or not; one that draws on none of the counters never is."""
        draws = self.layout.draws.get(device)
        if draws is None or (device in self._used) == used:
            return
        (self._used.add if used else self._used.remove)(device)
        sign = -1 if used else 1
        for draw in draws:
            for position, amount in draw.amounts:
                before = self.left[position]
                after = self.left[position] = before + sign * amount
                self.overdrawn += (after < 0) - (before < 0)
        self._placed.clear()
        self.version = object()

    def placed(self, concerned: frozenset[int] = frozenset()) -> tuple[SetOccupancy | None, ...]:
        """Return what committed devices occupy, by set, on a node that these slices concern (by serial number)."""
        found = self._placed.get(concerned)
        if found is None:
            table: list[SetOccupancy | None] = [None] * self.layout.sets
            joining = sorted(self.layout.joining, key=lambda entry: entry[0] not in concerned)
            for _, device, draw in joining:
                if device in self._used:
                    _place(table, draw)
            found = self._placed[concerned] = tuple(table)
        return found


def _place(table: list[SetOccupancy | None], draw: Draw) -> None:
    for number, groups in draw.groups:
        table[number] = join(table[number], groups)
