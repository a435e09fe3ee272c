"""Discovery: which kinds are served in which versions, as clients walk through /api and /apis.

Of OpenAPI v3 there is what kubectl asks before it applies: that patches can be validated by the server.
Source: k8s.io/apimachinery/pkg/apis/meta/v1 (APIGroupList, APIResourceList).
"""

from typing import Any, Final

from dra_operator.testing.resources import Resource

Json = dict[str, Any]
GIT_VERSION: Final = "v1.37.2"


def answer(
    resources: tuple[Resource, ...], path: str, address: str, version: str = GIT_VERSION
) -> Json | None:
    """Return the document at a path such as /version, /apis or /apis/resource.k8s.io/v1; None if there is none."""
    groups = _groups(resources)
    match path.strip("/").split("/"):
        case ["version"]:
            major, minor = (*version.removeprefix("v").split("."), "")[:2]
            return {"major": major, "minor": minor, "gitVersion": version, "platform": "linux/amd64"}
        case ["api"]:
            servers = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": servers}
        case ["apis"]:
            shown = [_group(group, versions) for group, versions in groups.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["api", served] if served in groups.get("", ()):
            return _resource_list(resources, "", served)
        case ["apis", group, served] if served in groups.get(group, ()):
            return _resource_list(resources, group, served)
        case ["openapi", "v3"]:
            names = [
                f"apis/{group}/{each}" for group, versions in groups.items() if group for each in versions
            ]
            paths = {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in ("api/v1", *names)}
            return {"paths": paths}
        case ["openapi", "v3", "api", served]:
            return _openapi(resources, "", served)
        case ["openapi", "v3", "apis", group, served]:
            return _openapi(resources, group, served)
    return None


def _groups(resources: tuple[Resource, ...]) -> dict[str, list[str]]:
    """Return the versions of each group, the preferred first; the core group is ""."""
    groups: dict[str, set[str]] = {}
    for resource in resources:
        groups.setdefault(resource.group, set()).update(resource.versions)
    return {group: sorted(versions, key=_priority, reverse=True) for group, versions in groups.items()}


def _priority(version: str) -> tuple[int, str]:
    """Stable versions before beta before alpha, then the higher number."""
    return 0 if "alpha" in version else 1 if "beta" in version else 2, version


def _group(group: str, versions: list[str]) -> Json:
    shown = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": shown, "preferredVersion": shown[0]}


def _served(resources: tuple[Resource, ...], group: str, version: str) -> list[Resource]:
    found = [item for item in resources if item.group == group and version in item.versions]
    return sorted(found, key=lambda resource: resource.plural)


def _resource_list(resources: tuple[Resource, ...], group: str, version: str) -> Json:
    listed: list[Json] = []
    for resource in _served(resources, group, version):
        shared = {"namespaced": resource.namespaced, "kind": resource.kind}
        names = {"name": resource.plural, "singularName": resource.kind.lower()}
        short = {"shortNames": [*resource.short_names]} if resource.short_names else {}
        listed.append({**names, **shared, "verbs": [*resource.verbs()], **short})
        if resource.has_status:
            verbs = [*resource.verbs("status")]
            listed.append({"name": f"{resource.plural}/status", "singularName": "", **shared, "verbs": verbs})
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": listed,
    }


def _openapi(resources: tuple[Resource, ...], group: str, version: str) -> Json:
    """Return that patches of each kind take `fieldValidation`."""
    parameters = [{"name": name, "in": "query"} for name in ("dryRun", "fieldManager", "fieldValidation")]
    paths = {
        f"/{resource.plural}/{{name}}": {
            "patch": {
                "x-kubernetes-group-version-kind": {
                    "group": group,
                    "version": version,
                    "kind": resource.kind,
                },
                "parameters": parameters,
                "responses": {},
            }
        }
        for resource in _served(resources, group, version)
    }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": GIT_VERSION}, "paths": paths}
