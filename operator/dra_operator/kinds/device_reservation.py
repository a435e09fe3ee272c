"""DeviceReservation: devices held without a pod. The plan keeps a claim for each copy, reserved for the reservation.

That entry keeps kube-controller-manager and kube-scheduler from taking the allocation back when the last pod has ended.
Source: docs/kinds.md; `syncClaim` of the claim controller, which leaves entries of kinds that it does not know.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from dra_operator.api.names import (
    GROUP,
    RESERVATION_KIND,
    RESERVATION_RESOURCE,
    TEMPLATE_ANNOTATION,
)
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.text import timestamp
from dra_operator.api.types import ResourceClaim, ResourceClaimConsumerReference
from dra_operator.api.write import to_wire
from dra_operator.kinds.changes import (
    Body,
    Change,
    Create,
    Delete,
    Patch,
    Plan,
    condition,
    first_lines,
    first_names,
    owner_reference,
)
from dra_operator.pods.claims import MOST_CONSUMERS

CLAIM: Final = "ResourceClaim"
MOST_COPIES: Final = 255
PLURAL: Final = RESERVATION_RESOURCE
_OLDER: Final = (
    "the template was made anew since: only new copies are made of it; delete the claim to have that"
)
_API_VERSION: Final = "resource.k8s.io/v1"
_NOTHING: Final = {
    "Lost": "no device is lost",
    "Foreign": "the operator chose all devices",
    "Expiring": "no copy is let go",
    "TemplateChanged": "all copies are made of the template as it is",
}
"""What is said while there is no such copy."""
PHASES: Final = ("Pending", "Ready", "Expiring", "Expired")
ENDED: Final = PHASES[2:]
_HELD: Final = frozenset(("Ready", "Foreign"))
"""The states of a copy that pods can use."""


class ReservationSpec(BaseModel):
    """`spec` of a reservation."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)
    resource_claim_template_name: str = Field(min_length=1, max_length=253)
    copies: int = Field(default=1, ge=1, le=MOST_COPIES)
    ttl_seconds: int | None = Field(default=None, ge=1, le=315_360_000)
    until: AwareDatetime | None = None
    if_lost: Literal["Wait", "Replace"] = "Wait"

    @model_validator(mode="after")
    def _has_one_end(self) -> Self:
        if self.ttl_seconds is not None and self.until is not None:
            raise ValueError("ttlSeconds and until exclude each other")
        return self


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation; `expires` is None if it holds until it is deleted. One that is deleted has no copies."""

    namespace: str
    name: str
    uid: str
    generation: int
    template: str
    copies: int
    expires: datetime | None
    replaces_lost: bool
    is_deleted: bool

    def name_copy(self, index: int) -> str:
        """Return the name of the claim of a copy."""
        return f"{self.name}-{index}"

    def is_over(self, now: datetime) -> bool:
        """Return whether nothing is held any more but what pods still use."""
        return self.is_deleted or (self.expires is not None and now >= self.expires)


@dataclass(frozen=True, slots=True)
class Template:
    """A ResourceClaimTemplate: its uid, and what a claim gets of it, as on the wire."""

    uid: str
    metadata: Body
    spec: Body
    api_version: str = _API_VERSION


@dataclass(frozen=True, slots=True)
class Copy:
    """A claim that has the name of a copy, and what the operator knows of it.

    `reason` and `text` say why it waits, `lost` what is wrong with its devices, which has `causes`; `is_foreign`:
    somebody else chose them; `may_end`: no other claim holds one of them.
    """

    claim: ResourceClaim
    reason: str = ""
    text: str = ""
    lost: str = ""
    causes: frozenset[str] = frozenset()
    is_foreign: bool = False
    may_end: bool = True

    @property
    def name(self) -> str:
        """The name of the claim."""
        return self.claim.metadata.name

    @property
    def is_deleted(self) -> bool:
        """Whether it is being deleted."""
        return self.claim.metadata.deletion_timestamp is not None

    def has_entry(self, uid: str) -> bool:
        """Return whether it is reserved for a reservation."""
        return any(each.uid == uid for each in self.claim.status.reserved_for)

    def is_of(self, uid: str) -> bool:
        """Return whether it belongs to a reservation; its owner may have been taken off, with `--cascade=orphan`."""
        owners = self.claim.metadata.owner_references
        return any(each.controller and each.uid == uid for each in owners) or self.has_entry(uid)

    def users(self, uid: str) -> tuple[ResourceClaimConsumerReference, ...]:
        """Return whom it is reserved for beside a reservation."""
        return tuple([each for each in self.claim.status.reserved_for if each.uid != uid])


def read_reservation(body: Mapping[str, Any]) -> Reservation:
    """Return a reservation as on the wire. Raises pydantic.ValidationError for a spec that the CRD would refuse.

    The spec of one that is being deleted does not matter.
    """
    metadata = body["metadata"]
    is_deleted = bool(metadata.get("deletionTimestamp"))
    spec = None if is_deleted else ReservationSpec.model_validate(body.get("spec") or {})
    expires = None if spec is None else spec.until
    if spec is not None and spec.ttl_seconds is not None:
        created = datetime.fromisoformat(metadata["creationTimestamp"])
        expires = created + timedelta(seconds=spec.ttl_seconds)
    return Reservation(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        int(metadata.get("generation", 0)),
        "" if spec is None else spec.resource_claim_template_name,
        0 if spec is None else spec.copies,
        expires,
        spec is not None and spec.if_lost == "Replace",
        is_deleted,
    )


def read_template(body: Mapping[str, Any]) -> Template:
    """Return a template as on the wire."""
    made = body.get("spec") or {}
    metadata = made.get("metadata") or {}
    kept = {key: dict(metadata[key]) for key in ("labels", "annotations") if metadata.get(key)}
    version = body.get("apiVersion", _API_VERSION)
    return Template(body["metadata"]["uid"], kept, made.get("spec") or {}, version)


def plan_sweep(claims: Iterable[ResourceClaim], alive: Collection[str]) -> Iterator[Patch]:
    """Yield what takes the entries of reservations off claims once they are gone; `alive` are the uids of all others.

    Nobody else would: kube-controller-manager keeps entries of kinds that it does not know.
    """
    for claim in claims:
        left = [each for each in claim.status.reserved_for if each.api_group != GROUP or each.uid in alive]
        if len(left) < len(claim.status.reserved_for):
            yield _patch_status(claim, {"reservedFor": [to_wire(each) for each in left]})


def plan(
    reservation: Reservation,
    template: Template | None,
    copies: Iterable[Copy],
    now: datetime,
    api_version: str,
    *,
    refused: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Return what is to be written for a reservation.

    `template` is None if there is none; `copies` are all claims that have the name of a copy, be they of the
    reservation or not; claims are made in `api_version`; `refused` has why the API server does not accept some.
    """
    known = {int(each.name.rpartition("-")[2]): each for each in copies}
    own = {index: each for index, each in known.items() if each.is_of(reservation.uid)}
    found = _CopyPlanner(reservation, template, api_version, refused, is_over=reservation.is_over(now))
    wanted = set[int]() if found.is_over else _choose(reservation, own)
    for index in sorted(wanted | own.keys()):
        if index in own:
            found.keep(own[index], is_wanted=index in wanted)
        elif index in known:
            text = "is not of this reservation, and is not touched: delete it, or make a reservation of another name"
            found.report(reservation.name_copy(index), "NameTaken", reason="NameTaken", message=text)
        else:
            found.create(index)
    status = _build_status(reservation, found)
    is_ending = not any(each.users(reservation.uid) for each in own.values())
    return Plan(tuple(found.changes), status, is_released=not own, is_ending=is_ending)


