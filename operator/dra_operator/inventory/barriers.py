"""Barriers: the taints that keep a device from requests, and which devices are behind the same ones.

A driver or a rule taints whole nodes, so most devices are behind the barriers of many others. Who asks what a request
tolerates asks about each combination of barriers once, and not about each device.
Source: docs/dra-semantics 5.1.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from dra_operator.api.types import DeviceTaint


class Barrier(NamedTuple):
    """A taint that keeps a device from requests that do not tolerate it. It does not matter since when."""

    key: str
    value: str
    effect: str


Barriers: TypeAlias = tuple[Barrier, ...]
"""All barriers of a device, in the order of its taints."""
Barred: TypeAlias = tuple[tuple[Barriers, int], ...]
"""Barriers, and the devices behind them as a set of bits; each device once, and none without barriers."""

_KEEPS_AWAY = frozenset(("NoSchedule", "NoExecute"))


def barred(taints: Sequence[Sequence[DeviceTaint]], unowned: Sequence[Barriers] | None = None) -> Barred:
    """Return which devices are behind which barriers; `taints` has the taints of each device.

    `unowned` has, for each device, the barriers that do not come from taints; they are met first.
    """
    found: dict[Barriers, int] = {}
    for index, those in enumerate(taints):
        barriers = _barriers(those) if those else ()
        if unowned is not None:
            barriers = unowned[index] + barriers
        if barriers:
            found[barriers] = found.get(barriers, 0) | 1 << index
    return tuple(found.items())


def _barriers(taints: Iterable[DeviceTaint]) -> Barriers:
    """Return those of the taints that are barriers. Effects other than these two keep nobody away."""
    return tuple(
        [Barrier(item.key, item.value, item.effect) for item in taints if item.effect in _KEEPS_AWAY]
    )
