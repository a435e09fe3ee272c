"""The life of the operator on the real API server: stops, crashes, outages, missing rights."""

import signal
import time
from collections import Counter

import pytest

from controlplane.fleet import DRIVER, create_fleet, create_node, create_slice
from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT
from controlplane.scene import PENDING, RESOURCE, allocation, annotations, devices
from dra_operator.api.names import BROKEN_ANNOTATION

NODES, EACH = 10, 4
DEVICES = NODES * EACH
CLAIMS = DEVICES + 20


def assert_each_device_once(scene):
    """Every device is allocated to one claim at most."""
    taken = Counter(device for claim in scene.all_claims() for device in devices(claim))
    assert [device for device, holders in taken.items() if holders > 1] == []


def allocated(scene):
    """Return how many claims of the namespace are allocated."""
    return sum(bool(allocation(claim)) for claim in scene.all_claims())


def wait_settled(scene, seconds=60):
    """Wait until every device is allocated and every other claim says that it is pending."""
    scene.client.wait_for(
        scene.claims,
        lambda listed: (
            all(allocation(claim) or PENDING in annotations(claim) for claim in listed["items"])
            and sum(bool(allocation(claim)) for claim in listed["items"]) == DEVICES
        ),
        seconds=seconds,
        what=f"{DEVICES} allocated and the others pending",
    )


@pytest.fixture
def fleet(scene):
    """Make ten nodes with four devices each."""
    create_fleet(scene.client, nodes=NODES, devices=EACH)
    return scene


@pytest.fixture
def waiting(scene, operator):
    """Return a scene with a claim that waits for devices of a class."""
    scene.create_claim("waits", DRIVER)
    scene.wait_pending("waits")
    return scene


class TestDeletion:
    """What happens when a claim is deleted."""

    @pytest.mark.usefixtures("operator")
    def test_deleted_claim_goes_and_frees_its_device(self, fleet):
        """A deleted claim loses allocation and finalizer, and its device goes to the one that waited."""
        for number in range(DEVICES + 1):
            fleet.create_claim(f"claim-{number:02}", DRIVER)
        last = f"claim-{DEVICES:02}"
        fleet.wait_pending(last)
        freed = devices(fleet.claim("claim-00"))

        fleet.delete_claim("claim-00")

        fleet.wait_gone("claim-00")
        assert devices(fleet.wait_allocated(last)) == freed

    @pytest.mark.usefixtures("operator")
    def test_reserved_claim_is_kept(self, fleet):
        """A deleted claim that is reserved keeps its allocation until the reservation ends."""
        fleet.create_claim("used", DRIVER)
        fleet.wait_allocated("used")
        pod = {"resource": "pods", "name": "user", "uid": "0b7b2b9c-3f3c-4f0e-9d5b-6d5f0a6f0c01"}
        fleet.client.patch(f"{fleet.claims}/used/status", {"status": {"reservedFor": [pod]}})

        fleet.delete_claim("used")
        time.sleep(1)

        assert allocation(fleet.claim("used"))
        fleet.client.patch(f"{fleet.claims}/used/status", {"status": {"reservedFor": None}})
        fleet.wait_gone("used")


class TestWhichClaims:
    """Which claims the operator takes."""

    @pytest.mark.usefixtures("operator")
    def test_label_opts_out(self, fleet):
        """A claim with the label is left alone until the label goes."""
        fleet.create_claim("mine", DRIVER, labels={"dra-operator.io/allocate": "false"})
        fleet.create_claim("later", DRIVER)
        fleet.wait_allocated("later")
        assert allocation(fleet.claim("mine")) is None

        fleet.client.patch(
            f"{fleet.claims}/mine", {"metadata": {"labels": {"dra-operator.io/allocate": None}}}
        )

        fleet.wait_allocated("mine")


class TestNewAttempt:
    """A claim that waits is tried again when something changes that could help; nobody restarts anything."""

    def test_class_slice_and_node_come_one_after_the_other(self, waiting):
        """Class, slice and node may come in any order; with the last of them the claim is allocated."""
        create_slice(waiting.client, "node-000", devices=1)
        waiting.client.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {}})
        waiting.wait_event("waits", "NoNodes")

        create_node(waiting.client, "node-000")

        assert devices(waiting.wait_allocated("waits")) == ["node-000/dev-0"]


