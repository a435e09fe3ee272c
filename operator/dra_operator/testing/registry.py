"""Create, update, patch and delete: the path of a write from a decoded body to the store.

Order matters and is kube-apiserver's: decode, look the object up, compare resourceVersion, reset what may not change,
default, validate, store. So a request that is wrong in two ways is refused for the same one as on the real server.
Nothing here awaits: a write is atomic because nobody else runs meanwhile.
Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go and pkg/registry/rest.
"""

import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dra_operator.api.names import ENDED_PHASES, RANDOM_LETTERS
from dra_operator.api.text import timestamp
from dra_operator.testing import errors, schema, store, strategy
from dra_operator.testing.discovery import NAMESPACES, Resource
from dra_operator.testing.store import Store, StoredObject

Body = dict[str, Any]

_CREATED_BY_UPDATE: Final = frozenset({"Event", "Lease"})
_UPDATED_WITH_VERSION_ONLY: Final = frozenset({"Lease"})
_STATUS_WHEN_DELETED: Final = frozenset({"Node", "ConfigMap", "Event", "Lease"})
_LIKE_OTHERS_SINCE_V1: Final = "DeviceTaintRule"
"""A kind that is updated with a resourceVersion only, and not shown when it is deleted; its older versions differ."""
_SYSTEM_FIELDS: Final = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName",
)  # fmt: skip
"""What of the metadata no update changes."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about. `name` is empty for a collection; `subresource` is empty or `status`."""

    resource: Resource
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def is_one_of(self, kinds: frozenset[str]) -> bool:
        """Return whether it is of some kinds, or of the kind that joined them with v1."""
        kind = self.resource.kind
        return kind in kinds or (kind == _LIKE_OTHERS_SINCE_V1 and self.version == "v1")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write: `dry_run` stores nothing, `strict` refuses unknown fields, `manager` is who writes."""

    dry_run: bool = False
    strict: bool = False
    manager: str = ""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete; None means not asked for."""

    dry_run: bool = False
    uid: str | None = None
    resource_version: str | None = None
    grace_period_seconds: int | None = None


