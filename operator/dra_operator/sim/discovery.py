"""What clients ask first: which groups, versions and kinds there are, and which Kubernetes this is.

Both forms are served: the aggregated one that kubectl asks for, and the classic walk through /api and /apis.
Source: k8s.io/api/apidiscovery/v2, k8s.io/apimachinery/pkg/apis/meta/v1 (APIGroupList, APIResourceList).
"""

from typing import Any

from dra_operator.sim.resources import Resource

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
            described: Json = {
                "name": resource.plural,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": list(resource.verbs),
            }
            resources.append(described | _other_names(resource))
            if resource.has_status:
                resources.append(
                    {
                        "name": f"{resource.plural}/status",
                        "singularName": "",
                        "namespaced": resource.namespaced,
                        "kind": resource.kind,
                        "verbs": _STATUS_VERBS,
                    }
                )
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
