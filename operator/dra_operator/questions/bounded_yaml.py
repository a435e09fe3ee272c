"""The loader of YAML that refuses what is nested too deeply, where libyaml would run out of stack.

PyYAML calls the resolver on the way into each value, before it is read.
"""

from dra_operator.questions.documents import MOST_LEVELS

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML built without libyaml is slower and otherwise the same
    from yaml import SafeLoader  # type: ignore[assignment]


class BoundedLoader(SafeLoader):
    """Reads YAML of so many levels. Raises RecursionError for more."""

    _levels = 0

    def descend_resolver(self, *_: object) -> None:
        """Go into a value, before it is read."""
        self._levels += 1
        # The innermost level may hold a value.
        if self._levels > MOST_LEVELS + 1:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Leave a value."""
        self._levels -= 1