class TestStopping:
    """SIGTERM, kill -9 and a second operator after the first."""

    def test_sigterm_ends_well(self, fleet, start_operator):
        """SIGTERM in the middle of many claims: exit 0 within the grace period, and nothing is half done."""
        operator = start_operator()
        operator.wait_ready()
        for number in range(CLAIMS):
            fleet.create_claim(f"claim-{number:02}", DRIVER)

        started = time.monotonic()
        assert operator.stop(signal.SIGTERM) == 0
        assert time.monotonic() - started < 12

        assert_each_device_once(fleet)
        assert "Traceback" not in operator.log_text()

    def test_killed_operator_loses_nothing(self, fleet, start_operator):
        """Kill -9 in the middle and a new operator: every device once, the rest pending, nothing left behind."""
        first = start_operator()
        first.wait_ready()
        for number in range(CLAIMS):
            fleet.create_claim(f"claim-{number:02}", DRIVER)
            if number == CLAIMS // 2:
                first.kill()
        for number in range(5):
            fleet.delete_claim(f"claim-{number:02}")

        start_operator()

        wait_settled(fleet)
        assert_each_device_once(fleet)
        names = {claim["metadata"]["name"] for claim in fleet.all_claims()}
        assert len(names) == CLAIMS - 5

    def test_pending_reason_survives_a_restart(self, scene, start_operator):
        """A second operator finds the reason already told and repeats neither Event nor annotation."""
        first = start_operator()
        scene.create_claim("waits", "absent.example.com")
        text = scene.wait_pending("waits")
        event = scene.wait_event("waits", "ClassNotFound")
        version = scene.claim("waits")["metadata"]["resourceVersion"]
        first.stop()

        second = start_operator()
        second.wait_ready()
        time.sleep(1)

        assert scene.claim("waits")["metadata"]["resourceVersion"] == version
        assert [found["count"] for found in scene.events("waits")] == [event["count"]]
        assert annotations(scene.claim("waits"))[PENDING] == text


class TestOutage:
    """The API server away, at the start or later."""

    def test_operator_waits_for_the_api_server(self, control_plane, fleet, start_operator):
        """An operator that starts without an API server lives, is not ready, and works once there is one."""
        access = control_plane.kubeconfig_for(SERVICE_ACCOUNT, NAMESPACE)
        fleet.create_claim("early", DRIVER)
        with control_plane.outage():
            operator = start_operator(kubeconfig=access)
            operator.wait_until(lambda: operator.url is not None)
            assert operator.http("/healthz")[0] == 200
            status, why = operator.http("/readyz")
            assert status == 503
            assert "API server" in why

        fleet.wait_allocated("early")
        operator.wait_ready()

    def test_outage_is_survived(self, control_plane, fleet, operator):
        """While the API server is away the operator is alive and says so; then it goes on where it was."""
        fleet.create_claim("before", DRIVER)
        fleet.wait_allocated("before")
        with control_plane.outage():
            operator.wait_unready()
            assert operator.http("/healthz")[0] == 200
        fleet.create_claim("after", DRIVER)

        fleet.wait_allocated("after")
        operator.wait_ready()
        assert_each_device_once(fleet)
        assert operator.exit_code is None


class TestCollision:
    """Two allocators on one driver's devices."""

    def test_a_device_that_two_claims_hold_is_told_and_left_alone(self, fleet, operator):
        """Both claims get their Event, nothing is written to them, and other claims are decided at once."""
        fleet.create_claim("ours", DRIVER)
        held = allocation(fleet.wait_allocated("ours"))["devices"]["results"]

        fleet.create_used_claim("theirs", DRIVER, held)

        assert "theirs" in fleet.wait_event("ours", "DeviceAllocatedTwice")["message"]
        assert "ours" in fleet.wait_event("theirs", "DeviceAllocatedTwice")["message"]
        operator.wait_until(lambda: "dra_operator_device_collisions 1.0" in operator.http("/metrics")[1])
        versions = [fleet.claim(name)["metadata"]["resourceVersion"] for name in ("ours", "theirs")]
        fleet.create_claim("next", DRIVER)
        assert devices(fleet.wait_allocated("next")) != devices(fleet.claim("ours"))
        assert operator.http("/readyz")[0] == 200
        assert versions == [fleet.claim(name)["metadata"]["resourceVersion"] for name in ("ours", "theirs")]


class TestBrokenAllocation:
    """An allocation whose node is gone."""

    @pytest.mark.usefixtures("operator")
    def test_it_is_told_until_the_node_is_there_again(self, scene):
        """By Event and annotation."""
        create_fleet(scene.client, nodes=1, devices=1)
        scene.create_claim("ours", DRIVER)
        scene.wait_allocated("ours")
        scene.client.request("DELETE", "/api/v1/nodes/node-000")

        assert "node node-000 is gone" in scene.wait_event("ours", "AllocationBroken")["message"]
        claim = f"{scene.claims}/ours"
        scene.client.wait_for(claim, is_broken, what="the annotation")
        create_node(scene.client, "node-000")
        scene.client.wait_for(claim, lambda claim: not is_broken(claim), what="the end of the annotation")


def is_broken(claim):
    """Return whether a claim says that its allocation is broken."""
    return BROKEN_ANNOTATION in annotations(claim)
