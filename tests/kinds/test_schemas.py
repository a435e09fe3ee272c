"""The schemas of the kinds."""

from pathlib import Path

import pytest
import yaml

CRDS = sorted((Path(__file__).parents[2] / "crds").glob("*/crd.yaml"))


def unexplained(schema, path):
    """Yield the fields of a schema that have no description."""
    for name, field in schema.get("properties", {}).items():
        if not field.get("description"):
            yield f"{path}.{name}"
        yield from unexplained(field, f"{path}.{name}")
        yield from unexplained(field.get("items", {}), f"{path}.{name}")


@pytest.mark.parametrize("file", CRDS, ids=lambda file: file.parent.name)
def test_each_field_is_explained(file):
    """`kubectl explain` has a sentence for it."""
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]

    assert {"spec", "status"} <= properties.keys()
    assert [*unexplained({"properties": {name: properties[name] for name in ("spec", "status")}}, "")] == []
