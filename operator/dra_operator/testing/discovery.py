"""Discovery: which kinds are served in which versions, and their schemas in OpenAPI v3, made of the Go structs.

Both forms are served: the aggregated one that kubectl asks for, and the classic walk through /api and /apis.
Source: k8s.io/api/apidiscovery/v2, k8s.io/apimachinery/pkg/apis/meta/v1 (APIGroupList, APIResourceList).
"""

import hashlib
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

import orjson

from dra_operator.api import fields
from dra_operator.testing.patches import JSON_PATCH, MERGE, STRATEGIC
from dra_operator.testing.resources import Resource

Json = dict[str, Any]

GIT_VERSION = "v1.37.2"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_STATUS_VERBS = ["get", "patch", "update"]


def version_info() -> Json:
    """Return the answer of /version."""
    major, minor, _ = GIT_VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def groups_of(resources: tuple[Resource, ...]) -> dict[str, list[str]]:
    """Return the versions of each group, the preferred first; the core group is ""."""
    groups: dict[str, list[str]] = {}
    for resource in resources:
        versions = groups.setdefault(resource.group, [])
        versions.extend(version for version in resource.versions if version not in versions)
    return {group: sorted(versions, key=_priority, reverse=True) for group, versions in groups.items()}


def _priority(version: str) -> tuple[int, str]:
    """Stable versions before beta before alpha, then the higher number."""
    stage = 0 if "alpha" in version else 1 if "beta" in version else 2
    return stage, version


class Discovery:
    """The discovery documents of a server with these resources."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources = resources
        self._groups = groups_of(resources)

    def answer(self, path: str, *, aggregated: bool, address: str) -> Json | None:
        """Return the document at a path such as /api, /apis, /apis/resource.k8s.io/v1; None if there is none."""
        parts = path.strip("/").split("/")
        match parts:
            case ["api"] if aggregated:
                return self._aggregated([""])
            case ["apis"] if aggregated:
                return self._aggregated([group for group in self._groups if group])
            case ["api"]:
                return {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
                }
            case ["apis"]:
                groups = [self._group(group) for group in self._groups if group]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups:
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ["api", version] if version in self._groups.get("", ()):
                return self._resource_list("", version)
            case ["apis", group, version] if version in self._groups.get(group, ()):
                return self._resource_list(group, version)
        return None

    def _group(self, group: str) -> Json:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version} for version in self._groups[group]
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _served(self, group: str, version: str) -> list[Resource]:
        found = [item for item in self._resources if item.group == group and version in item.versions]
        return sorted(found, key=lambda resource: resource.plural)

    def _resource_list(self, group: str, version: str) -> Json:
        resources: list[Json] = []
        for resource in self._served(group, version):
            shared = {"namespaced": resource.namespaced, "kind": resource.kind}
            names = {"name": resource.plural, "singularName": resource.singular}
            resources.append(names | shared | {"verbs": list(resource.verbs)} | _other_names(resource))
            if resource.has_status:
                names = {"name": f"{resource.plural}/status", "singularName": ""}
                resources.append(names | shared | {"verbs": _STATUS_VERBS})
        group_version = f"{group}/{version}" if group else version
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": resources,
        }

    def _aggregated(self, groups: list[str]) -> Json:
        items = []
        for group in groups:
            versions = [
                {
                    "version": version,
                    "resources": [
                        _aggregated_resource(resource) for resource in self._served(group, version)
                    ],
                    "freshness": "Current",
                }
                for version in self._groups[group]
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": versions})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }


def _other_names(resource: Resource) -> Json:
    names = {"shortNames": resource.short_names, "categories": resource.categories}
    return {name: list(values) for name, values in names.items() if values}


def _aggregated_resource(resource: Resource) -> Json:
    response_kind = {"group": "", "version": "", "kind": resource.kind}
    described: Json = {
        "resource": resource.plural,
        "responseKind": response_kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    described |= _other_names(resource)
    if resource.has_status:
        described["subresources"] = [
            {"subresource": "status", "responseKind": response_kind, "verbs": _STATUS_VERBS}
        ]
    return described


_SCALARS: dict[str, Json] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "Raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


class OpenApi:
    """The documents of a server with these resources: an index, and one document for each group and version."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources = resources

    @cached_property
    def _documents(self) -> dict[str, bytes]:
        # Made at the first question: most servers in tests are never asked.
        return {
            path: orjson.dumps(self._document(group, version))
            for group, versions in groups_of(self._resources).items()
            for version in versions
            for path in [f"apis/{group}/{version}" if group else f"api/{version}"]
        }

    def answer(self, path: str) -> bytes | None:
        """Return the document at a path that begins with /openapi/v3; None if there is none."""
        if path.rstrip("/") == "/openapi/v3":
            return orjson.dumps({"paths": {name: self._entry(name) for name in self._documents}})
        return self._documents.get(path.removeprefix("/openapi/v3/"))

    def _entry(self, name: str) -> Json:
        digest = hashlib.sha256(self._documents[name]).hexdigest().upper()
        return {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}

    def _document(self, group: str, version: str) -> Json:
        served = [item for item in self._resources if item.group == group and version in item.versions]
        roots = [item.struct(version) for item in served]
        schemas = {
            _schema_name(struct): _schema(struct) for struct in _closure([*roots, "meta/v1.DeleteOptions"])
        }
        for resource, root in zip(served, roots, strict=True):
            described = {"group": group, "version": version, "kind": resource.kind}
            schemas[_schema_name(root)] = {
                **schemas[_schema_name(root)],
                "x-kubernetes-group-version-kind": [described],
            }
        paths: Json = {}
        for resource in served:
            paths |= _paths(resource, version)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": GIT_VERSION.removeprefix("v").rpartition(".")[0]},
            "paths": paths,
            "components": {"schemas": dict(sorted(schemas.items()))},
        }


