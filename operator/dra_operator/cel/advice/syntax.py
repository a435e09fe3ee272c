"""Slips: what a person may have meant where the grammar knows no way on.

Upstream names the token at which its parser gave up. What to write instead is found in what stands around it: a word
of another language, a bracket or a string that is not closed.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

Advice: TypeAlias = tuple[str, str]
"""What is wrong, and advice or nothing."""

_STRING: Final = r'''[rR]?(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')'''
"""A string as it is written, nearly: advice may be wrong where a raw string ends in a backslash."""
_PASSED: Final = re.compile(rf"{_STRING}|//[^\n]*")
_COMMENT: Final = re.compile(r"//[^\n]*")
_CALLEE: Final = re.compile(r"([A-Za-z_]\w*)\s*\($")
_WORD: Final = re.compile(r"([A-Za-z_]\w*)\s+$")
_CLOSING: Final = {")": "(", "]": "[", "}": "{"}
_LONGEST: Final = 40
_WRITTEN: Final = {
    "=": "write ==",
    "&": "write &&",
    "|": "write ||",
    "and": "write &&",
    "or": "write ||",
    "not": "write !",
    "is": "write ==",
    ";": "a selector is one expression, without a semicolon",
    "#": "a comment begins with //",
    "\N{NO-BREAK SPACE}": "write a plain space",
    **dict.fromkeys("\u2018\u2019\u201c\u201d", "write straight quotes"),
}
SUFFIX: Final = re.compile(r"[nmkMGTPE]|[KMGTPE](?:i|B|iB)")
"""What makes an amount of a number where CEL knows numbers only."""
AMOUNT: Final = 'write a quantity as quantity("10Gi")'
_WORDS_BEFORE: Final = {"not": "write !", "if": "write condition ? one : other"}
_TWO_CHARACTERS: Final = {"=>": "write >=", "=<": "write <=", "<>": "write !="}


@dataclass(frozen=True, slots=True)
class Around:
    """The text before the place of an error, and the text from there on."""

    before: str
    rest: str

    @property
    def opened(self) -> str:
        """The text before the place up to the innermost bracket that is still open; empty if none is.

        Strings and comments are blotted out.
        """
        text, open_brackets = blotted(self.before), list[int]()
        for index, character in enumerate(text):
            if character in "([{":
                open_brackets.append(index)
            elif character in ")]}" and open_brackets:
                open_brackets.pop()
        return text[: open_brackets[-1] + 1] if open_brackets else ""

    @property
    def callee(self) -> str:
        """The name of the function among whose arguments the place is, or nothing."""
        found = _CALLEE.search(self.opened)
        return found[1] if found and found[1] != "in" else ""


def blotted(text: str) -> str:
    """Return a text of the same length, with zeros for what stands in strings and comments."""
    return _PASSED.sub(lambda match: "0" * len(match[0]), text)


def slip(found: str, around: Around) -> Advice:
    """Return what is wrong where the parser met `found`, and what to write instead."""
    if found == "<EOF>":
        return _end(around)
    if found in ('"', "'"):
        return "a string is not closed, or has an escape that CEL does not know", ""
    word = _WORD.search(around.before)
    if word and word[1].lower() in _WORDS_BEFORE:
        return f'"{word[1]}" is not expected here', _WORDS_BEFORE[word[1].lower()]
    return f"{_shown(found)} is not expected here", _hint(found, around)


def _hint(found: str, around: Around) -> str:
    for two in (around.rest[:2], around.before[-1:] + found):
        if two in _TWO_CHARACTERS:
            return _TWO_CHARACTERS[two]
    if found in _CLOSING:
        opened = around.opened[-1:]
        if not opened:
            return "it closes nothing"
        if opened == _CLOSING[found]:
            return "something is missing before it"
        return f'"{opened}" is still open'
    if found == "," and around.opened.endswith("(") and not around.callee:
        return "write a list as [1, 2]"
    if SUFFIX.fullmatch(found) and around.before[-1:].isdigit():
        return AMOUNT
    return _WRITTEN.get(found.lower(), "")


def _end(around: Around) -> Advice:
    if not _COMMENT.sub("", around.before).strip():
        return "the expression is empty", 'write a condition, such as device.driver == "gpu.example.com"'
    opened = around.opened[-1:]
    return "the expression ends too early", f'"{opened}" is not closed' if opened else ""


def _shown(found: str) -> str:
    text = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in found[:_LONGEST]
    )
    if len(found) > _LONGEST:
        text += "..."
    return text if text[0] in "'\"" else f'"{text}"'
