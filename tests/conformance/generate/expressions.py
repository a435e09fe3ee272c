"""Expressions: CEL text by static type, with a wrong type slipped in now and then.

Text of random tokens would hardly ever compile. So an expression of a wanted type is drawn from templates whose holes
are expressions of types of their own; `dyn` stands for what a device's attributes are.
"""

from collections.abc import Callable, Mapping, Sequence

from conformance.generate.chance import Chance
from conformance.generate.templates import LEAVES, TEMPLATES

_WRONG_TYPE = 0.02
_DEEPER = 0.8


class Expressions:
    """Draws expressions; `device` says whether they may read one, `more` are further leaves."""

    def __init__(
        self, chance: Chance, *, device: bool, more: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.chance = chance
        self._leaves = {
            kind: tuple(
                leaf for leaf in (*leaves, *(more or {}).get(kind, ())) if device or "device" not in leaf
            )
            or ("dyn(1)",)
            for kind, leaves in LEAVES.items()
        }
        self._templates = {
            kind: tuple(one for one in templates if device or "device" not in one)
            for kind, templates in TEMPLATES.items()
        }

    def draw(self, kind: str, depth: int) -> str:
        """Return an expression of a type, at most so deep."""
        if self.chance.maybe(_WRONG_TYPE):
            kind = self.chance.pick(*sorted(self._leaves))
        templates = self._templates.get(kind, ())
        if depth <= 0 or not templates or not self.chance.maybe(_DEEPER):
            return self.chance.pick(*self._leaves[kind])
        return self._fill(self.chance.pick(*templates), lambda hole: self.draw(hole, depth - 1))

    @staticmethod
    def _fill(template: str, draw: Callable[[str], str]) -> str:
        """Return a template with its holes, written `<<type>>`, filled."""
        filled, rest = "", template
        while "<<" in rest:
            before, _, rest = rest.partition("<<")
            hole, _, rest = rest.partition(">>")
            filled += before + draw(hole)
        return filled + rest

    def damaged(self, expression: str) -> str:
        """Return an expression with one character or a few gone, doubled or replaced."""
        start = self.chance.randrange(len(expression))
        end = min(len(expression), start + self.chance.pick(0, 1, 1, 2, 5))
        middle = self.chance.pick(
            "", "", expression[start:end] * 2, ".", "(", ")", "?", "'", "[", "`", "1", " ", "\\", "é"
        )
        return expression[:start] + middle + expression[end:]
