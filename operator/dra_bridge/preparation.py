"""Preparing claims: from an allocation to the plugin's answers and a CDI file, at most one Allocate for each request.

An answer is stored before the kubelet is told of it, so that neither a retry nor a restart asks the plugin again.
Source: k8s.io/dynamic-resource-allocation/kubeletplugin, which asks the same of a driver.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from dra_bridge.cdi import (
    PreparedRequest,
    UnusableAnswerError,
    cdi_content,
    cdi_file,
    is_cdi_file,
    prepare_request,
    remove,
    unbridged,
    write_atomically,
)
from dra_bridge.checkpoint import Checkpoint, ClaimRecord, PreparedDevice, RequestRecord
from dra_bridge.device_manager import HeldDevices, UnknownHoldersError
from dra_bridge.device_nodes import HostDevices
from dra_bridge.resources import PluginError, Resource
from dra_operator.cluster.session import ApiError, ApiUnreachable

_UID: Final = re.compile(r"[\w-]{1,64}", re.ASCII)
_CLAIM_SECONDS: Final = 40.0
"""The kubelet gives up after 45."""


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str


class PreparationError(Exception):
    """Why a claim cannot be prepared, for the Events of its pods."""


class Preparation:
    """Prepares the claims of all drivers of a node.

    `get_claim` reads a claim, `held` asks what the kubelet's device manager has given away, `may_be_offered` whether it
    may give away a resource's devices, `warn` says on a claim what the bridge cannot do, `count_failure` counts a
    failed Allocate of a resource.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        cdi: Path,
        node: str,
        *,
        host_devices: HostDevices,
        get_claim: Callable[[str, str], Awaitable[dict[str, Any]]],
        held: Callable[[], Awaitable[HeldDevices]],
        may_be_offered: Callable[[str], bool],
        warn: Callable[[ClaimReference, str], None],
        count_failure: Callable[[str], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._cdi = cdi
        self._node = node
        self._host_devices = host_devices
        self._get_claim = get_claim
        self._held = held
        self._may_be_offered = may_be_offered
        self._warn = warn
        self._count_failure = count_failure
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """Locks by driver and uid, each as long as somebody has it or waits for it."""
        self._in_flight: dict[tuple[str, str], str] = {}
        """Devices by driver and ID that a claim is being prepared with, by its uid."""

    def restore(self) -> None:
        """Bring the CDI files to what is prepared: after a crash, or where the folder does not outlive a reboot.

        Raises OSError.
        """
        self._cdi.mkdir(parents=True, exist_ok=True)
        expected = {}
        for record in self._checkpoint.claims.values():
            if record.is_complete and (content := _content(record)):
                expected[cdi_file(record.driver, record.uid)] = content
        for path in self._cdi.iterdir():
            if is_cdi_file(path.name) and path.name not in expected:
                remove(path)
        for name, content in expected.items():
            path = self._cdi / name
            if path.is_dir():
                remove(path)
            if not path.is_file() or path.read_bytes() != content.encode():
                write_atomically(path, content)

    async def prepare(self, resource: Resource, claim: ClaimReference) -> ClaimRecord:
        """Prepare a claim, or find it prepared, and return what is known of it. Raises PreparationError."""
        if not _UID.fullmatch(claim.uid):
            raise PreparationError(f"uid {claim.uid!r} is no uid")
        try:
            async with asyncio.timeout(_CLAIM_SECONDS), self._lock(resource.driver, claim.uid):
                return await self._prepare(resource, claim)
        except (PluginError, UnusableAnswerError, UnknownHoldersError, ApiError, ApiUnreachable) as error:
            raise PreparationError(str(error)) from error
        except OSError as error:
            # A timeout is one, too.
            why = str(error) or f"the plugin of {resource.name} takes longer than {_CLAIM_SECONDS:g} s"
            raise PreparationError(why) from error

    async def unprepare(self, driver: str, claim: ClaimReference) -> None:
        """End the preparation of a claim, if there is one. Raises PreparationError."""
        if not _UID.fullmatch(claim.uid):
            return
        async with self._lock(driver, claim.uid):
            try:
                remove(self._cdi / cdi_file(driver, claim.uid))
                self._checkpoint.remove_claim(driver, claim.uid)
            except OSError as error:
                raise PreparationError(str(error)) from error

    def _lock(self, driver: str, uid: str) -> asyncio.Lock:
        return self._locks.setdefault((driver, uid), asyncio.Lock())

    async def _prepare(self, resource: Resource, claim: ClaimReference) -> ClaimRecord:
        record = self._checkpoint.claims.get((resource.driver, claim.uid))
        results = await self._results(resource.driver, claim)
        # A claim may have been deallocated meanwhile, and allocated anew.
        if record is None or not record.is_complete or _places(record) != results.keys():
            wanted = self._devices(resource, results.values())
            record = await self._allocate_all(resource, claim, record, wanted)
            answers = {name: request.answer for name, request in record.requests.items()}
            for text in unbridged(answers):
                self._warn(claim, text)
        if content := _content(record):
            write_atomically(self._cdi / cdi_file(record.driver, record.uid), content)
        if not record.is_complete:
            record = record.model_copy(update={"is_complete": True})
            self._checkpoint.store_claim(record)
        return record

    async def _results(
        self, driver: str, claim: ClaimReference
    ) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        """Return what is allocated of a driver for a claim, by request, pool and name of the device."""
        stored = await self._get_claim(claim.namespace, claim.name)
        if stored["metadata"]["uid"] != claim.uid:
            raise PreparationError("this claim is gone, and another one has its name")
        allocation = (stored.get("status") or {}).get("allocation") or {}
        found = {
            (result["request"], result["pool"], result["device"]): result
            for result in (allocation.get("devices") or {}).get("results") or ()
            if result["driver"] == driver
        }
        if not found:
            raise PreparationError(f"no device of {driver} is allocated for the claim")
        return found

    def _devices(
        self, resource: Resource, results: Iterable[Mapping[str, Any]]
    ) -> dict[str, tuple[PreparedDevice, ...]]:
        """Return the devices of a claim by request."""
        found: defaultdict[str, list[PreparedDevice]] = defaultdict(list)
        for result in results:
            found[result["request"]].append(self._device(resource, result))
        return {request: tuple(devices) for request, devices in found.items()}

    def _device(self, resource: Resource, result: Mapping[str, Any]) -> PreparedDevice:
        request, name, pool = result["request"], result["device"], result["pool"]
        if result.get("adminAccess"):
            raise PreparationError(
                f"request {request}: admin access is not possible: a device plugin gives a device to one container"
            )
        if pool != self._node:
            raise PreparationError(f"request {request}: device {name} is of pool {pool}, not of this node")
        device = resource.device(name)
        if device is None:
            raise PreparationError(
                f"request {request}: the plugin of {resource.name} does not list device {name}"
            )
        return PreparedDevice(pool=pool, name=name, id=device.id)

    async def _allocate_all(
        self,
        resource: Resource,
        claim: ClaimReference,
        before: ClaimRecord | None,
        wanted: Mapping[str, tuple[PreparedDevice, ...]],
    ) -> ClaimRecord:
        """Ask the plugin for each request that it has not answered yet."""
        record = ClaimRecord(
            uid=claim.uid,
            namespace=claim.namespace,
            name=claim.name,
            driver=resource.driver,
            requests={
                name: request
                for name, request in (before.requests if before else {}).items()
                if request.devices == wanted.get(name)
            },
        )
        ids = [device.id for devices in wanted.values() for device in devices]
        self._check_free(resource, ids, claim, (await self._held()).get(resource.name, frozenset()))
        keys = {(resource.driver, each) for each in ids}
        self._in_flight |= dict.fromkeys(keys, claim.uid)
        try:
            for name, devices in wanted.items():
                record = await self._allocate(resource, record, name, devices)
        finally:
            for key in keys:
                self._in_flight.pop(key, None)
        return record

    def _check_free(
        self, resource: Resource, ids: list[str], claim: ClaimReference, held: frozenset[str]
    ) -> None:
        """Raise PreparationError for a device that somebody else has."""
        if in_use := sorted(held.intersection(ids)):
            raise PreparationError(f"device {in_use[0]!r} is in a container by the kubelet's device manager")
        if self._may_be_offered(resource.name):
            # A claim may tolerate the taint that says so.
            raise PreparationError(
                f"the kubelet's device manager may give away devices of {resource.name}: the node's allocatable"
                f" of it is not 0, or not known yet"
            )
        unknown = self._checkpoint.unreadable(resource.driver)
        if unknown and claim.uid not in unknown:
            raise PreparationError(
                f"what claim {min(unknown)} holds of {resource.driver} is not known: its record cannot be read;"
                f" others wait until it is prepared anew, or its pods have ended"
            )
        if found := self._checkpoint.holder(resource.driver, ids, but=claim.uid):
            device, other = found
            raise PreparationError(
                f"device {device!r} is still prepared for claim {other.namespace}/{other.name} ({other.uid})"
            )
        for each in ids:
            if self._in_flight.get((resource.driver, each), claim.uid) != claim.uid:
                raise PreparationError(f"device {each!r} is being prepared for another claim")

    async def _allocate(
        self, resource: Resource, record: ClaimRecord, name: str, devices: tuple[PreparedDevice, ...]
    ) -> ClaimRecord:
        ids = [device.id for device in devices]
        plugin = resource.plugin
        if plugin is None:
            raise PluginError(f"no plugin of {resource.name} is there")
        request = record.requests.get(name)
        try:
            if request is None:
                answer = self._host_devices.expand(await plugin.allocate(ids))
                request = RequestRecord(devices=devices, answer=answer)
                record = self._store(record, name, request)
            if not request.started:
                await plugin.pre_start(ids)
                record = self._store(record, name, request.model_copy(update={"started": True}))
        except (PluginError, UnusableAnswerError) as error:
            self._count_failure(resource.name)
            raise PluginError(f"request {name}: {error}") from error
        return record

    def _store(self, record: ClaimRecord, name: str, request: RequestRecord) -> ClaimRecord:
        record = record.model_copy(update={"requests": {**record.requests, name: request}})
        self._checkpoint.store_claim(record)
        return record


def prepared_requests(record: ClaimRecord) -> dict[str, PreparedRequest]:
    """Return the CDI devices of a claim by request."""
    return {
        name: prepare_request(record.driver, record.uid, name, request.answer)
        for name, request in record.requests.items()
    }


def _places(record: ClaimRecord) -> set[tuple[str, str, str]]:
    """Return request, pool and name of each device of a record."""
    return {
        (name, device.pool, device.name)
        for name, request in record.requests.items()
        for device in request.devices
    }


def _content(record: ClaimRecord) -> str:
    return cdi_content(record.driver, record.uid, prepared_requests(record))
