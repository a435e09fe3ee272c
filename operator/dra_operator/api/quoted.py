"""Quoting: a text in double quotes as Go writes it, since what upstream's parsers refuse stands so in their words.

Ends of lines and orders to a terminal come out as escapes, wherever such a message is shown.
"""

from typing import Final

ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
"""How characters are written in a literal, of Go and of CEL alike, that have an escape of their own."""


def quote(text: str) -> str:
    """Return `text` in double quotes, as `strconv.Quote` writes it."""
    return '"' + "".join(ESCAPES.get(each) or _escaped(each) for each in text) + '"'


def _escaped(character: str) -> str:
    if character == " " or character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
