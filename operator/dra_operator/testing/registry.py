"""Create, update, patch and delete: the path of a write from a decoded body to the store.

Order matters and is kube-apiserver's: decode and default, look the object up, compare resourceVersion, reset what may
not change, validate, admit, store. So a request that is wrong in two ways is refused for the same one as on the real
server. Nothing here awaits: a write is atomic because nobody else runs meanwhile.
Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go and pkg/registry/rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from dra_operator.api.names import ENDED_PHASES
from dra_operator.testing import errors, schema, store, strategy, validation
from dra_operator.testing.resources import NAMESPACES, RESOURCES, Resource
from dra_operator.testing.selectors import Test
from dra_operator.testing.store import Store, StoredObject
from dra_operator.testing.strategy import AdminAccess, admit_create, admit_status
from dra_operator.testing.validation import declared_errors

Body = dict[str, Any]

_CREATED_BY_UPDATE = frozenset({"Event", "Lease"})
_UPDATED_WITH_VERSION_ONLY = frozenset({"Lease"})
_ANSWERED_WITH_STATUS_WHEN_DELETED = frozenset({"Node", "ConfigMap", "Event", "Lease"})
_LIKE_OTHERS_SINCE_V1 = frozenset({"DeviceTaintRule"})
"""Kinds that are updated with a resourceVersion only, and not shown when they are deleted; older versions differ."""
_KEPT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
_GENERATED = 5
_SYSTEM_FIELDS = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName",
)  # fmt: skip
"""What of the metadata no update changes."""


class FieldValidation(Enum):
    """What to do with unknown fields; the values are the wire's."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about. `name` is empty for a collection; `subresource` is empty or `status`."""

    resource: Resource
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write: `dry_run` stores nothing, `field_validation` says what becomes of unknown fields.

    `manager` is who writes, as far as that is recorded.
    """

    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN
    manager: str = ""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete; None means not asked for."""

    dry_run: bool = False
    uid: str | None = None
    resource_version: str | None = None
    grace_period_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write: the object as stored (or as it would be), and the unknown fields that were dropped."""

    stored: StoredObject
    created: bool = False
    warnings: tuple[str, ...] = ()


class UndecodableError(errors.StatusError):
    """A body that does not fit its Go struct; `why` is the decoder's own text."""

    def __init__(self, prefix: str, why: str) -> None:
        super().__init__(400, "BadRequest", prefix + why)
        self.why = why