# --- schemas --------------------------------------------------------------------------------------------------------


def _schema_name(struct: str) -> str:
    package, _, name = struct.partition(".")
    prefix = "io.k8s.apimachinery.pkg.apis." if package.startswith("meta/") else "io.k8s.api."
    return f"{prefix}{package.replace('/', '.')}.{name}"


def _reference(struct: str) -> Json:
    return {"$ref": f"#/components/schemas/{_schema_name(struct)}"}


def _closure(roots: list[str]) -> list[str]:
    found: dict[str, None] = {}
    waiting = list(roots)
    while waiting:
        struct = waiting.pop()
        if struct in found:
            continue
        found[struct] = None
        inner = (fields.element(field[0]) for field in fields.types()[struct].values())
        waiting.extend(name for name in inner if name not in _SCALARS)
    return list(found)


@cache
def _schema(struct: str) -> Json:
    properties: Json = {}
    required = []
    for name, field in fields.types()[struct].items():
        type_, empty, strategy, key = [*field, "", "", ""][:4]
        described = _type_schema(type_)
        if strategy:
            described["x-kubernetes-patch-strategy"] = strategy
        if key:
            described["x-kubernetes-patch-merge-key"] = key
            described["x-kubernetes-list-type"] = "map"
            described["x-kubernetes-list-map-keys"] = [key]
        properties[name] = described
        if not empty and not type_.startswith(("*", "[]", "{}")):
            required.append(name)
    found: Json = {"type": "object", "properties": properties}
    if required:
        found["required"] = sorted(required)
    return found


def _type_schema(type_: str) -> Json:
    match fields.split_type(type_):
        case "*", inner:
            return dict(_SCALARS[inner]) if inner in _SCALARS else {"allOf": [_reference(inner)]}
        case "[]", inner:
            return {"type": "array", "items": _type_schema(inner)}
        case "{}", inner:
            return {"type": "object", "additionalProperties": _type_schema(inner)}
    if type_ in _SCALARS:
        return dict(_SCALARS[type_])
    return {"default": {}, "allOf": [_reference(type_)]}


# --- paths ----------------------------------------------------------------------------------------------------------


def _paths(resource: Resource, version: str) -> Json:
    root = f"/apis/{resource.group}/{version}" if resource.group else f"/api/{version}"
    inside = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    collection, one = f"{inside}/{resource.plural}", f"{inside}/{resource.plural}/{{name}}"
    paths: Json = {
        collection: dict(_operations(resource, version, {"get": "list", "post": "post"})),
        one: dict(
            _operations(resource, version, {"get": "get", "put": "put", "patch": "patch", "delete": "delete"})
        ),
    }
    if resource.namespaced:
        paths[f"{root}/{resource.plural}"] = dict(_operations(resource, version, {"get": "list"}))
    if resource.has_status:
        paths[f"{one}/status"] = dict(
            _operations(resource, version, {"get": "get", "put": "put", "patch": "patch"})
        )
    return paths


def _operations(resource: Resource, version: str, actions: dict[str, str]) -> Iterator[tuple[str, Json]]:
    described = {"group": resource.group, "version": version, "kind": resource.kind}
    content = {"application/json": {"schema": _reference(resource.struct(version))}}
    for method, action in actions.items():
        operation: Json = {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": described,
            "responses": {"200": {"description": "OK", "content": content}},
        }
        if method in ("post", "put", "patch"):
            operation["parameters"] = [_parameter(name) for name in _WRITE_PARAMETERS]
            accepted = {name: {"schema": {"type": "object"}} for name in (JSON_PATCH, MERGE, STRATEGIC)}
            operation["requestBody"] = {
                "content": accepted if method == "patch" else content,
                "required": True,
            }
        elif method == "delete":
            operation["parameters"] = [_parameter("dryRun")]
        yield method, operation


def _parameter(name: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
