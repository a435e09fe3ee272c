"""From a method and a path to a verb and its target, as kube-apiserver's RequestInfo does it.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from dra_operator.sim import errors
from dra_operator.sim.registry import Target
from dra_operator.sim.resources import Resource

_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class Route:
    """What a request wants: an RBAC verb and what it is about."""

    verb: str
    target: Target


class Routes:
    """The paths of the resources that a server offers."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources: Mapping[tuple[str, str, str], Resource] = {
            (resource.group, version, resource.plural): resource
            for resource in resources
            for version in resource.versions
        }

    def find(self, method: str, path: str, *, watch: bool) -> Route | None:
        """Return the route; None if the path is not below a served group and version.

        StatusError 404 or 405 if it is, and the resource or the verb is not there.
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        watched = rest[0] == "watch" and len(rest) > 1
        if watched:
            rest = rest[1:]
        target = self._target(group, version, rest)
        if watched and method == "GET":
            return Route("watch", target)
        return Route(_verb(method, target, watch=watch), target)

    def _target(self, group: str, version: str, rest: list[str]) -> Target:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        resource = self._resources.get((group, version, rest[0]))
        if resource is None or (namespace and not resource.namespaced) or len(rest) > 3:
            raise errors.no_resource()
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        if subresource and not (subresource == "status" and resource.has_status):
            raise errors.no_resource()
        if name and resource.namespaced and not namespace:
            raise errors.no_resource()
        return Target(resource, version, namespace, name, subresource)


def _verb(method: str, target: Target, *, watch: bool) -> str:
    verb = (_OBJECT_VERBS if target.name else _COLLECTION_VERBS).get(method)
    if verb is None or (verb not in target.resource.verbs):
        raise errors.method_not_allowed()
    if target.subresource and verb not in ("get", "update", "patch"):
        raise errors.method_not_allowed()
    if verb == "create" and target.resource.namespaced and not target.namespace:
        raise errors.method_not_allowed()
    if verb == "list" and watch:
        return "watch"
    return verb
