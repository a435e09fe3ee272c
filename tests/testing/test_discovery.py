"""The OpenAPI documents hold together and say what clients look for."""

import json
import re
from typing import Any

import pytest

from dra_operator.testing.discovery import OpenApi
from dra_operator.testing.resources import RESOURCES


@pytest.fixture(scope="module")
def openapi() -> OpenApi:
    """Return the documents of a server with all kinds."""
    return OpenApi(RESOURCES)


def document(openapi: OpenApi, path: str) -> dict[str, Any]:
    """Return one document."""
    text = openapi.answer(f"/openapi/v3/{path}")
    assert text is not None
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_index_names_every_group_and_version(openapi: OpenApi) -> None:
    """Each entry has a URL with the digest of its document."""
    index = json.loads(openapi.answer("/openapi/v3") or b"")["paths"]

    assert set(index) == {
        "api/v1",
        "apis/coordination.k8s.io/v1",
        "apis/events.k8s.io/v1",
        *(f"apis/resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1beta1", "v1alpha3")),
    }
    assert re.fullmatch(r"/openapi/v3/api/v1\?hash=[0-9A-F]{64}", index["api/v1"]["serverRelativeURL"])


def test_a_group_that_is_not_served_has_no_document(openapi: OpenApi) -> None:
    """Its path is unknown."""
    assert openapi.answer("/openapi/v3/apis/apps/v1") is None


@pytest.mark.parametrize("path", ["api/v1", "apis/resource.k8s.io/v1", "apis/resource.k8s.io/v1beta1"])
def test_every_reference_is_defined(openapi: OpenApi, path: str) -> None:
    """No schema refers to one that is not there."""
    found = document(openapi, path)

    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(found)))

    assert references <= set(found["components"]["schemas"])


def test_patches_offer_field_validation(openapi: OpenApi) -> None:
    """Kubectl asks here whether the server can validate, and which patches it takes."""
    path = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
    patch = document(openapi, "apis/resource.k8s.io/v1")["paths"][path]["patch"]

    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "ResourceClaim"


def test_keyed_lists_say_their_key(openapi: OpenApi) -> None:
    """The strategy and the key of a merge are those of the Go types."""
    schemas = document(openapi, "apis/resource.k8s.io/v1")["components"]["schemas"]

    reserved_for = schemas["io.k8s.api.resource.v1.ResourceClaimStatus"]["properties"]["reservedFor"]

    assert reserved_for["x-kubernetes-patch-strategy"] == "merge"
    assert reserved_for["x-kubernetes-patch-merge-key"] == "uid"
