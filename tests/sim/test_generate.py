"""Made clusters are valid, and the same every time."""

import pytest

from dra_operator.api.read import read_object
from dra_operator.sim import generate
from dra_operator.sim.generate import ClusterShape, DeviceModel

from .conftest import Api

SHAPE = ClusterShape(nodes=3, devices=2, models=(DeviceModel("a"), DeviceModel("b", taint="example.com/bad")))


def test_the_same_shape_gives_the_same_cluster() -> None:
    """There is no randomness in it."""
    assert list(generate.cluster(SHAPE)) == list(generate.cluster(SHAPE))


def test_every_object_can_be_read() -> None:
    """The operator's own reader takes all of them."""
    bodies = [*generate.cluster(SHAPE), *generate.claims(2)]

    assert len([read_object(body) for body in bodies]) == 1 + 3 + 3 + 2


def test_models_take_turns() -> None:
    """Node by node the next model is used; a tainted one carries its taint on each device."""
    models = [body["spec"]["devices"][0]["attributes"]["model"]["string"] for body in generate.slices(SHAPE)]
    tainted = ["taints" in body["spec"]["devices"][1] for body in generate.slices(SHAPE)]

    assert (models, tainted) == (["a", "b", "a"], [False, True, False])


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Node", "/api/v1/nodes"),
        ("ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices"),
        ("DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses"),
    ],
)
async def test_the_api_server_accepts_what_is_made(api: Api, kind: str, path: str) -> None:
    """Each kind passes validation when it is created over HTTP."""
    bodies = [body for body in generate.cluster(SHAPE) if body["kind"] == kind]

    for body in bodies:
        await api.create(body, path)

    assert bodies
