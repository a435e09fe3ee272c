"""What a plan has written, and the conditions that it tells of in a status.

Source: k8s.io/apimachinery/pkg/apis/meta/v1, `Condition`, `Preconditions`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Body: TypeAlias = dict[str, Any]
_MOST_NAMED: Final = 5
"""So many of several things a status names; of the others it has the number."""


@dataclass(frozen=True, slots=True)
class Create:
    """An object of a kind, such as `DeviceTaintRule`, to be created; without a namespace where that is empty."""

    kind: str
    body: Body
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of an object as it is now: lists replace lists, so another version of it is refused."""

    kind: str
    name: str
    uid: str
    version: str
    body: Mapping[str, Any]
    namespace: str = ""
    subresource: str = ""

    @property
    def wire(self) -> Body:
        """The patch with its preconditions."""
        metadata = {"uid": self.uid, "resourceVersion": self.version, **self.body.get("metadata", {})}
        return {**self.body, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class Delete:
    """An object that is to be deleted; in this version alone, if one is named."""

    kind: str
    name: str
    uid: str
    version: str = ""
    namespace: str = ""

    @property
    def wire(self) -> Body:
        """The options with the preconditions."""
        version = {"resourceVersion": self.version} if self.version else {}
        return {"preconditions": {"uid": self.uid, **version}}


Change: TypeAlias = Create | Patch | Delete


def condition(name: str, status: str, reason: str, message: str) -> Body:
    """Return a condition without its times."""
    return {"type": name, "status": status, "reason": reason, "message": message}


def with_transition_times(status: Body, before: Iterable[Mapping[str, Any]], now: str) -> Body:
    """Return a status whose conditions say since when they are so, RFC 3339; `before` are those that it had."""
    known = {each.get("type"): each for each in before}
    return {**status, "conditions": [*_timed(status["conditions"], known, now)]}


def _timed(conditions: Iterable[Body], known: Mapping[Any, Mapping[str, Any]], now: str) -> Iterator[Body]:
    for each in conditions:
        old = known.get(each["type"], {})
        since = old.get("lastTransitionTime") if old.get("status") == each["status"] else None
        yield {**each, "lastTransitionTime": since or now}


def first_names(names: Sequence[str]) -> str:
    """Return the first of some names, and how many others there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} others" if more > 0 else "")


def first_lines(lines: Sequence[str]) -> str:
    """Return the first of some lines as one, and how many others there are."""
    more = [f"{len(lines) - _MOST_NAMED} others"] if len(lines) > _MOST_NAMED else []
    return "; ".join([*lines[:_MOST_NAMED], *more])
