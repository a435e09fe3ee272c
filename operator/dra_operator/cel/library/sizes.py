"""Sizes: characters of a string, bytes of bytes, elements of a list, entries of a map.

Source: cel-go `traits.Sizer`.
"""

from collections.abc import Callable
from typing import Any, Final

OVERLOADS: Final[dict[str, Callable[..., Any]]] = {
    "size_bytes": len,
    "bytes_size": len,
    "size_list": len,
    "list_size": len,
    "size_map": len,
    "map_size": len,
    "size_string": len,
    "string_size": len,
}
