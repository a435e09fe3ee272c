"""What must outlive the agent: the plugins' answers by claim, and the resources with the devices that were listed.

A file each, written atomically, read once at the start; what cannot be read is put aside and reported.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from dra_bridge.cdi import Answer, remove, write_atomically
from dra_bridge.devices import PluginDevice

log = structlog.get_logger("dra_bridge")

_UNREADABLE: Final = ".unreadable"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class PreparedDevice(_Record):
    """A device of a claim: its pool and name in slices, and the plugin's ID."""

    pool: str
    name: str
    id: str


class RequestRecord(_Record):
    """A request of a claim that the plugin has answered."""

    devices: tuple[PreparedDevice, ...]
    answer: Answer
    started: bool = False
    """Whether PreStartContainer, where the plugin wants it, has been called."""


class ClaimRecord(_Record):
    """A claim of one driver; `is_complete` once all its requests are answered and the kubelet may be told so."""

    uid: str
    namespace: str
    name: str
    driver: str
    requests: dict[str, RequestRecord] = {}
    is_complete: bool = False


class ResourceRecord(_Record):
    """A resource that a plugin has registered, the driver's name for it, and the devices it has listed last."""

    resource: str
    driver: str
    devices: tuple[PluginDevice, ...] = ()


_R = TypeVar("_R", ClaimRecord, ResourceRecord)


class Checkpoint:
    """The records in a folder of the host, which `load` reads."""

    def __init__(self, folder: Path) -> None:
        self.claims: dict[tuple[str, str], ClaimRecord] = {}
        """By driver and uid."""
        self.resources: dict[str, ResourceRecord] = {}
        """By resource name."""
        self._aside: set[tuple[str, str]] = set()
        """Driver and uid of the claims whose records cannot be read."""
        self._claims = folder / "claims"
        self._resources = folder / "resources"

    def load(self) -> None:
        """Read what the agent before has left, and remove what it has not finished. Raises OSError."""
        for folder in (self._claims, self._resources):
            folder.mkdir(parents=True, exist_ok=True)
            for partial in folder.glob(".*.new"):
                remove(partial)
        self.claims = {(each.driver, each.uid): each for each in _read(self._claims, ClaimRecord)}
        names = (path.name.split(".json")[0] for path in self._claims.glob(f"*.json{_UNREADABLE}"))
        # No driver has an underscore.
        self._aside = {(name.partition("_")[0], name.partition("_")[2]) for name in names}
        self.resources = {each.resource: each for each in _read(self._resources, ResourceRecord)}

    def unreadable(self, driver: str) -> frozenset[str]:
        """Return the uids of a driver's claims whose records could not be read: what they hold is not known."""
        return frozenset(uid for each, uid in self._aside if each == driver)

    def store_claim(self, record: ClaimRecord) -> None:
        """Store a claim. Raises OSError; nothing has changed then."""
        write_atomically(self._claim_path(record.driver, record.uid), record.model_dump_json())
        self.claims[record.driver, record.uid] = record
        self._forget_aside(record.driver, record.uid)

    def remove_claim(self, driver: str, uid: str) -> None:
        """Forget a claim. Raises OSError."""
        remove(self._claim_path(driver, uid))
        self.claims.pop((driver, uid), None)
        self._forget_aside(driver, uid)

    def store_resource(self, record: ResourceRecord) -> None:
        """Store a resource. Raises OSError."""
        write_atomically(self._resources / f"{record.driver}.json", record.model_dump_json())
        self.resources[record.resource] = record

    def remove_resource(self, record: ResourceRecord) -> None:
        """Forget a resource. Raises OSError."""
        remove(self._resources / f"{record.driver}.json")
        self.resources.pop(record.resource, None)

    def holder(self, driver: str, ids: Iterable[str], but: str) -> tuple[str, ClaimRecord] | None:
        """Return the first of these devices that another claim than `but` has, and that claim."""
        wanted = set(ids)
        for (of_driver, uid), record in self.claims.items():
            if of_driver == driver and uid != but:
                for request in record.requests.values():
                    for device in request.devices:
                        if device.id in wanted:
                            return device.id, record
        return None

    def _forget_aside(self, driver: str, uid: str) -> None:
        if (driver, uid) in self._aside:
            path = self._claim_path(driver, uid)
            remove(path.with_name(path.name + _UNREADABLE))
            self._aside.discard((driver, uid))

    def _claim_path(self, driver: str, uid: str) -> Path:
        return self._claims / f"{driver}_{uid}.json"


def _read(folder: Path, kind: type[_R]) -> list[_R]:
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(kind.model_validate_json(path.read_bytes()))
        except (ValidationError, OSError) as error:
            log.warning("checkpoint unreadable, put aside", file=str(path), why=str(error))
            aside = path.with_name(path.name + _UNREADABLE)
            # A folder takes the place of no file.
            remove(aside)
            path.replace(aside)
    return found
