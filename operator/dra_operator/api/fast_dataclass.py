"""Slotted dataclasses that type checkers alone keep from being changed.

Making an instance of a frozen dataclass takes up to ten times as long, as each field is set by a call. Some are made
for each device of each claim, which is a tenth of what a decision costs.
"""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fast_dataclass(cls: type[_T]) -> type[_T]:
    """Make a slotted dataclass of a class, with equality and a hash; to a type checker it is frozen."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
