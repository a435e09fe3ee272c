"""Problems: what is wrong with objects that are not claims, told on the object that causes it.

A slice that cannot be understood, a class whose selector does not compile, a pool whose slices contradict
each other: whoever must mend it looks at that object, not at the claims that wait because of it.
"""

from collections.abc import Hashable, Iterable
from typing import TypeAlias

from dra_operator.allocator import Failed
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.desk import Desk
from dra_operator.controller.intake import Changes, Intake, Unreadable
from dra_operator.controller.logs import get_logger
from dra_operator.controller.reports import Notice, Subject
from dra_operator.controller.telling import one_line
from dra_operator.inventory import Inventory
from dra_operator.inventory.object_faults import Problem
from dra_operator.inventory.slices import PoolKey

_Blame: TypeAlias = tuple[str, str, str]
"""Kind and name of an object, and the reason why a decision ended because of it."""

INCOMPLETE_SECONDS = 45.0
"""How long a pool has to be incomplete, in seconds, before anybody is told.

Drivers publish the slices of a pool one after the other, and each update makes it incomplete for a moment. A slice that
was deleted by mistake is published again 30 s later by drivers built on Kubernetes' library (its `DefaultSyncDelay`).
"""

log = get_logger()


class Problems:
    """Keeps track of problems and has an Event recorded when one arises or changes."""

    def __init__(self, desk: Desk, inventory: Inventory, intake: Intake) -> None:
        self._desk = desk
        self._inventory = inventory
        self._intake = intake
        self._seen = (-1, 0)
        """Version and number of taint rules of the inventory that was looked at; a rule may taint nothing."""
        self._found: set[Hashable] = set()
        self._broken: set[tuple[str, str]] = set()
        """Kind and name of the objects that `_found` is about."""
        self._incomplete: dict[PoolKey, float] = {}
        """Since when each pool is incomplete, by the clock, in whatever generation: none of them was whole."""
        self._due: float | None = None
        self._unreadable: dict[tuple[str, str, str], Unreadable] = {}
        self._blames: dict[Key, _Blame] = {}
        self._blamed: dict[_Blame, set[Key]] = {}

    def note(self, changes: Changes) -> None:
        """Note which objects can be understood, and which cannot."""
        for place, unreadable in changes.readings.items():
            fact = ("unreadable", place)
            if unreadable is None:
                self._unreadable.pop(place, None)
                self._desk.reports.clear(fact)
                continue
            self._unreadable[place] = unreadable
            self._desk.metrics.object_errors.labels(place[0]).inc()
            tell(self._desk, fact, unreadable.subject, messages.EVENT_INVALID, unreadable.message)
        for key, slip in changes.slips.items():
            if slip is None:
                self._desk.reports.clear(("label", key))
            else:
                tell(self._desk, ("label", key), slip.subject, messages.EVENT_INVALID, slip.message)

    def blame(self, key: Key, failed: Failed) -> None:
        """Note that the decision about a claim ended because of an object.

        A claim is told of its own faults elsewhere, and of its namespace's, which works for everybody else.
        """
        if failed.subject is None or failed.subject[0] in ("ResourceClaim", "Namespace"):
            self.excuse(key)
            return
        subject = self._intake.subject(*failed.subject)
        # An object that has its Event already needs no other; of one that does not exist the claim that names
        # it says so.
        if failed.subject in self._broken or not subject.uid:
            self.excuse(key)
            return
        # The message names a device, perhaps another one for each claim; the reason is what matters.
        blame = (*failed.subject, failed.reason.value)
        if self._blames.get(key) != blame:
            self.excuse(key)
            self._blames[key] = blame
            self._blamed.setdefault(blame, set()).add(key)
        tell(self._desk, ("blamed", blame), subject, failed.reason.value, failed.message, blame)

    def excuse(self, key: Key) -> None:
        """Note that a claim blames no object any more: it was decided otherwise, or is gone or not ours."""
        blame = self._blames.pop(key, None)
        if blame is None:
            return
        keys = self._blamed[blame]
        keys.discard(key)
        if not keys:
            del self._blamed[blame]
            self._desk.reports.clear(("blamed", blame))

    def report_inventory(self) -> None:
        """Look for problems of what exists, if it has changed or a pool has been incomplete for long.

        To be called before claims are decided.
        """
        now, seen = self._desk.clock(), (self._inventory.version, len(self._inventory.rules))
        if seen == self._seen and (self._due is None or now < self._due):
            return
        problems = self._inventory.problems()
        self._time(problems, now)
        found, broken = set[Hashable](), set[tuple[str, str]]()
        for problem in problems:
            pool, sameness = problem.incomplete, problem.topic or None
            if pool is not None:
                if now < self._incomplete[pool] + INCOMPLETE_SECONDS:
                    continue
                # How many slices there are by now is no news: there may be hundreds, each a little later.
                sameness = "/".join(pool)
            place = (problem.kind, problem.name)
            fact = ("problem", place, sameness or problem.message)
            found.add(fact)
            self._found.add(fact)
            broken.add(place)
            subject = self._intake.subject(*place)
            tell(self._desk, fact, subject, messages.EVENT_INVALID, problem.message, sameness)
        self._clear(self._found - found)
        self._found, self._broken = found, broken
        metrics = self._desk.metrics
        for what, count in self._inventory.summary().items():
            metrics.objects.labels(what).set(count)
        self._seen = seen

    def next_due(self) -> float | None:
        """Return when the next pool will have been incomplete for long, by the clock, or None if none is waited for."""
        return self._due

    def measure(self) -> None:
        """Count the objects that have a problem now that was told; to be called after claims are decided."""
        blamed = {(kind, name) for kind, name, _ in self._blamed}
        self._desk.metrics.problems.set(len(self._broken) + len(self._unreadable) + len(blamed))

    def _time(self, problems: Iterable[Problem], now: float) -> None:
        """Note since when pools are incomplete, and when the next of them will have been for long."""
        pools = [problem.incomplete for problem in problems if problem.incomplete is not None]
        self._incomplete = {pool: self._incomplete.get(pool, now) for pool in pools}
        ends = [since + INCOMPLETE_SECONDS for since in self._incomplete.values()]
        self._due = min((end for end in ends if now < end), default=None)

    def _clear(self, facts: set[Hashable]) -> None:
        for fact in facts:
            self._desk.reports.clear(fact)


def tell(  # noqa: PLR0917 - an Event, and when it is news
    desk: Desk, fact: Hashable, subject: Subject, reason: str, message: str, sameness: Hashable = None
) -> None:
    """State what is wrong with an object; it is news when `sameness` changes, or else reason or message."""
    notice = Notice(subject, "Warning", reason, one_line(message))
    news = desk.reports.state(fact, notice, (reason, message) if sameness is None else sameness, desk.clock())
    if news is None:
        return
    desk.say(news)
    name = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    log.warning(messages.PROBLEM, kind=subject.kind, object=name, reason=reason, why=news.message)
