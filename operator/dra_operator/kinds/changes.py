"""What a plan has written, of what it is made, and the conditions that it tells of in a status.

Source: k8s.io/apimachinery/pkg/apis/meta/v1, `Condition`, `Preconditions`.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import ValidationError

from dra_operator.api.names import GROUP, GROUP_VERSION

T = TypeVar("T")
RULE: Final = "DeviceTaintRule"
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


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """An Event of an object; `seconds` is how long it took, where that is measured."""

    reason: str
    message: str
    is_warning: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written for an object, its status, its conditions without times and generations, and its Events.

    `is_released`: nothing belongs to it any more; `is_ending`: what still does goes at once, and waits for nobody.
    """

    changes: tuple[Change, ...]
    status: Body
    is_released: bool
    is_ending: bool
    events: tuple[PlanEvent, ...] = ()


def taint_rule(
    name: str, chosen: Mapping[str, str], key: str, api_version: str, owners: Sequence[Body] = ()
) -> Body:
    """Return the DeviceTaintRule that keeps claims off the devices that a selector chooses, as on the wire."""
    metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "dra-operator"}}
    return {
        "apiVersion": api_version,
        "kind": RULE,
        "metadata": {**metadata, "ownerReferences": [*owners]} if owners else metadata,
        "spec": {"deviceSelector": {**chosen}, "taint": {"key": key, "effect": "NoSchedule"}},
    }


def owner_reference(kind: str, name: str, uid: str) -> Body:
    """Return what names an object of a kind of our own as the owner of another."""
    return {"apiVersion": f"{GROUP}/{GROUP_VERSION}", "kind": kind, "name": name, "uid": uid}


def condition(name: str, status: str, reason: str, message: str) -> Body:
    """Return a condition without its times."""
    return {"type": name, "status": status, "reason": reason, "message": message}


def read_all(read: Callable[[Body], T], bodies: Iterable[Body]) -> list[T]:
    """Return objects of a kind, read; one that an older schema let pass says so itself, and is left out."""
    found = []
    for body in bodies:
        with contextlib.suppress(ValidationError):
            found.append(read(body))
    return found


def find_current(body: Body, listed: Iterable[Body]) -> Body:
    """Return an object as listed now, since what Kopf has of it may be older; one that is gone, as deleted."""
    uid = body["metadata"]["uid"]
    gone = {**body, "metadata": {**body["metadata"], "deletionTimestamp": "now"}}
    return next((each for each in listed if each["metadata"]["uid"] == uid), gone)


def complete_conditions(status: Body, before: Iterable[Mapping[str, Any]], now: str) -> Body:
    """Return a status whose conditions say of which generation, and since when they are so, RFC 3339.

    `before` are the conditions that it had.
    """
    known = {each.get("type"): each for each in before}
    conditions = []
    for each in status["conditions"]:
        old = known.get(each["type"], {})
        since = old.get("lastTransitionTime") if old.get("status") == each["status"] else None
        observed = {"observedGeneration": status["observedGeneration"]}
        conditions.append({**each, **observed, "lastTransitionTime": since or now})
    return {**status, "conditions": conditions}


def first_names(names: Sequence[str]) -> str:
    """Return the first of some names, and how many others there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} others" if more > 0 else "")


def first_lines(lines: Sequence[str]) -> str:
    """Return the first of some lines as one, and how many others there are."""
    more = [f"{len(lines) - _MOST_NAMED} others"] if len(lines) > _MOST_NAMED else []
    return "; ".join([*lines[:_MOST_NAMED], *more])
