"""All that selectors can call, by the ids of overloads: the functions of each module, joined."""

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
