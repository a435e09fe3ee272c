"""Changes that would make claims fit: one edit each, with its kind, its size within the kind, and its words."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

from dra_operator.ledger import ClaimKey
from dra_operator.pods.request_parts import Part
from dra_operator.pods.situation import Claims, Situation

Size: TypeAlias = tuple[Fraction | int, ...]
"""Changes of one kind are compared by it; those of different kinds are not compared."""


class Kind(Enum):
    """What is edited, in the order in which changes are shown."""

    TOLERATION = "T"
    SELECTOR = "S"
    AMOUNT = "A"
    COUNT = "C"
    CONSTRAINT = "X"
    NODE_CONDITION = "N"
    CLAIMS_ENDED = "E"


@dataclass(frozen=True, slots=True)
class Change:
    """An edit with which claims fit. `text` goes on after "it would fit if".

    One of the last three says what is edited: the claims, a node condition that is ignored, or claims that have ended.
    """

    kind: Kind
    text: str
    size: Size
    claims: Claims | None = None
    condition: str = ""
    ended: frozenset[ClaimKey] = frozenset()

    def apply(self, situation: Situation) -> Situation:
        """Return the situation for which the change was found, with it."""
        if self.claims is not None:
            return replace(situation, claims=self.claims)
        if self.ended:
            return replace(situation, ended=situation.ended | self.ended)
        return replace(situation, nodes=situation.find_nodes_without(self.condition))


def name_request(part: Part, parts: Collection[Part]) -> str:
    """Return a request as texts have it, with its claim if there are several."""
    several = len({each.entry for each in parts}) > 1
    return f'request {part.path} of claim "{part.entry}"' if several else f"request {part.path}"
