"""Interning: parts that many objects have alike, as the specs of claims from one template, are in memory once.

A part that is written like one still in use is not read again: that saves time and memory, and what is found out about
it holds for all objects that have it. Nobody may rely on it: a part that lacks defaults is replaced by one that has
them, and some texts are never shared.
"""

import re
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson
from pydantic import ValidatorFunctionWrapHandler, WrapValidator

_OPTIONS: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""What YAML has and JSON has not is not written as the text that it looks like."""
_NULL: Final = re.compile(rb"(?:^|[:,\[])null")
"""Where a value stands; in a text it can be found as well, which then is only not shared."""


def interned() -> WrapValidator:
    """Return a validator that goes around that of a part. The part's class must be frozen, and have weak references.

    What it carries unread, as opaque parameters, is that of the first body: whoever had it read must not change it.
    """
    known: WeakValueDictionary[bytes, Any] = WeakValueDictionary()

    def read(value: Any, each_by_itself: ValidatorFunctionWrapHandler) -> Any:
        try:
            text = orjson.dumps(value, option=_OPTIONS)
        except orjson.JSONEncodeError:
            return each_by_itself(value)
        if b"null" in text and _NULL.search(text):
            # This is also written for numbers that JSON does not have.
            return each_by_itself(value)
        found = known.get(text)
        if found is None:
            found = each_by_itself(value)
            # A copy: what orjson returns has room for 4 KiB.
            known[bytes(memoryview(text))] = found
        return found

    return WrapValidator(read)
