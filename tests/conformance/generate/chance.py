"""Chance: a seeded source of random choices."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Chance(Random):
    """Random choices in the words of the generators; the same seed gives the same choices."""

    def maybe(self, probability: float) -> bool:
        """Return True with that probability."""
        return self.random() < probability

    def pick(self, *options: T) -> T:
        """Return one of the options."""
        return options[self.randrange(len(options))]

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Return between `least` and `most` different ones of the options, in a random order."""
        return self.sample(list(options), min(len(options), self.randint(least, most)))
