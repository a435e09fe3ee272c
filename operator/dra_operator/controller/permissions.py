"""Permissions: which rights the operator lacks, by what the API server answers.

`/readyz` names a right to write for as long as a claim suffers from it: until a write that needs it succeeds, or nobody
wants that write any more. Rights to list and watch, and to the Lease, get a line of the log and an Event if they are
missing for long: an API server that was just started permits nothing until it has read its roles. `write_results` says
when denied claims are tried again.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field

from dra_operator.cluster.events import Subject
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import Write, WriteKind
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.facts import EventRequest, Facts
from dra_operator.controller.logs import get_logger
from dra_operator.controller.timers import Timers

_FOR_METADATA = "resourceclaims"
_TO_BIND = "patch", "resourceclaims/binding"
_FOR_STATUS = "patch", "resourceclaims/status"
_TO_UPDATE = "update", "resourceclaims"
_OF_POD_WRITES: Mapping[WriteKind, str] = {"gate": "pods", "nominate": "pods/status"}


class WriteAccess:
    """Rights that were denied, and the claims whose writes were; pods have one of their own.

    Written in the thread of cycles; `reasons` may be called in any.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._claims: dict[tuple[str, str], set[Key]] = {}

    def deny(self, verb: str, resource: str, key: Key, text: str) -> bool:
        """State that a claim could not be written, e.g. for want of `patch` on `resourceclaims/status`.

        Return whether that is news of the right, and not only of one more claim. Whether it may bind devices is asked
        of one who may write the status: validation comes after the authorizer.
        Source: k8s.io/kubernetes/pkg/registry/resource/resourceclaim, since 1.36.
        """
        if (verb, resource) == _TO_BIND:
            self._drop(_FOR_STATUS)
        is_news = (verb, resource) not in self._texts
        self._texts[verb, resource] = text
        self._claims.setdefault((verb, resource), set()).add(key)
        return is_news

    def grant(self, write: Write) -> dict[tuple[str, str], frozenset[Key]]:
        """State that a write succeeded, so every right that it needs is there.

        Return those that were not, each with the claims whose writes were denied.
        """
        before = {right: frozenset(keys) for right, keys in self._claims.items()}
        for right in before:
            if write.kind in _OF_POD_WRITES:
                # Each needs one right of its own.
                if right[1] == _OF_POD_WRITES[write.kind]:
                    self._drop(right)
            elif right == _TO_UPDATE:
                # Only claims that take no patch need it, so only those can show that it is there.
                self._excuse(right, write.key)
            elif write.kind not in ("annotate", "fence") or right[1] == _FOR_METADATA:
                self._drop(right)
        return {right: keys for right, keys in before.items() if right not in self._texts}

    def forget(self, key: Key) -> None:
        """State that a claim is gone, or that we want nothing of it any more."""
        for right in tuple(self._texts):
            self._excuse(right, key)

    def forget_allocation(self, key: Key) -> bool:
        """State that a claim gets no devices now: only why it waits is to be written; return if that may be."""
        for right in tuple(self._texts):
            if right[1] != _FOR_METADATA:
                self._excuse(right, key)
        return not any(key in keys for keys in self._claims.values())

    def reasons(self) -> tuple[str, ...]:
        """Return what is not permitted, one line for each right."""
        return tuple(self._texts.values())

    def _excuse(self, right: tuple[str, str], key: Key) -> None:
        """State that a claim does not suffer from a missing right; drop it if none does."""
        self._claims[right].discard(key)
        if not self._claims[right]:
            self._drop(right)

    def _drop(self, right: tuple[str, str]) -> None:
        self._texts.pop(right, None)
        self._claims.pop(right, None)


LASTING_SECONDS = 5.0
"""How long a right has to be missing, in seconds, before that is reported."""

log = get_logger()


@dataclass(slots=True)
class ReadAccess:
    """Keeps track of rights that are missing.

    `subject` stands for the operator; `record` has an Event recorded, which is repeated every `refresh` seconds.
    `clock` is monotonic, in seconds.
    """

    subject: Subject
    record: InitVar[Callable[[EventRequest], None]]
    refresh: InitVar[float]
    clock: Callable[[], float]
    _events: Facts = field(init=False)
    _since: dict[str, float] = field(default_factory=dict)
    _reported: dict[str, ApiError] = field(default_factory=dict)

    def __post_init__(self, record: Callable[[EventRequest], None], refresh: float) -> None:
        self._events = Facts(refresh, self.clock, Timers(), record)

    def check(
        self, denied: Mapping[str, ApiError | None], unanswered: AbstractSet[str] = frozenset()
    ) -> None:
        """Report what has been denied for long; `denied` has the refusal, or None, by what the right is needed for.

        What was reported of those that are `unanswered` stands. All others are needed no more, and refreshed no more.
        """
        now = self.clock()
        for name in self._since.keys() - denied.keys() - unanswered:
            self._forget(name)
        for name, error in denied.items():
            if error is None:
                if (granted := self._forget(name)) is not None:
                    log.info(messages.PERMITTED, verb=granted.verb, resource=granted.resource)
            elif now >= self._since.setdefault(name, now) + LASTING_SECONDS:
                self._report(name, error)
        self._events.record_due()

    def _forget(self, name: str) -> ApiError | None:
        """Keep nothing of a right; return the refusal that was reported."""
        self._since.pop(name, None)
        self._events.clear(name)
        return self._reported.pop(name, None)

    def _report(self, name: str, error: ApiError) -> None:
        def log_event(_: EventRequest) -> None:
            log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
            self._reported[name] = error

        event = EventRequest(self.subject, "Warning", messages.EVENT_FORBIDDEN, messages.forbidden(error))
        self._events.report(name, event, (error.verb, error.resource), log_event=log_event)
