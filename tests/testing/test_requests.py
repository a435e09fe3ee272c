"""Which verb and target a path means."""

import pytest

from dra_operator.testing.errors import StatusError
from dra_operator.testing.requests import Routes
from dra_operator.testing.resources import RESOURCES

ROUTES = Routes(RESOURCES)
DRA = "/apis/resource.k8s.io/v1"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/nodes", ("list", "Node", "", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "Namespace", "", "", "")),
        ("GET", "/api/v1/namespaces/n", ("get", "Namespace", "", "n", "")),
        ("PUT", "/api/v1/namespaces/n/status", ("update", "Namespace", "", "n", "status")),
        ("GET", "/api/v1/namespaces/n/pods", ("list", "Pod", "n", "", "")),
        ("POST", f"{DRA}/namespaces/n/resourceclaims", ("create", "ResourceClaim", "n", "", "")),
        (
            "PATCH",
            f"{DRA}/namespaces/n/resourceclaims/c/status",
            ("patch", "ResourceClaim", "n", "c", "status"),
        ),
        ("DELETE", f"{DRA}/resourceslices/s", ("delete", "ResourceSlice", "", "s", "")),
        ("DELETE", f"{DRA}/resourceslices", ("deletecollection", "ResourceSlice", "", "", "")),
        ("GET", f"{DRA}/watch/resourceslices", ("watch", "ResourceSlice", "", "", "")),
        ("GET", f"{DRA}/namespaces/n/resourceclaims/a%3Ab", ("get", "ResourceClaim", "n", "a:b", "")),
        ("GET", f"{DRA}/namespaces/status/resourceclaims", ("list", "ResourceClaim", "status", "", "")),
    ],
)
def test_paths(method: str, path: str, expected: tuple[str, ...]) -> None:
    """A path is group, version, namespace, plural, name and subresource."""
    route = ROUTES.find(method, path, watch=False)
    assert route is not None
    target = route.target

    assert (route.verb, target.resource.kind, target.namespace, target.name, target.subresource) == expected


def test_the_watch_parameter_makes_a_list_a_watch() -> None:
    """On a collection it means watch, on one object it means nothing."""
    collection = ROUTES.find("GET", "/api/v1/nodes", watch=True)
    one = ROUTES.find("GET", "/api/v1/nodes/n", watch=True)

    assert collection is not None
    assert one is not None
    assert (collection.verb, one.verb) == ("watch", "get")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{DRA}/nothings", 404),
        ("GET", "/apis/resource.k8s.io/v7/resourceclaims", 404),
        ("GET", f"{DRA}/namespaces/n/resourceslices", 404),
        ("GET", f"{DRA}/resourceclaims/c", 404),
        ("GET", f"{DRA}/namespaces/n/resourceclaims/c/scale", 404),
        ("GET", f"{DRA}/deviceclasses/c/status", 404),
        ("POST", f"{DRA}/resourceclaims", 405),
        ("POST", f"{DRA}/namespaces/n/resourceclaims/c", 405),
        ("DELETE", f"{DRA}/namespaces/n/resourceclaims/c/status", 405),
        ("DELETE", "/api/v1/namespaces", 405),
    ],
)
def test_paths_that_lead_nowhere(method: str, path: str, code: int) -> None:
    """An unknown resource is 404, a verb that it does not have 405."""
    with pytest.raises(StatusError) as refusal:
        ROUTES.find(method, path, watch=False)

    assert refusal.value.code == code


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/resource.k8s.io/v1", "/openapi/v3/apis", "/healthz"]
)
def test_other_paths_are_not_about_resources(path: str) -> None:
    """Discovery and the like are somebody else's."""
    assert ROUTES.find("GET", path, watch=False) is None
