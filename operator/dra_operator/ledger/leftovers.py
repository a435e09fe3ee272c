"""Leftovers: the nodes by the most that their devices have left of each capacity.

Where most of a cluster is used up, nearly all nodes have too little left for a claim that shares devices, and which of
them have enough is another question for each amount. So nodes stand on levels, each of which is an eighth of the way
to twice as much, and a question is answered by the levels at or above that of the amount: with all nodes that have so
much left, and a few that do not quite.

A node stands here once somebody has looked at it, and until something is taken or comes back there. Whoever asks gets
the others as well.

Where nodes have devices of several kinds, what the best of all has left says little to those who want another kind. So
nodes can also stand by what the devices have left that some selectors select.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dra_operator.inventory import bits

EVERY: Final = "every free device"
"""What a view calls its free devices together; those that are selected it calls by the expressions of selectors."""
_MOST_SELECTIONS = 16
"""All of them are told of each device that is taken."""
_STEPS = 3
"""Levels have so many bits below the leading one."""
_Levels = dict[int, int]
"""Sets of nodes by level."""


@dataclass(slots=True)
class Leftover:
    """What is left on the `nodes` that see a pool of one driver, by capacity name."""

    nodes: int = 0
    left: dict[str, _Levels] = field(default_factory=dict)

    def with_room(self, amounts: Iterable[tuple[str, int, object]]) -> int:
        """Return the nodes that may have a device with so much left of each of some capacities, in nano-units.

        How the amounts were written does not matter.
        """
        nodes = self.nodes
        for name, amount, _ in amounts:
            levels = self.left.get(name)
            if levels is None:
                return 0
            least = level_of(amount)
            found = 0
            for level, those in levels.items():
                if level >= least:
                    found |= those
            nodes &= found
            if not nodes:
                break
        return nodes


@dataclass(slots=True)
class Leftovers:
    """What the same devices have left on the `known` nodes, by driver."""

    known: int = 0
    by_driver: dict[str, Leftover] = field(default_factory=dict)
    _places: dict[int, list[tuple[_Levels, int]]] = field(default_factory=dict)

    def enter(self, node: int, left: Iterable[tuple[str, Mapping[str, int]]]) -> None:
        """Enter a node, as a bit, that sees no pool together with others, with what each pool has left, by driver."""
        places: list[tuple[_Levels, int]] = []
        for driver, most in left:
            found = self.by_driver.get(driver)
            if found is None:
                found = self.by_driver[driver] = Leftover()
            found.nodes |= node
            for name, amount in most.items():
                levels = found.left.get(name)
                if levels is None:
                    levels = found.left[name] = {}
                level = level_of(amount)
                levels[level] = levels.get(level, 0) | node
                places.append((levels, level))
        self._places[node] = places
        self.known |= node

    def forget(self, nodes: int) -> None:
        """Let go of what is known of some nodes."""
        nodes &= self.known
        if not nodes:
            return
        self.known ^= nodes
        for driver, left in tuple(self.by_driver.items()):
            left.nodes &= ~nodes
            if not left.nodes:
                del self.by_driver[driver]
        for position in bits.each(nodes):
            node = 1 << position
            for levels, level in self._places.pop(node):
                rest = levels.get(level, 0) & ~node
                if rest:
                    levels[level] = rest
                else:
                    levels.pop(level, None)


@dataclass(slots=True)
class LeftoversOf:
    """The leftovers of `every` free device, and of those that some selectors select, by their expressions."""

    every: Leftovers = field(default_factory=Leftovers)
    selected: dict[object, Leftovers] = field(default_factory=dict)

    def of_selected(self, selectors: object) -> Leftovers:
        """Return the leftovers of what some selectors select, to add to them. If they are too many, others go."""
        found = self.selected.get(selectors)
        if found is None:
            if len(self.selected) >= _MOST_SELECTIONS:
                del self.selected[next(iter(self.selected))]
            found = self.selected[selectors] = Leftovers()
        return found

    def forget(self, nodes: int) -> None:
        """Let go of what is known of some nodes."""
        self.every.forget(nodes)
        for leftovers in self.selected.values():
            leftovers.forget(nodes)

    def clear(self) -> None:
        """Forget all nodes: they have other positions."""
        self.every = Leftovers()
        self.selected.clear()


def level_of(amount: int) -> int:
    """Return the level of an amount: never lower than that of a smaller one."""
    if amount <= 0:
        return 0 if amount == 0 else -1
    length = amount.bit_length()
    return (length << _STEPS) + ((amount << _STEPS >> length - 1) & (1 << _STEPS) - 1)