class Registry:
    """The writes of one API server."""

    def __init__(self, store: Store, *, checks_admin_access: bool) -> None:
        self.store = store
        self._checks_admin_access = checks_admin_access

    def get(self, target: Target) -> StoredObject:
        """Return the object; StatusError (404) if it is not there."""
        stored = self.store.get(target.resource, target.namespace, target.name)
        if stored is None:
            raise errors.not_found(target.resource, target.name)
        return stored

    # --- create -----------------------------------------------------------------------------------------------------

    def create(
        self, target: Target, wire: Mapping[str, Any], options: WriteOptions = WriteOptions()
    ) -> StoredObject:
        """Create an object from a body of the target's version."""
        return self._create(target, self._decode(target, wire, options), options)

    def _create(self, target: Target, body: Body, options: WriteOptions) -> StoredObject:
        resource, metadata = target.resource, body["metadata"]
        self._set_namespace(target, metadata)
        self._check_namespace_is_there(target)
        if metadata.get("resourceVersion"):
            raise errors.StatusError(500, "", "resourceVersion should not be set on objects to be created")
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"):
            metadata.pop(name, None)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(
                secrets.choice(RANDOM_LETTERS) for _ in range(5)
            )
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = _now()
        strategy.prepare_create(resource, body)
        strategy.apply_defaults(resource, body, _now())
        self._validate(target, body, None, {})
        if self.store.get(resource, target.namespace, metadata["name"]) is not None:
            raise errors.already_exists(resource, metadata["name"])
        return StoredObject("", body, 0) if options.dry_run else self.store.put(resource, body)

    def _validate(self, target: Target, body: Body, old: Body | None, found: dict[str, str]) -> None:
        is_checked = self._checks_admin_access
        found |= strategy.problems(target.resource, body, old, self.store, checks_admin_access=is_checked)
        if found:
            raise errors.invalid(target.resource, body["metadata"].get("name", ""), found)

    def _set_namespace(self, target: Target, metadata: Body) -> None:
        given = metadata.get("namespace", "")
        # A target that is not namespaced has none, and so may an object of it have none.
        if given and given != target.namespace:
            raise errors.bad_request("the namespaces of the object and of the request differ")
        if target.resource.namespaced:
            metadata["namespace"] = target.namespace

    def _check_namespace_is_there(self, target: Target) -> None:
        if target.resource.namespaced and self.store.get(NAMESPACES, "", target.namespace) is None:
            raise errors.not_found(NAMESPACES, target.namespace)

    def load(self, target: Target, wire: Mapping[str, Any]) -> StoredObject:
        """Store a body as it is, status included, without any check: for tests, demos and scale runs."""
        resource, old = target.resource, self.store.get(target.resource, target.namespace, target.name)
        body = self._decode(target, wire, WriteOptions())
        strategy.apply_defaults(resource, body, _now())
        metadata = body["metadata"]
        if resource.namespaced:
            metadata["namespace"] = target.namespace
        if old is not None:
            before = old.body["metadata"]
            metadata["uid"], metadata["creationTimestamp"] = before["uid"], before["creationTimestamp"]
            strategy.record_nomination(resource, body, old.body, "")
            if resource.has_generation:
                metadata["generation"] = before.get("generation", 1) + int(body["spec"] != old.body["spec"])
            return self.store.put(resource, body)
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", _now())
        if resource.kind in ("Namespace", "Pod"):
            given = body.get("status") or {}
            strategy.prepare_create(resource, body)
            body["status"] = {**body["status"], **given}
        elif resource.has_generation:
            metadata["generation"] = 1
        return self.store.put(resource, body)

    # --- update -----------------------------------------------------------------------------------------------------

    def update(
        self, target: Target, wire: Mapping[str, Any], options: WriteOptions = WriteOptions()
    ) -> tuple[StoredObject, bool]:
        """Replace an object (or its status) by a body of the target's version; returns whether it was created."""
        body = self._decode(target, wire, options)
        metadata = body["metadata"]
        old = self.store.get(target.resource, target.namespace, target.name)
        if old is None and target.resource.kind in _CREATED_BY_UPDATE and not target.subresource:
            return self._create(target, body, options), True
        if old is None:
            raise errors.not_found(target.resource, target.name)
        own = old.body["metadata"]["uid"]
        if (metadata.get("uid") or own) != own:
            raise errors.conflict(target.resource, target.name, f"its uid is {own}")
        if not metadata.get("resourceVersion") and target.is_one_of(_UPDATED_WITH_VERSION_ONLY):
            problem = {"metadata.resourceVersion": "must be specified for an update"}
            raise errors.invalid(target.resource, target.name, problem)
        return self._update(target, body, old, options), False

    def patch(
        self, target: Target, change: Callable[[Body], Body], options: WriteOptions = WriteOptions()
    ) -> StoredObject:
        """Change an object (or its status): `change` gets a copy in the target's version and returns the new body."""
        old = self.get(target)
        wire = change(store.wire_body(old.body, target.resource, target.version))
        return self._update(target, self._decode(target, wire, options, code=422), old, options)

    def _update(self, target: Target, body: Body, old: StoredObject, options: WriteOptions) -> StoredObject:
        resource, metadata, before = target.resource, body["metadata"], old.body["metadata"]
        if metadata.get("name", "") != target.name:
            raise errors.bad_request("the names of the object and of the request differ")
        self._set_namespace(target, metadata)
        given = metadata.get("resourceVersion", "")
        if given and given != before["resourceVersion"]:
            why = "the object has been modified; apply your changes to the latest version and try again"
            raise errors.conflict(resource, target.name, why)
        problems = strategy.metadata_problems(metadata, before)
        for name in _SYSTEM_FIELDS:
            metadata.pop(name, None)
            if name in before:
                metadata[name] = before[name]
        if target.subresource == "status":
            strategy.prepare_status_update(resource, body, old.body)
        else:
            strategy.prepare_update(resource, body, old.body, _now())
        strategy.apply_defaults(resource, body, _now())
        strategy.record_nomination(resource, body, old.body, options.manager)
        self._validate(target, body, dict(old.body), problems)
        body["metadata"]["resourceVersion"] = before["resourceVersion"]
        # A write that changes nothing is no write: same resourceVersion, no event.
        if body == old.body:
            return old
        if options.dry_run:
            return StoredObject(old.key, body, old.revision)
        if _is_finished(body):
            self.store.remove(resource, old, body)
            return StoredObject(old.key, body, old.revision)
        return self.store.put(resource, body)

    # --- delete -----------------------------------------------------------------------------------------------------

    def delete(self, target: Target, options: DeleteOptions = DeleteOptions()) -> StoredObject | Body:
        """Delete an object, or mark it deleted while finalizers hold it.

        Returns the object where the real server does, else a Status of success.
        """
        resource, stored = target.resource, self.get(target)
        metadata = stored.body["metadata"]
        for wanted, own in ((options.uid, "uid"), (options.resource_version, "resourceVersion")):
            if wanted is not None and wanted != metadata[own]:
                raise errors.conflict(resource, target.name, f"its {own} is {metadata[own]}, not {wanted}")
        if resource.kind == "Namespace":
            # Nobody empties it here.
            raise errors.method_not_allowed()
        grace = _grace_period(resource, stored, options)
        waits = bool(grace) or bool(metadata.get("finalizers"))
        if waits or resource.kind == "Pod":
            marked = self._marked_deleted(resource, stored, grace)
            if marked is not stored and not options.dry_run:
                marked = self.store.put(resource, {**marked.body, "metadata": {**marked.body["metadata"]}})
            if waits or options.dry_run:
                return marked
            stored = marked
        if not options.dry_run:
            stored = self.store.remove(resource, stored)
        if not target.is_one_of(_STATUS_WHEN_DELETED):
            return stored
        details = {"name": target.name, "kind": resource.plural, "uid": metadata["uid"]}
        if resource.group:
            details["group"] = resource.group
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _marked_deleted(self, resource: Resource, stored: StoredObject, grace: int) -> StoredObject:
        """Return the object as it is while it waits to go; the same if it waits already, and no shorter from now on."""
        before = stored.body["metadata"]
        if "deletionTimestamp" in before and grace >= before.get("deletionGracePeriodSeconds", 0):
            return stored
        metadata = {**before, "deletionTimestamp": _now(grace)}
        if resource.has_generation and "deletionTimestamp" not in before:
            metadata["generation"] = before.get("generation", 0) + 1
        metadata["deletionGracePeriodSeconds"] = grace
        return StoredObject(stored.key, {**stored.body, "metadata": metadata}, stored.revision)

    # --- decoding ---------------------------------------------------------------------------------------------------

    def _decode(
        self, target: Target, wire: Mapping[str, Any], options: WriteOptions, code: int = 400
    ) -> Body:
        """Return a body in the stored shape; StatusError if it is of another kind or does not fit its struct."""
        resource, version = target.resource, target.version
        expected = (resource.kind, resource.api_version(version))
        given = (wire.get("kind") or resource.kind, wire.get("apiVersion") or expected[1])
        if given != expected:
            raise errors.bad_request(f"a {given[0]} of {given[1]} is no {expected[0]} of {expected[1]}")
        try:
            body, unknown = schema.decode(wire, resource.struct(version))
        except schema.DecodeError as error:
            reason = "BadRequest" if code == 400 else "Invalid"
            raise errors.StatusError(code, reason, f"{resource.kind}: {error}") from None
        if unknown and options.strict:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise errors.bad_request(f"strict decoding error: {listed}")
        body = store.to_stored(body, resource, version)
        body["metadata"].pop("managedFields", None)
        return body


def _now(seconds: int = 0) -> str:
    """Return the time so many seconds from now, as objects have it."""
    return timestamp(datetime.now(UTC) + timedelta(seconds=seconds))


def _grace_period(resource: Resource, stored: StoredObject, options: DeleteOptions) -> int:
    """Return the seconds a pod gets: none before it has a node or after it ended."""
    spec, status = stored.body.get("spec") or {}, stored.body.get("status") or {}
    if resource.kind != "Pod" or not spec.get("nodeName") or status.get("phase") in ENDED_PHASES:
        return 0
    if options.grace_period_seconds is not None:
        return options.grace_period_seconds
    return int(spec.get("terminationGracePeriodSeconds", 30))


def _is_finished(body: Mapping[str, Any]) -> bool:
    """True if an object that is being deleted has nothing left to wait for."""
    metadata = body["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
