"""The life of the operator on the real API server: stops, crashes, outages, missing rights."""

from collections import Counter

import pytest

from controlplane.fleet import DRIVER, create_fleet
from controlplane.scene import PENDING, allocation, annotations, devices

NODES, EACH = 10, 4
DEVICES = NODES * EACH
CLAIMS = DEVICES + 20


def assert_each_device_once(scene):
    """Every device is allocated to one claim at most."""
    taken = Counter(device for claim in scene.all_claims() for device in devices(claim))
    assert [device for device, holders in taken.items() if holders > 1] == []


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


class TestStopping:
    """Kill -9 and a second operator after the first."""

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


class TestOutage:
    """The API server away, at the start or later."""

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
