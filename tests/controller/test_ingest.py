"""What arrives, made into state."""

import pytest

from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dra_operator.cluster.reflector import Delta
from dra_operator.controller.claims import ClaimStore
from dra_operator.controller.ingest import DeltaEffects, Ingest
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger
from factories import manifest

KEY = ("team-a", "gpu")


class Feed:
    """Everything that the ingest feeds."""

    def __init__(self):
        self.inventory, self.ledger, self.book = Inventory(), Ledger(), ClaimStore()
        self.ingest = Ingest(self.inventory, self.ledger, self.book)

    def apply(self, *bodies, gone=()):
        """Take in objects on the wire, and deletions of (kind, namespace, name); return what changed."""
        effects = DeltaEffects()
        for body in bodies:
            metadata = body["metadata"]
            self.ingest.apply(
                Delta(body["kind"], metadata.get("namespace", ""), metadata["name"], body), effects
            )
        for place in gone:
            self.ingest.apply(Delta(*place, None), effects)
        return effects


@pytest.fixture
def feed():
    """An empty cluster."""
    return Feed()


def claim(*, allocated=False, spec=None, **metadata):
    """A claim called team-a/gpu on the wire."""
    results = [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}]
    return manifest(
        "ResourceClaim",
        "gpu",
        spec or {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "c"}}]}},
        status={"allocation": {"devices": {"results": results}}} if allocated else {},
        namespace="team-a",
        **{"uid": "u", **metadata},
    )


def resource_slice(**spec):
    """A slice of one device on one node."""
    return manifest(
        "ResourceSlice",
        "s",
        {
            "driver": "d",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
            **spec,
        },
    )


def node(**status):
    """A node that is ready."""
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
    return manifest("Node", "n", status={"conditions": conditions, **status})


CLASS = manifest("DeviceClass", "c", {})
NAMESPACE = manifest("Namespace", "team-a", labels={"resource.kubernetes.io/admin-access": "true"})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (node(), node(conditions=[{"type": "Ready", "status": "True", "lastHeartbeatTime": "2027"}])),
        (
            node(),
            node(conditions=[*node()["status"]["conditions"], {"type": "DiskPressure", "status": "True"}]),
        ),
        (resource_slice(), {**resource_slice(), "metadata": {"name": "s", "labels": {"a": "b"}}}),
        (CLASS, {**CLASS, "metadata": {"name": "c", "resourceVersion": "2"}}),
    ],
    ids=["heartbeat", "another condition", "label of a slice", "version of a class"],
)
def test_what_decides_nothing_wakes_nobody(feed, before, after):
    """Most effects help no claim and must not have all of them tried again."""
    feed.apply(before)

    assert not feed.apply(after).requeue_all


def test_a_new_claim_is_dirty_and_not_wide(feed):
    """A claim that arrives is tried; the others have nothing to gain."""
    effects = feed.apply(claim())

    assert (effects.requeue, effects.requeue_all) == ({KEY}, False)


@pytest.mark.parametrize(
    "change",
    [
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"labels": {"dra-operator.io/allocate": "false"}},
        {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "1", "controller": True}]},
        {"uid": "other"},
    ],
    ids=["deletion", "label", "owner", "uid"],
)
def test_what_can_change_whose_a_claim_is_makes_it_dirty(feed, change):
    """The claim is looked at again."""
    feed.apply(claim())

    assert feed.apply(claim(**change)).requeue == {KEY}


@pytest.mark.parametrize(("assumed", "wide"), [("gpu-1", True), ("gpu-0", False), (None, False)])
def test_an_allocation_of_another_writer_gives_back_what_was_assumed(feed, assumed, wide):
    """Other devices than ours set ours free; our own come true, or merely taken devices, free nothing."""
    feed.apply(claim())
    if assumed is not None:
        result = DeviceRequestAllocationResult(request="gpu", driver="d", pool="p", device=assumed)
        devices = DeviceAllocationResult(results=(result,))
        feed.ledger.assume(*KEY, AllocationResult(devices=devices))

    assert feed.apply(claim(allocated=True)).requeue_all is wide


def test_an_object_that_cannot_be_understood_counts_as_absent(feed):
    """Half-understood devices are not given away; what is wrong is named."""
    feed.apply(resource_slice())
    effects = feed.apply(
        resource_slice(devices=[{"name": "gpu-0", "capacity": {"memory": {"value": "12 GB"}}}])
    )

    (unreadable,) = effects.unreadable.values()
    assert unreadable.subject.name == "s"
    assert '"12 GB"' in unreadable.message
    assert effects.requeue_all
    assert not feed.inventory.pools


def test_an_object_that_is_mended_is_readable_again(feed):
    """The problem is over when the object is whole, or gone."""
    feed.apply(resource_slice(devices="none"))

    assert feed.apply(resource_slice()).unreadable == {("ResourceSlice", "", "s"): None}
    assert feed.apply(gone=[("ResourceSlice", "", "s")]).unreadable == {("ResourceSlice", "", "s"): None}


@pytest.mark.parametrize(
    "broken",
    [
        claim(allocated=True, spec={"devices": {"requests": "all of them"}}),
        {
            **claim(),
            "status": {
                "allocation": {
                    "devices": {
                        "results": [
                            {
                                "request": "gpu",
                                "driver": "d",
                                "pool": "p",
                                "device": "gpu-0",
                                "consumedCapacity": {"memory": "12 GB"},
                            }
                        ]
                    }
                }
            },
        },
    ],
    ids=["spec", "allocation"],
)
def test_a_claim_that_cannot_be_understood_keeps_its_devices(feed, broken):
    """What it holds is not given to anybody else."""
    effects = feed.apply(broken)

    assert None not in effects.unreadable.values()
    assert feed.ledger.holders(("d", "p"), ["gpu-0"]) == {KEY}
    assert not feed.book.waiting()


@pytest.mark.parametrize("status", [{}, None], ids=["empty", "none"])
def test_a_claim_that_cannot_be_understood_and_has_no_devices_is_not_decided(feed, status):
    """Nobody knows what it asks for."""
    feed.apply({**claim(spec={"devices": {"requests": "all of them"}}), "status": status})

    assert feed.book.get(KEY) is None