class Registry:
    """The writes of one API server.

    `clock` returns the current time in UTC, `new_uid` a fresh uid, `new_suffix` the end of a generated name.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime],
        new_uid: Callable[[], str],
        new_suffix: Callable[[int], str],
        admin_access: AdminAccess,
    ) -> None:
        self.store = store
        self._clock = clock
        self._new_uid = new_uid
        self._new_suffix = new_suffix
        self._admin_access = admin_access

    def _now(self) -> str:
        return self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    # --- reading ----------------------------------------------------------------------------------------------------

    def get(self, target: Target) -> StoredObject:
        """Return the object; StatusError (404) if it is not there."""
        stored = self.store.get(target.resource, target.namespace, target.name)
        if stored is None:
            raise errors.not_found(target.resource, target.name)
        return stored

    # --- create -----------------------------------------------------------------------------------------------------

    def create(
        self, target: Target, wire: Mapping[str, Any], options: WriteOptions = WriteOptions()
    ) -> Written:
        """Create an object from a body of the target's version."""
        body, warnings = self._decode(target, wire, options.field_validation)
        stored = self._create(target, body, options)
        return Written(stored, created=True, warnings=warnings + strategy.warnings_of(target.resource, body))

    def _create(self, target: Target, body: Body, options: WriteOptions) -> StoredObject:
        resource, metadata = target.resource, body["metadata"]
        self._check_namespace(target, metadata)
        self._check_namespace_is_there(target, metadata.get("name", ""))
        if metadata.get("resourceVersion"):
            raise errors.StatusError(500, "", "resourceVersion should not be set on objects to be created")
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"):
            metadata.pop(name, None)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self._new_suffix(_GENERATED)
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = self._now()
        strategy.prepare_create(resource, body)
        strategy.apply_defaults(resource, body, self._now())
        problems = validation.metadata_errors(metadata)
        problems += admit_create(self._admin_access, self.store, resource, body)
        problems = [*dict.fromkeys(problems), *declared_errors(resource, target.version, body)]
        if problems:
            raise errors.invalid(resource, metadata.get("name", ""), problems)
        if self.store.get(resource, target.namespace, metadata["name"]) is not None:
            raise errors.already_exists(resource, metadata["name"])
        if options.dry_run:
            return StoredObject("", body, 0)
        return self.store.put(resource, body)

    @staticmethod
    def _check_name(target: Target, metadata: Body) -> None:
        name = metadata.get("name", "")
        if name != target.name:
            message = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            raise errors.bad_request(message)

    def _check_namespace(self, target: Target, metadata: Body) -> None:
        given = metadata.get("namespace", "")
        # A target that is not namespaced has none, and so may an object of it have none.
        if given and given != target.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if target.resource.namespaced:
            metadata["namespace"] = target.namespace

    def _check_namespace_is_there(self, target: Target, name: str) -> None:
        if not target.resource.namespaced:
            return
        namespace = self.store.get(NAMESPACES, "", target.namespace)
        if namespace is None:
            raise errors.not_found(NAMESPACES, target.namespace)
        if "deletionTimestamp" in namespace.body["metadata"]:
            raise errors.namespace_terminating(target.resource, name, target.namespace)

    def load(self, target: Target, wire: Mapping[str, Any]) -> StoredObject:
        """Store a body as it is, status included, without any check: for tests, demos and scale runs."""
        old = self.store.get(target.resource, target.namespace, target.name)
        body, _ = self._decode(target, wire, FieldValidation.IGNORE)
        metadata = body["metadata"]
        if target.resource.namespaced:
            metadata["namespace"] = target.namespace
        if old is not None:
            before = old.body["metadata"]
            metadata["uid"], metadata["creationTimestamp"] = before["uid"], before["creationTimestamp"]
            strategy.record_nomination(target.resource, body, old.body, "")
            if target.resource.has_generation:
                grown = body["spec"] != old.body["spec"]
                metadata["generation"] = before.get("generation", 1) + int(grown)
            return self.store.put(target.resource, body)
        metadata["uid"] = metadata.get("uid") or self._new_uid()
        metadata["creationTimestamp"] = metadata.get("creationTimestamp") or self._now()
        if target.resource.kind in ("Namespace", "Pod"):
            given = body.get("status")
            strategy.prepare_create(target.resource, body)
            body["status"] = {**body["status"], **(given or {})}
        elif target.resource.has_generation:
            metadata["generation"] = 1
        return self.store.put(target.resource, body)

    # --- update -----------------------------------------------------------------------------------------------------

    def update(
        self, target: Target, wire: Mapping[str, Any], options: WriteOptions = WriteOptions()
    ) -> Written:
        """Replace an object (or its status) by a body of the target's version."""
        body, warnings = self._decode(target, wire, options.field_validation)
        metadata = body["metadata"]
        self._check_name(target, metadata)
        self._check_namespace(target, metadata)
        old = self.store.get(target.resource, target.namespace, target.name)
        if old is None and target.resource.kind in _CREATED_BY_UPDATE and not target.subresource:
            return Written(self._create(target, body, options), created=True, warnings=warnings)
        if old is None:
            raise errors.not_found(target.resource, target.name)
        given, own = metadata.get("uid") or old.body["metadata"]["uid"], old.body["metadata"]["uid"]
        if given != own:
            raise errors.conflict(
                target.resource,
                target.name,
                f"Precondition failed: UID in precondition: {given}, UID in object meta: {own}",
            )
        if not metadata.get("resourceVersion") and _is_updated_with_version_only(target):
            problem = errors.FieldError(
                "metadata.resourceVersion",
                "FieldValueInvalid",
                "Invalid value: 0: must be specified for an update",
            )
            raise errors.invalid(target.resource, target.name, [problem], about=target.resource.plural)
        return self._update(target, body, old, options, warnings)

    def patch(
        self, target: Target, change: Callable[[Body], Body], options: WriteOptions = WriteOptions()
    ) -> Written:
        """Change an object (or its status): `change` gets a copy in the target's version and returns the new body."""
        old = self.get(target)
        wire = change(store.wire_body(old.body, target.resource, target.version))
        try:
            body, warnings = self._decode(target, wire, options.field_validation)
        except UndecodableError as error:
            raise errors.invalid_patch(wire, error.why) from None
        metadata = body["metadata"]
        self._check_name(target, metadata)
        self._check_namespace(target, metadata)
        return self._update(target, body, old, options, warnings)

    def _update(
        self, target: Target, body: Body, old: StoredObject, options: WriteOptions, warnings: tuple[str, ...]
    ) -> Written:
        resource, metadata, before = target.resource, body["metadata"], old.body["metadata"]
        given = metadata.get("resourceVersion", "")
        if given and given != before["resourceVersion"]:
            raise errors.conflict(resource, target.name)
        update_problems = validation.metadata_update_errors(metadata, before)
        self._keep_system_fields(metadata, before)
        if target.subresource == "status":
            strategy.prepare_status_update(resource, body, old.body)
        else:
            strategy.prepare_update(resource, body, old.body, self._now())
        strategy.apply_defaults(resource, body, self._now())
        strategy.record_nomination(resource, body, old.body, options.manager)
        problems = validation.metadata_errors(body["metadata"]) + update_problems
        if target.subresource == "status":
            problems += admit_status(self._admin_access, self.store, resource, body, old.body)
            problems += validation.status_errors(resource, body, old.body)
        else:
            problems += validation.update_errors(resource, body, old.body)
        problems = [*dict.fromkeys(problems), *declared_errors(resource, target.version, body, old.body)]
        if problems:
            raise errors.invalid(resource, target.name, problems)
        warnings += strategy.warnings_of(resource, body)
        body["metadata"]["resourceVersion"] = before["resourceVersion"]
        # A write that changes nothing is no write: same resourceVersion, no event.
        if body == old.body:
            return Written(old, warnings=warnings)
        if options.dry_run:
            return Written(StoredObject(old.key, body, old.revision), warnings=warnings)
        if self._is_finished(resource, body):
            self.store.remove(resource, old, body)
            self.release_namespace(target.namespace)
            return Written(StoredObject(old.key, body, old.revision), warnings=warnings)
        return Written(self.store.put(resource, body), warnings=warnings)

    @staticmethod
    def _keep_system_fields(metadata: Body, before: Mapping[str, Any]) -> None:
        for name in _SYSTEM_FIELDS:
            metadata.pop(name, None)
            if name in before:
                metadata[name] = before[name]

    @staticmethod
    def _is_finished(resource: Resource, body: Mapping[str, Any]) -> bool:
        """True if an object that is being deleted has nothing left to wait for."""
        metadata = body["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return False
        if resource.kind == "Namespace" and body["spec"].get("finalizers"):
            return False
        return not metadata.get("deletionGracePeriodSeconds")

    # --- delete -----------------------------------------------------------------------------------------------------

    def delete(self, target: Target, options: DeleteOptions = DeleteOptions()) -> Written | Body:
        """Delete an object, or mark it deleted while finalizers hold it.

        Returns the object where the real server does, else a Status of success.
        """
        resource, stored = target.resource, self.get(target)
        self._check_preconditions(target, stored, options)
        if resource.kind == "Namespace" and target.name in _KEPT_NAMESPACES:
            raise errors.forbidden(resource, target.name, "this namespace may not be deleted")
        grace = self._grace_period(resource, stored, options)
        waits = bool(grace) or bool(stored.body["metadata"].get("finalizers")) or resource.kind == "Namespace"
        if waits or resource.kind == "Pod":
            marked = self._marked_deleted(resource, stored, grace)
            if options.dry_run:
                return Written(marked)
            if marked is not stored:
                stored = self._store_marked(resource, marked)
            if waits:
                return Written(stored)
        if not options.dry_run:
            stored = self.store.remove(resource, stored)
            self.release_namespace(target.namespace)
        if not _is_answered_with_status_when_deleted(target):
            return Written(stored)
        details: Body = {"name": target.name, "kind": resource.plural, "uid": stored.body["metadata"]["uid"]}
        if resource.group:
            details["group"] = resource.group
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def delete_collection(self, target: Target, test: Test, options: DeleteOptions) -> list[StoredObject]:
        """Delete every object of a collection that passes a test; returns what the collection held of them."""
        table = self.store.table(target.resource)
        chosen = [stored for stored in table.in_order(target.namespace) if test(stored.body)]
        for stored in chosen:
            one = Target(target.resource, target.version, stored.namespace, stored.name)
            self.delete(one, options)
        return chosen

    @staticmethod
    def _check_preconditions(target: Target, stored: StoredObject, options: DeleteOptions) -> None:
        metadata = stored.body["metadata"]
        for name, wanted, own, what in (
            ("UID", options.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", options.resource_version, metadata["resourceVersion"], "modified"),
        ):
            if wanted is not None and wanted != own:
                why = (
                    f"the {name} in the precondition ({wanted}) does not match the {name} in record ({own}). "
                    f"The object might have been {what}"
                )
                raise errors.precondition_failed(target.resource, target.name, why)

    @staticmethod
    def _grace_period(resource: Resource, stored: StoredObject, options: DeleteOptions) -> int:
        """Return the seconds a pod gets: none before it has a node or after it ended."""
        if resource.kind != "Pod":
            return 0
        body = stored.body
        if not body["spec"].get("nodeName") or body["status"].get("phase") in ENDED_PHASES:
            return 0
        if options.grace_period_seconds is not None:
            return options.grace_period_seconds
        return int(body["spec"].get("terminationGracePeriodSeconds", 30))

    def _marked_deleted(self, resource: Resource, stored: StoredObject, grace: int) -> StoredObject:
        """Return the object as it is while it waits to go; the same if it waits already, and no shorter from now on."""
        before = stored.body["metadata"]
        shortened = grace < before.get("deletionGracePeriodSeconds", 0)
        if "deletionTimestamp" in before and not shortened:
            return stored
        metadata = {**before, "deletionTimestamp": _later(self._clock(), grace)}
        if resource.kind != "Namespace":
            metadata["deletionGracePeriodSeconds"] = grace
        if resource.has_generation and "deletionTimestamp" not in before:
            metadata["generation"] = before.get("generation", 0) + 1
        body = {**stored.body, "metadata": metadata}
        if resource.kind == "Namespace":
            body["status"] = {**body["status"], "phase": "Terminating"}
        return StoredObject(stored.key, body, stored.revision)

    def _store_marked(self, resource: Resource, marked: StoredObject) -> StoredObject:
        stored = self.store.put(resource, {**marked.body, "metadata": dict(marked.body["metadata"])})
        if resource.kind == "Namespace":
            self._empty_namespace(stored.name)
        return stored

    def _empty_namespace(self, namespace: str) -> None:
        """Do what the namespace controller does: delete what is inside, then let go of the namespace."""
        for resource in RESOURCES:
            if resource.namespaced:
                inside = Target(resource, resource.versions[0], namespace)
                self.delete_collection(inside, lambda _body: True, DeleteOptions(grace_period_seconds=0))
        self.release_namespace(namespace)

    def release_namespace(self, namespace: str) -> None:
        """Remove a namespace that is being deleted, once nothing is left in it."""
        stored = self.store.get(NAMESPACES, "", namespace) if namespace else None
        if stored is None or "deletionTimestamp" not in stored.body["metadata"]:
            return
        held = any(
            next(self.store.table(resource).in_order(namespace), None) is not None
            for resource in RESOURCES
            if resource.namespaced
        )
        if not held and not stored.body["metadata"].get("finalizers"):
            self.store.remove(NAMESPACES, stored)

    # --- decoding ---------------------------------------------------------------------------------------------------

    def _decode(
        self, target: Target, wire: Mapping[str, Any], field_validation: FieldValidation
    ) -> tuple[Body, tuple[str, ...]]:
        """Return a body in the stored shape, with defaults, and warnings about what was dropped."""
        resource, version = target.resource, target.version
        check_type(target, wire)
        prefix = f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: '
        try:
            body, unknown = schema.decode(wire, resource.struct(version))
        except schema.DecodeTextError as error:
            raise UndecodableError(prefix, str(error)) from None
        complaints = tuple(f'unknown field "{path}"' for path in unknown)
        if complaints and field_validation is FieldValidation.STRICT:
            raise UndecodableError(prefix, f"strict decoding error: {', '.join(complaints)}")
        body = store.to_stored(body, resource, version)
        body["metadata"].pop("managedFields", None)
        strategy.apply_defaults(resource, body, self._now())
        return body, complaints if field_validation is FieldValidation.WARN else ()


def _is_like_others(target: Target) -> bool:
    return target.version == "v1" and target.resource.kind in _LIKE_OTHERS_SINCE_V1


def _is_updated_with_version_only(target: Target) -> bool:
    return target.resource.kind in _UPDATED_WITH_VERSION_ONLY or _is_like_others(target)


def _is_answered_with_status_when_deleted(target: Target) -> bool:
    return target.resource.kind in _ANSWERED_WITH_STATUS_WHEN_DELETED or _is_like_others(target)


def check_type(target: Target, wire: Mapping[str, Any]) -> None:
    """Refuse a body of another kind or version than the path is for; a body that does not say is welcome."""
    resource = target.resource
    expected = resource.api_version(target.version)
    kind, api_version = wire.get("kind") or resource.kind, wire.get("apiVersion") or expected
    if kind == resource.kind and api_version == expected:
        return
    group, _, version = str(api_version).rpartition("/")
    if kind == resource.kind and group == resource.group and version in resource.versions:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )
    raise errors.bad_request(
        f'{kind} in version "{version}" cannot be handled as a {resource.kind}: no kind "{kind}" is registered for '
        f'version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
    )


def _later(now: datetime, seconds: int) -> str:
    moment = datetime.fromtimestamp(int(now.timestamp()) + seconds, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