def _choose(reservation: Reservation, own: Mapping[int, Copy]) -> set[int]:
    """Return the numbers of the copies that are to be there: those in use stay first, then those of low numbers."""
    living = [index for index, each in own.items() if not each.is_deleted]
    living.sort(key=lambda index: (not own[index].users(reservation.uid), index))
    chosen = set(living[: reservation.copies])
    missing = (index for index in range(MOST_COPIES) if index not in chosen)
    return chosen.union(next(missing) for _ in range(reservation.copies - len(chosen)))


@dataclass(slots=True)
class _CopyPlanner:
    """What a plan is made of, and what it has found so far: changes, and what is told of each copy."""

    reservation: Reservation
    template: Template | None
    api_version: str
    refused: Mapping[str, str]
    is_over: bool
    changes: list[Change] = field(default_factory=list)
    told: list[Body] = field(default_factory=list)
    older: list[Body] = field(default_factory=list)

    def keep(self, copy: Copy, *, is_wanted: bool) -> None:
        """See to it that a claim of the reservation is held, or let go."""
        metadata, uid = copy.claim.metadata, self.reservation.uid
        users = copy.users(uid)
        if not is_wanted or copy.is_deleted:
            if not copy.is_deleted:
                # Of too many copies, one that a pod begins to use at this moment stays.
                version = "" if users or self.is_over else metadata.resource_version
                self.changes.append(
                    Delete(CLAIM, copy.name, metadata.uid, version, self.reservation.namespace)
                )
            elif copy.has_entry(uid) and not users:
                self._patch(copy, {"reservedFor": []})
            text = f"is let go once {_name_users(users)} ended" if users else "is being deleted"
            self.report(copy.name, "Expiring", copy, reason="Expiring", message=text)
            return
        if self.template is not None and metadata.annotations.get(TEMPLATE_ANNOTATION) != self.template.uid:
            self.older.append({"name": copy.name, "message": _OLDER})
        if copy.claim.status.allocation is None:
            reason, text = copy.reason or "Pending", copy.text or "waits for the operator to allocate it"
            self.report(copy.name, "Pending", reason=reason, message=text)
        elif copy.lost:
            self._replace(copy)
        elif copy.has_entry(uid):
            text = "kube-scheduler chose its devices, for a pod" if copy.is_foreign else ""
            text = "no more pods can use it" if len(users) >= MOST_CONSUMERS - 1 else text
            self.report(copy.name, "Foreign" if copy.is_foreign else "Ready", copy, message=text)
        elif len(users) >= MOST_CONSUMERS:
            text = f"{len(users)} pods use it, so it cannot be held beyond them"
            self.report(copy.name, "Pending", copy, reason="InUseTooOften", message=text)
        else:
            entries = [*copy.claim.status.reserved_for, self._entry]
            self._patch(copy, {"reservedFor": [to_wire(each) for each in entries]})
            self.report(
                copy.name, "Pending", copy, reason="Reserving", message="is allocated, and being reserved"
            )

    def _replace(self, copy: Copy) -> None:
        users, fate = copy.users(self.reservation.uid), "it is kept, as spec.ifLost is Wait"
        if self.reservation.replaces_lost:
            fate = "it gets other devices"
            if users:
                fate += f" once {_name_users(users)} ended"
            elif not copy.may_end:
                fate += " once no other claim holds one of them"
            else:
                self._patch(copy, {"allocation": None, "reservedFor": None})
        self.report(copy.name, "Lost", copy, reason="Lost", message=f"{copy.lost}; {fate}")

    def create(self, index: int) -> None:
        """Have the claim of a copy made."""
        own, template = self.reservation, self.template
        name = own.name_copy(index)
        if template is None:
            text = f'there is no ResourceClaimTemplate "{own.template}" in this namespace'
            self.report(name, "Pending", reason="TemplateNotFound", message=text)
            return
        if (why := self.refused.get(name)) is not None:
            self.report(
                name, "Pending", reason="Refused", message=f"the API server refuses this claim: {why}"
            )
            return
        owner = {**owner_reference(RESERVATION_KIND, own.name, own.uid), "controller": True}
        annotations = {**template.metadata.get("annotations", {}), TEMPLATE_ANNOTATION: template.uid}
        metadata = {"name": name, "namespace": own.namespace, "ownerReferences": [owner]}
        self.changes.append(
            Create(
                CLAIM,
                {
                    "apiVersion": self.api_version,
                    "kind": "ResourceClaim",
                    "metadata": {**template.metadata, **metadata, "annotations": annotations},
                    "spec": template.spec,
                },
                own.namespace,
            )
        )
        self.report(name, "Pending", reason="Creating", message="is being created")

    def report(
        self, name: str, state: str, copy: Copy | None = None, *, reason: str = "", message: str = ""
    ) -> None:
        """State how it is with a copy; `copy` is its claim, where that has devices."""
        said: Body = {"name": name, "state": state}
        if copy is not None and (allocation := copy.claim.status.allocation) is not None:
            results = allocation.devices.results
            said["devices"] = [f"{each.driver}/{each.pool}/{each.device}" for each in results]
            if node := pinned_to(allocation.node_selector):
                said["node"] = node
            said["users"] = len(copy.users(self.reservation.uid))
        said |= {key: value for key, value in (("reason", reason), ("message", message)) if value}
        self.told.append(said)

    @property
    def _entry(self) -> ResourceClaimConsumerReference:
        return ResourceClaimConsumerReference(
            GROUP, RESERVATION_RESOURCE, self.reservation.name, self.reservation.uid
        )

    def _patch(self, copy: Copy, status: Body) -> None:
        self.changes.append(_patch_status(copy.claim, status))


