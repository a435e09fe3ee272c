"""What selectors can call: one module a group of functions, joined here by the ids of their overloads.

Each function takes and returns run-time values (`cel.values`), raises CelError with upstream's text, and is
bounded (`limits`): what could grow or run without limit ends where Kubernetes' own cost limit would have ended it.
What several modules need: `golang`, how Go writes and reads values; `plain_patterns`, those that need no RE2.
"""

from collections.abc import Callable
from typing import Any, Final

from dra_operator.cel.library import (
    conversions,
    formatting,
    lists,
    named_formats,
    network,
    optionals,
    quantities,
    regex,
    semvers,
    sets,
    strings,
    times,
    urls,
)

_GROUPS: Final = (
    conversions, formatting, lists, named_formats, network, optionals, quantities, regex, semvers, sets, strings, times,
    urls,
)  # fmt: skip
OVERLOADS: Final[dict[str, Callable[..., Any]]] = {
    name: function for group in _GROUPS for name, function in group.OVERLOADS.items()
}
"""Every function of the library, by the id of its overload. Operators (and `size`) and macros are not among them."""
