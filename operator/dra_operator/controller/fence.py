"""The fence: what an earlier operator sent, and nobody has stored yet, fails before the first decision is made.

A process that is killed calls nothing back. A patch of its own may lie in a proxy, or in a slow API server, until the
next operator has given the same device to another claim; and no precondition notices, since each patch speaks of one
claim alone.

But it speaks of one version of that claim, and which versions these can be is known (`cluster.writes`). An allocation
is sent on a claim that has our finalizer and no allocation: the write before it makes it so, and its sender waits for
the answer. What was answered to a process is in every list that is made after its end.
So a list shows all claims that may still be allocated by an earlier operator, and to give each another version, by
taking the finalizer off, makes the late patch fail (409). Whether that is the answer, or the claim has been changed or
deleted by somebody else meanwhile: what counts is that the version that was listed is over.

That a claim says why it waits excuses none, though that write takes our annotation off: a policy may keep it on.

The claims are few, mostly none, and then nothing is written. What keeps the operator from allocating a claim is part
of its version, too: claims that have opted out, belong to a controller, are reserved or are being deleted need no
fence, and are left alone. Only the pods that use a claim may have come since; so one that waits for kube-scheduler is
fenced as well. Where the scheduler is about to allocate it, it gets a conflict and reads the claim again at once
(Source: k8s.io/kubernetes, dynamicresources, `bindClaim`).

Until the last one is settled no claim is decided, as nobody knows which devices are at stake; but no longer than a
patch can be under way at all (`DOUBT_SECONDS`), so that a claim that nobody may write to holds up the others for two
minutes at most. (A sender that is frozen between the check of its Lease and its last patch can be later than that; so a
claim that nobody could write to for two minutes may then be given what another has.) Whoever decides after somebody
else needs a fence of its own, and a list made after the other's end: after the kill, or after the moment from which the
other held back its writes (`cluster.lease`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dra_operator.api.names import FINALIZER, OPT_OUT_LABEL
from dra_operator.api.text import shortened
from dra_operator.cluster.delivery import DOUBT_SECONDS
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import FenceWrite, allocation_of, finalizers_of
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.desk import Desk, text
from dra_operator.controller.logs import get_logger
from dra_operator.controller.putoff import PutOffs

AGAIN = (1.0, 30.0)
"""First and longest pause, in seconds, from one attempt to fence a claim to the next."""

log = get_logger()


@dataclass(frozen=True, slots=True)
class _Suspect:
    """The version of a claim on which an allocation may be under way."""

    uid: str
    version: str
    finalizers: tuple[str, ...]


class Fence:
    """The claims that an earlier operator may still be allocating. Written in the pass thread.

    Let it note what is listed after the end of the earlier operator. `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = 0.0
        """When decisions need to wait no longer, by the clock, once everything has been listed."""
        self._pauses = PutOffs(clock)
        self._suspects: dict[Key, _Suspect] = {}
        self._begun = 0
        """How many claims had to be fenced when decisions were first wanted."""
        self._listed = self._over = False

    def waive(self) -> None:
        """Let decisions wait for nothing, as they are not written."""
        self._over = True

    def note(self, delta: Delta) -> None:
        """Take in what is listed, and later what becomes of it."""
        if self._over or delta.kind != "ResourceClaim":
            return
        key = (delta.namespace, delta.name)
        found = None if delta.body is None else _suspect(delta.body)
        if not self._listed and found is not None:
            self._suspects[key] = found
        elif key in self._suspects and self._suspects[key] != found:
            del self._suspects[key]

    def stands(self, desk: Desk) -> bool:
        """Return whether decisions must still wait, and have written what ends that. Everything has been listed."""
        if self._over:
            return False
        if not self._listed:
            self._begin()
        if not self._suspects or self._clock() >= self._end:
            self._finish()
            return False
        self._pauses.over()
        for key, suspect in self._suspects.items():
            if key not in desk.flights and not self._pauses.waits(key, suspect.uid, suspect.version):
                desk.launch(FenceWrite(*key, suspect.uid, suspect.version, suspect.finalizers))
                self._pauses.for_time(key, suspect.uid, *AGAIN)
        return True

    def next_due(self) -> float | None:
        """Return when there is something to do again, by the clock; None if decisions do not wait."""
        if self._over or not self._listed:
            return None
        again = self._pauses.next_end()
        return self._end if again is None else min(again, self._end)

    def texts(self) -> tuple[str, ...]:
        """Return why decisions wait, for `/readyz`, in one line or none. May be called in any thread."""
        claims = self._names()
        if not claims or not self._listed:
            return ()
        left = max(0.0, self._end - self._clock())
        why = f"an earlier operator may still be writing to {', '.join(claims)}"
        return (f"{why}; no claim is allocated until that cannot be stored any more, {left:.0f} s at most",)

    def _begin(self) -> None:
        self._listed = True
        self._end = self._clock() + DOUBT_SECONDS
        self._begun = len(self._suspects)
        if self._suspects:
            log.info(messages.FENCING, claims=self._names())

    def _finish(self) -> None:
        self._over = True
        if self._suspects:
            log.warning(messages.NOT_FENCED, claims=self._names())
        elif self._begun:
            log.info(messages.FENCED, claims=self._begun)
        self._suspects.clear()

    def _names(self) -> list[str]:
        return shortened([text(key) for key in tuple(self._suspects)])


def _suspect(body: dict[str, Any]) -> _Suspect | None:
    """Return the version of a claim if an operator may have sent an allocation on it, else None.

    It is read straight from the wire, so that a claim that cannot be understood any more counts, too.
    """
    if allocation_of(body) is not None:
        return None
    metadata, finalizers = body["metadata"], finalizers_of(body)
    if FINALIZER not in finalizers:
        return None
    if metadata.get("deletionTimestamp") or (body.get("status") or {}).get("reservedFor"):
        return None
    if (metadata.get("labels") or {}).get(OPT_OUT_LABEL) == "false":
        return None
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return None
    return _Suspect(metadata["uid"], metadata["resourceVersion"], finalizers)
