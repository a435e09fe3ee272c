"""Decoding of the API server's JSON, in which users may have written what our decoder does not take.

Opaque parameters, what drivers report of devices, and managed fields may be thousands of levels deep, or hold bytes
that are no UTF-8: one such object would hide all others. What cannot be decoded is left out, since nothing depends on
it; parameters, which are copied into allocations, are carried as bytes.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import orjson

from dra_operator.api.read import rewrite

# The API server writes fields in the order of its Go structs.
_PARAMETERS: Final = re.compile(rb'("opaque":\{"driver":"[^"]*","parameters"):(?=\{)')
_FREE: Final = re.compile(rb'(?:("opaque":\{"driver":"[^"]*","parameters")|"data"|"fieldsV1"):(?=\{)')
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([{[])|([}\]])', re.DOTALL)
_DEEPER: Final = {None: 0, 1: 1, 2: -1}
"""By the group of a token: a text, an opening bracket, a closing one."""


def decode(content: bytes) -> Any:
    """Return what an answer, or a line of a watch, says. Raises orjson.JSONDecodeError.

    In what is returned, opaque parameters may be bytes, which `encode` writes as they are.
    """
    if b'"opaque"' not in content or all(
        rewrite(value) == value for _, value in _values(_PARAMETERS, content)
    ):
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError:
            pass
    return _decode_the_rest(content)


def encode(body: Any) -> bytes:
    """Return what is sent. Raises orjson.JSONEncodeError."""
    return orjson.dumps(body, default=orjson.Fragment)


def _decode_the_rest(content: bytes) -> Any:
    """Return what is left without the values that users write freely, and put parameters back."""
    parts, carried, at = list[bytes](), list[bytes](), 0
    for found, value in _values(_FREE, content):
        if found[1]:
            parts += content[at : found.end()], b"%d" % len(carried)
            carried.append(value)
        elif rewrite(value) is None:
            parts += content[at : found.end()], b"{}"
        else:
            continue
        at = found.end() + len(value)
    rest = b"".join([*parts, content[at:]])
    orjson.loads(rest)
    return json.loads(rest, object_hook=partial(_put_back, carried))


def _put_back(carried: list[bytes], found: dict[str, Any]) -> dict[str, Any]:
    # Others that stand in a place of ours are in what a driver reports, which nobody reads.
    if isinstance(number := found.get("parameters"), int) and 0 <= number < len(carried):
        found["parameters"] = carried[number]
    return found


def _values(before: re.Pattern[bytes], content: bytes) -> Iterator[tuple[re.Match[bytes], bytes]]:
    """Yield the objects that stand behind a pattern, each with what was found there."""
    at = 0
    while found := before.search(content, at):
        depth = 0
        for token in _TOKEN.finditer(content, found.end()):
            depth += _DEEPER[token.lastindex]
            if not depth:
                break
        else:
            return
        at = token.end()
        yield found, content[found.end() : at]
