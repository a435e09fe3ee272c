"""What is refused: a field of an object in a file, told before somebody applies the file."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A field that the API server refuses: its path in v1, its value or length, what is wrong and what to do."""

    path: str
    value: str | int | None
    text: str

    @property
    def message(self) -> str:
        """The value and what is wrong with it, for people."""
        return (
            self.text if self.value is None else f"{json.dumps(self.value, ensure_ascii=False)} {self.text}"
        )
