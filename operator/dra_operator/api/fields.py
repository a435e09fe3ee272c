"""The fields of the API's structs, with their types, in the order of Go: fields.json, of tests/testing/go_types.py."""

from functools import cache
from pathlib import Path

import orjson


@cache
def types() -> dict[str, dict[str, list[str]]]:
    """Return the fields of each struct: name to type, when it hides, and how a patch merges it."""
    loaded: dict[str, dict[str, list[str]]] = orjson.loads(
        Path(__file__).with_name("fields.json").read_bytes()
    )
    return loaded


def split_type(type_: str) -> tuple[str, str]:
    """Return the outermost pointer `*`, list `[]` or map `{}` of a field's type, or nothing, and what is inside it."""
    wrapper = next((each for each in ("*", "[]", "{}") if type_.startswith(each)), "")
    return wrapper, type_.removeprefix(wrapper)


def element(type_: str) -> str:
    """Return the struct that a field's type holds, below pointers, lists and maps."""
    return type_.lstrip("*[]{}")
