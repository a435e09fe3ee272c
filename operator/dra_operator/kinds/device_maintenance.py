"""DeviceMaintenance: cards out of service, their neighbours untouched; as it is asked for, and as its status has it.

All that it needs to go on after a restart is in the status and in the rules. Source: docs/kinds.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from dra_operator.kinds.selector import DeviceKey, Selector

KIND: Final = "DeviceMaintenance"
PLURAL: Final = "devicemaintenances"
ALL: Final = "all"
MOST_CARDS: Final = 1000
"""A status that names more would be refused, or slow everybody down who reads it."""

Phase: TypeAlias = Literal["Waiting", "Tainted", "Drained", "Safe", "Finished", "Returned"]
WORKED: Final = frozenset(("Tainted", "Drained", "Safe"))
UNAVAILABLE: Final = WORKED | {"Finished"}
"""The phases of cards that were begun and are not back."""


class MaintenanceDevices(BaseModel):
    """An entry of `spec.devices`: devices of a driver, or all that a node alone publishes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    driver: str | None = Field(default=None, min_length=1, max_length=63)
    pool: str | None = Field(default=None, min_length=1, max_length=253)
    device: str | None = Field(default=None, min_length=1, max_length=63)
    node: str | None = Field(default=None, min_length=1, max_length=253)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.driver is None) == (self.node is None):
            raise ValueError("give either driver or node")
        if self.node is not None and (self.pool is not None or self.device is not None):
            raise ValueError("pool and device go with driver, not with node")
        return self

    def __str__(self) -> str:
        return f"node {self.node}" if self.selector is None else str(self.selector)

    @property
    def selector(self) -> Selector | None:
        """Which devices of a driver are meant, if not those of a node."""
        return None if self.driver is None else Selector(self.driver, self.pool, self.device)

    def may_be_in(self, driver: str, pool: str, nodes: Sequence[str]) -> bool:
        """Return whether a pool can have such devices; `nodes` publish it."""
        if self.node is not None:
            return self.node in nodes
        return self.driver == driver and self.pool in (None, pool)

    def names(self, key: DeviceKey, node: str) -> bool:
        """Return whether a device is meant; `node` publishes its pool alone, and is empty if none does."""
        return self.node == node if self.selector is None else self.selector.matches(key)


class FittingClaims(BaseModel):
    """An entry of `spec.mustStillFit`: so many claims of a template."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)
    namespace: str = Field(min_length=1, max_length=63)
    resource_claim_template_name: str = Field(min_length=1, max_length=253)
    copies: int = Field(default=1, ge=1, le=255)


class MaintenanceSpec(BaseModel):
    """`spec` of a maintenance."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)
    devices: tuple[MaintenanceDevices, ...] = Field(min_length=1, max_length=64)
    reason: str = Field(default="", max_length=1024)
    drain: Literal["Wait", "Evict"] = "Wait"
    evict_after_seconds: int = Field(default=300, ge=0, le=604_800)
    max_unavailable: int | None = Field(default=None, ge=1, le=MOST_CARDS)
    must_still_fit: tuple[FittingClaims, ...] = Field(default=(), max_length=16)
    finished: tuple[str, ...] = Field(default=(), max_length=MOST_CARDS)

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        if self.max_unavailable is None and any(each.driver and not each.pool for each in self.devices):
            raise ValueError(
                "a driver without a pool means devices of all its nodes: name the pool, or say by maxUnavailable how "
                "many may be out of service at once"
            )
        if any(each != ALL and each.count("/") < 2 for each in self.finished):
            raise ValueError(f"finished has driver/pool/device, as in status.cards, or {ALL}")
        return self


_NOTHING: Final = MaintenanceSpec.model_construct(devices=())


class CardStatus(BaseModel):
    """What the status says of a card. `evicted` are the owners of pods that were evicted, each with its device."""

    model_config = ConfigDict(frozen=True)
    name: str
    phase: Phase
    since: AwareDatetime
    devices: tuple[str, ...]
    node: str = ""
    evicted: tuple[str, ...] = ()
    message: str = ""

    @property
    def is_begun(self) -> bool:
        """Whether it was begun, and is not back."""
        return self.phase in UNAVAILABLE

    @property
    def is_worked_on(self) -> bool:
        """Whether it was begun, and is not finished."""
        return self.phase in WORKED

    @property
    def keys(self) -> tuple[DeviceKey, ...]:
        """Its devices; a pool can have slashes in its name."""
        driver, _, rest = self.name.partition("/")
        pool = rest.rpartition("/")[0]
        return tuple([DeviceKey(driver, pool, each) for each in self.devices])


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A maintenance; one that is being deleted names no devices."""

    name: str
    uid: str
    generation: int
    created: str
    spec: MaintenanceSpec
    entries: tuple[CardStatus, ...] = ()
    is_deleted: bool = False
    preview: str | None = None
    """What it was said to hit, if that was said of its spec as it is."""

    @property
    def begun(self) -> tuple[CardStatus, ...]:
        """The cards that are begun."""
        return tuple([each for each in self.entries if each.is_begun])

    def names(self, devices: Iterable[DeviceKey], node: str) -> bool:
        """Return whether it means one of the devices of a card."""
        return any(each.names(key, node) for each in self.spec.devices for key in devices)


def read_maintenance(body: Mapping[str, Any]) -> Maintenance:
    """Return a maintenance as on the wire. Raises pydantic.ValidationError for a spec that the CRD would refuse."""
    metadata = body["metadata"]
    is_deleted = bool(metadata.get("deletionTimestamp"))
    spec = _NOTHING if is_deleted else MaintenanceSpec.model_validate(body.get("spec") or {})
    status, generation = body.get("status") or {}, int(metadata.get("generation", 0))
    entries = tuple([CardStatus.model_validate(each) for each in status.get("cards") or ()])
    previews = [
        each["message"]
        for each in status.get("conditions") or ()
        if each["type"] == "Previewed"
        and each["status"] == "True"
        and each.get("observedGeneration") == generation
    ]
    return Maintenance(
        metadata["name"],
        metadata["uid"],
        generation,
        metadata.get("creationTimestamp", ""),
        spec,
        entries,
        is_deleted,
        previews[0] if previews else None,
    )
