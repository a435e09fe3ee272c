"""Regular expressions: RE2, as Go has them.

Patterns are compiled once and their answers remembered by subject, since one selector asks the same few names again and
again; both tables are bounded.
"""

from functools import lru_cache
from typing import Any

import re2

from dra_operator.cel.errors import compile_error

_MAX_MEMORY = 8 << 20


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return options


@lru_cache(maxsize=1024)
def compiled(text: str) -> Any:
    """Return the compiled pattern; raises `re2.error` if it is none."""
    return re2.compile(text, _options())


def pattern(text: str, position: int | None = None) -> Any:
    """Return the compiled pattern; raises CelError if it is none."""
    try:
        return compiled(text)
    except re2.error as error:
        detail = error.args[0] if error.args else ""
        text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise compile_error(f"error parsing regexp: {text}", position) from None
