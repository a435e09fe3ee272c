"""The stories of examples/, told to the real API server with the operator running."""

import pytest

from controlplane.scene import FINALIZER, PENDING, allocation, annotations, devices, node


@pytest.fixture
def cluster(scene, operator):
    """Return a cluster of two nodes on which the operator runs."""
    scene.apply("nodes.yaml")
    return scene


class TestWalkthrough:
    """The walkthrough of the Kubernetes documentation."""

    @pytest.fixture
    def walkthrough(self, cluster):
        """Apply class, slices and claim."""
        cluster.apply("walkthrough/1-class.yaml", "walkthrough/2-slices.yaml", "walkthrough/3-claim.yaml")
        return cluster

    def test_claim_gets_all_devices_of_the_first_node(self, walkthrough):
        """A claim for all GPUs gets those of the first node by name, and can be used there only."""
        claim = walkthrough.wait_allocated("example-resource-claim")

        assert devices(claim) == ["node-1/gpu-0", "node-1/gpu-1"]
        assert node(claim) == "node-1"

    def test_allocation_is_complete(self, walkthrough):
        """The claim carries the finalizer and the timestamp without which kube-scheduler could not use it."""
        claim = walkthrough.wait_allocated("example-resource-claim")

        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert allocation(claim)["allocationTimestamp"]
        assert annotations(claim).get(PENDING) is None

    def test_describe_shows_what_was_decided(self, walkthrough):
        """`kubectl describe` of an allocated claim names its devices and its node in an Event."""
        walkthrough.wait_event("example-resource-claim", "Allocated")

        shown = walkthrough.describe("example-resource-claim")

        assert "driver.example.com/node-1/gpu-0" in shown
        assert "driver.example.com/node-1/gpu-1" in shown
        assert "on node node-1" in shown

    def test_claim_waits_until_devices_are_free(self, walkthrough):
        """The third claim for all GPUs of one of two nodes waits, says why, and is served when one is deleted."""
        walkthrough.wait_allocated("example-resource-claim")
        for name in ("second", "third"):
            walkthrough.create_claim(name, "example-device-class", allocationMode="All")
        assert node(walkthrough.wait_allocated("second")) == "node-2"
        text = walkthrough.wait_pending("third", "request devices: 4 devices published")
        assert text in walkthrough.describe("third")

        walkthrough.delete_claim("example-resource-claim")

        third = walkthrough.wait_allocated("third")
        assert node(third) == "node-1"
        assert PENDING not in annotations(third)
        walkthrough.wait_gone("example-resource-claim")


class TestPrioritizedList:
    """An H100, else two A100, under scarcity."""

    def test_alternatives_are_taken_in_order(self, cluster):
        """The first claim gets the H100, the second the two A100; the third waits."""
        cluster.apply("prioritized-list")

        assert devices(cluster.wait_allocated("train-0")) == ["node-1/gpu-0"]
        assert devices(cluster.wait_allocated("train-1")) == ["node-2/gpu-0", "node-2/gpu-1"]
        assert "request gpu" in cluster.wait_pending("train-2")


class TestTaints:
    """Devices that are tainted by their driver and by an administrator's rule."""

    @pytest.fixture
    def tainted(self, cluster):
        """Apply class, slices, rule and claims."""
        # The rule first: the operator would be right to give the device away in the moment before it.
        cluster.apply("taints/2-rule.yaml")
        cluster.apply("taints/1-class-and-slices.yaml", "taints/3-claims.yaml")
        return cluster

    def test_tolerations_open_tainted_devices(self, tainted):
        """Each claim that tolerates a taint gets the device that has it."""
        assert devices(tainted.wait_allocated("tolerates-broken")) == ["node-1/nic-0"]
        assert devices(tainted.wait_allocated("tolerates-test")) == ["node-1/nic-1"]

    def test_claim_without_toleration_waits(self, tainted):
        """A claim that tolerates nothing waits and says that the devices are tainted."""
        assert "taint" in tainted.wait_pending("plain")


class TestAdminAccess:
    """Watching a device that is in use."""

    LABEL = "resource.kubernetes.io/admin-access"

    def label(self, scene, value):
        """Set or remove the label that permits admin access."""
        namespace = f"/api/v1/namespaces/{scene.namespace}"
        scene.client.patch(namespace, {"metadata": {"labels": {self.LABEL: value}}})

    def test_device_in_use_is_shared_with_the_admin(self, cluster):
        """In a labelled namespace a claim with admin access gets a device that another claim holds."""
        self.label(cluster, "true")
        cluster.apply("admin-access/1-class-and-slices.yaml", "admin-access/2-claim.yaml")
        cluster.wait_allocated("work")

        cluster.apply("admin-access/3-monitor.yaml")

        monitor = cluster.wait_allocated("monitor")
        assert devices(monitor) == ["node-1/fpga-0"]
        assert allocation(monitor)["devices"]["results"][0]["adminAccess"] is True

    def test_smuggled_claim_is_refused(self, scene, start_operator):
        """A claim with admin access in a namespace without the label is refused, though it got past admission."""
        self.label(scene, "true")
        scene.apply("nodes.yaml", "admin-access/1-class-and-slices.yaml", "admin-access/3-monitor.yaml")
        self.label(scene, None)

        start_operator()

        assert self.LABEL in scene.wait_pending("monitor")
        assert scene.wait_event("monitor", "AdminAccessDenied")["type"] == "Warning"


class TestBroken:
    """Mistakes: each is told on the claim, and none blocks anybody else."""

    @pytest.fixture
    def broken(self, cluster):
        """Apply everything that is broken, and one claim that is not."""
        cluster.apply("broken")
        return cluster

    @pytest.mark.parametrize(
        ("claim", "reason", "says"),
        [
            ("missing-attribute", "SelectorFailed", "large-disk.example.com"),
            ("unknown-class", "ClassNotFound", "floppy.example.com"),
            ("incomplete-pool", "PoolIncomplete", "request tape"),
        ],
    )
    def test_claim_says_what_is_wrong(self, broken, claim, reason, says):
        """The annotation and a Warning Event of the claim name what is wrong."""
        text = broken.wait_pending(claim)
        event = broken.wait_event(claim, reason)

        assert says in text
        assert event["type"] == "Warning"
        assert event["message"] == text

    def test_claim_beside_them_is_allocated(self, broken):
        """A claim without a mistake gets its device."""
        assert len(devices(broken.wait_allocated("works"))) == 1
