"""The reader that judges who holds what beside kube-scheduler, and the truth of a claim's waiting."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from coexistence.fleet import DRIVER, Fleet
from coexistence.ownership import selected
from coexistence.reader import Reader, published
from coexistence.truth import Truth
from coexistence.workload import Trait, claim_spec

FLEET = Fleet(plain=1)


@pytest.fixture
def stock():
    """Return the devices of a small fleet."""
    return published(FLEET.slices())


@pytest.fixture
def reader(stock):
    """Return a reader that has seen no claim."""
    return Reader(stock, selected(FLEET.rules(), stock.devices))


def result(device, **fields):
    """Return the result for a device, given as `pool/device`."""
    pool, name = device.split("/")
    return {"request": "devices", "driver": DRIVER, "pool": pool, "device": name, **fields}


def claim(name, *results, **fields):
    """Return a claim that holds devices."""
    metadata = {"name": name, "namespace": "load", "uid": name, "resourceVersion": "1"}
    allocation = {"devices": {"results": list(results)}}
    return {"metadata": metadata, "status": {"allocation": allocation} if results else {}, **fields}


def test_two_holders_of_a_device_are_found(reader):
    """A device that a second claim gets while the first holds it is a violation, with both claims."""
    reader.apply("ADDED", claim("a", result("own-00/gpu-0")))
    reader.apply("ADDED", claim("b", result("own-00/gpu-0")))

    (found,) = reader.violations
    assert (found.kind, found.is_owned, found.holders) == ("device", True, ("load/a", "load/b"))


@pytest.mark.parametrize("end", ["cleared", "deleted"])
def test_a_device_that_was_given_back_is_free(reader, end):
    """The next holder of a device is no violation if the last one was cleared or deleted before."""
    reader.apply("ADDED", claim("a", result("other-00/gpu-0")))
    reader.apply("MODIFIED", claim("a")) if end == "cleared" else reader.apply(
        "DELETED", claim("a", result("other-00/gpu-0"))
    )
    reader.apply("ADDED", claim("b", result("other-00/gpu-0")))

    assert reader.violations == []


def test_admin_access_holds_nothing(reader):
    """A claim with admin access may have a device that another holds."""
    reader.apply("ADDED", claim("a", result("own-00/gpu-0")))
    reader.apply("ADDED", claim("b", result("own-00/gpu-0", adminAccess=True)))

    assert reader.violations == []


def test_an_overdrawn_counter_is_found(reader):
    """Partitions that together take more of their counter than there is are a violation."""
    reader.apply("ADDED", claim("a", result("own-parts-0/half-0")))
    reader.apply("ADDED", claim("b", result("own-parts-0/half-1")))
    assert reader.violations == []

    reader.apply("ADDED", claim("c", result("own-parts-0/quarter")))

    assert [one.kind for one in reader.violations] == ["counter"]


def test_overdrawn_capacity_is_found(reader):
    """Shares of a device that together exceed its capacity are a violation."""
    for name in "abc":
        share = {"shareID": name, "consumedCapacity": {"units": "3"}}
        reader.apply("ADDED", claim(name, result("other-shares/gpu-0", **share)))

    (found,) = reader.violations
    assert (found.kind, found.is_owned) == ("capacity", False)


@pytest.mark.parametrize(
    ("asked", "taken", "waits"),
    [
        (("plain", Trait.NONE), [], False),
        (("plain", Trait.ALL), ["own-00/gpu-0"], True),
        (("plain", Trait.TWO), ["own-00/gpu-0", "own-00/gpu-1", "own-00/gpu-2"], False),
        (("partition", Trait.NONE), ["own-parts-0/whole", "own-parts-1/whole"], True),
        (("partition", Trait.NONE), ["own-parts-0/whole", "own-parts-1/half-0"], False),
    ],
    ids=[
        "a free device",
        "all of a node with one in use, and none of a mixed node",
        "two on the mixed node",
        "no counter left",
        "a partition of what is left",
    ],
)
def test_a_claim_may_wait_only_if_nothing_fits(stock, reader, asked, taken, waits):
    """A waiting claim with a reason is right exactly if no free owned devices of one node are enough for it."""
    for device in taken:
        reader.apply("ADDED", claim(device.replace("/", "-"), result(device)))
    body = claim("waiting", spec=claim_spec(*asked))
    body["metadata"]["annotations"] = {"dra-operator.io/pending": "why"}

    assert (Truth(stock, reader).fault(body) is None) is waits


def test_a_claim_without_a_word_is_a_fault(stock, reader):
    """A claim that neither has devices nor says why is a fault, whatever fits."""
    fault = Truth(stock, reader).fault(claim("silent", spec=claim_spec("plain", Trait.ALL)))

    assert fault == "neither allocated nor with a reason"
