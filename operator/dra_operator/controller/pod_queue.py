"""The queue of gated pods, as that of claims: active, backing off or unschedulable.

The order is by priority, then age; where a round takes longer than a cycle, fair by namespace. A pod that was tried in
vain becomes active by a change that may help: of its claims, or of devices at once; of nodes and their pods, which
change all the time, after a pause that grows with what it takes to try all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from dra_operator.controller.claims import Key
from dra_operator.controller.queue import ActiveQueue, Backoff
from dra_operator.controller.timers import Timers
from dra_operator.pods.gate import SchedulingPod, order

AGAIN_SECONDS: Final = 1.0
"""How long pods that were tried in vain wait at least after nodes, or what is in use, have changed."""
_SHARE: Final = 10.0
"""All of them are tried so seldom that this takes one part of so many of the time."""


@dataclass(slots=True)
class PodQueue:
    """The pods that are to be tried, back off, or were tried in vain. `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    timers: Timers
    active: ActiveQueue = field(default_factory=ActiveQueue)
    backoff: Backoff = field(init=False)
    """The pods that cannot be written just now."""
    _unschedulable: set[Key] = field(default_factory=set)
    _version: object = None
    _again_at: float | None = None
    _seconds: float = 0.0
    """What the unschedulable pods took since all became active."""

    def __post_init__(self) -> None:
        self.backoff = Backoff("pod", self.clock, self.timers)

    def begin_cycle(self, find_pod: Callable[[Key], SchedulingPod | None]) -> list[SchedulingPod]:
        """Begin a cycle: return the pods to be tried, in their order; others are active no more."""
        ready = []
        for key in self.active.begin_cycle():
            pod = find_pod(key)
            if pod is None or not pod.is_ours or self.is_held(pod):
                self.active.remove(key)
            else:
                ready.append(pod)
        if not self.active.is_mid_round:
            return sorted(ready, key=order)

        def priority(pod: SchedulingPod) -> tuple[tuple[bool, float, bool], tuple[int, str, str, str]]:
            is_new = pod.key not in self._unschedulable
            return self.active.priority(pod.key, is_new=is_new), order(pod)

        return sorted(ready, key=priority)

    def is_held(self, pod: SchedulingPod) -> bool:
        """True if the pod backs off."""
        return self.backoff.holds(pod.key, pod.uid, pod.resource_version)

    def charge(self, key: Key, seconds: float) -> None:
        """Charge the time that a pod took."""
        self.active.charge(key, seconds)
        if key in self._unschedulable:
            self._seconds += seconds

    def set_unschedulable(self, key: Key) -> None:
        """State that there is no room for a pod now."""
        self._unschedulable.add(key)

    def is_unschedulable(self, key: Key) -> bool:
        """True if a pod was tried in vain and is not tried again now."""
        return key in self._unschedulable

    def activate(self, keys: Iterable[Key]) -> None:
        """Have some pods tried."""
        self.active.add(frozenset(keys))

    def activate_all(self) -> None:
        """Have all pods tried that were tried in vain."""
        self.active.add(frozenset(self._unschedulable))
        self._seconds = 0.0
        self._set_again(None)

    def observe(self, version: object) -> None:
        """Take in of which state of the cluster the pods were tried; another one has all of them tried in a while."""
        if version != self._version:
            self._version = version
            if self._unschedulable and self._again_at is None:
                self._set_again(self.clock() + max(AGAIN_SECONDS, _SHARE * self._seconds))
        if self._again_at is not None and self.clock() >= self._again_at:
            self.activate_all()

    def remove(self, key: Key) -> None:
        """Forget a pod: it is gone, or needs no decision any more."""
        self.active.remove(key)
        self.backoff.remove(key)
        self._unschedulable.discard(key)

    def set_decided(self, key: Key) -> None:
        """State that a pod needs no decision any more; it may back off from other writes."""
        self.active.remove(key)
        self._unschedulable.discard(key)

    def accept(self, key: Key) -> None:
        """State that there is room for a pod."""
        self._unschedulable.discard(key)

    def _set_again(self, due: float | None) -> None:
        self._again_at = due
        self.timers.set("unschedulable pods", due)
