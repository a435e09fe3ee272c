"""Opaque parameters that are carried as bytes, because our decoder of JSON does not read all that Go reads."""

from typing import Any

import orjson


def readable(parameters: bytes) -> Any:
    """Return parameters that were carried as our decoder reads them; of those that it cannot read, nothing."""
    return {} if rewrite(parameters) is None else orjson.loads(parameters)


def rewrite(value: bytes) -> bytes | None:
    """Return a value as it would be written, inside of others, after it was read; None if it cannot be."""
    try:
        return orjson.dumps([[[[[[[[orjson.loads(value)]]]]]]]])[8:-8]
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