def _patch_status(claim: ResourceClaim, status: Body) -> Patch:
    metadata = claim.metadata
    body = {"status": status}
    return Patch(
        CLAIM, metadata.name, metadata.uid, metadata.resource_version, body, metadata.namespace, "status"
    )


def _name_users(users: Sequence[ResourceClaimConsumerReference]) -> str:
    names = [each.name for each in users]
    return f"{first_names(names)} {'has' if len(names) == 1 else 'have'}"


# --- the status


def _build_status(reservation: Reservation, found: _CopyPlanner) -> Body:
    told = found.told
    held = sum(each["state"] in _HELD for each in told)
    if found.is_over:
        phase = "Expiring" if told else "Expired"
    else:
        phase = "Ready" if held == reservation.copies else "Pending"
    expires = "Never" if reservation.expires is None else timestamp(reservation.expires)
    return {
        "observedGeneration": reservation.generation,
        "phase": phase,
        "ready": f"{held}/{reservation.copies}",
        "expires": expires,
        "copies": told,
        "conditions": [
            _ready(reservation, told, phase, expires),
            *(
                _about(name, [each for each in told if each["state"] == name])
                for name in ("Lost", "Foreign", "Expiring")
            ),
            _about("TemplateChanged", found.older),
        ],
    }


def _ready(reservation: Reservation, told: Sequence[Body], phase: str, expires: str) -> Body:
    if phase in ENDED:
        text = "it is being deleted" if reservation.is_deleted else f"it ended at {expires}"
        return condition("Ready", "False", phase, f"{text}: nothing is held any more but what pods still use")
    if phase == "Ready":
        return condition("Ready", "True", "Ready", "pods can use all copies by their names")
    waiting = [each for each in told if each["state"] not in _HELD]
    # What waits for devices says more than what will be there in a moment.
    first = next((each for each in waiting if each["reason"] not in ("Creating", "Pending")), waiting[0])
    more = f" (and {len(waiting) - 1} others wait)" if len(waiting) > 1 else ""
    return condition("Ready", "False", first["reason"], f"{first['name']}: {first['message']}{more}")


def _about(name: str, told: Iterable[Body]) -> Body:
    """Return a condition that is true while copies are in the state of its name, or were made of another template."""
    lines = [f"{each['name']}: {each.get('message', '')}" for each in told]
    if not lines:
        return condition(name, "False", "None", _NOTHING[name])
    return condition(name, "True", name, first_lines(lines))
