"""Devices that are ours, on the real API server: the operator with its policy, without it, and with a wrong one."""

import time

import pytest

from controlplane import clear_cluster, fresh_namespace
from controlplane import start_operator as start_operator_at
from controlplane.fencing import ADMISSION, remove
from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import install_fence
from controlplane.scene import RESOURCE, Scene
from dra_operator.api.names import OWNED_KEY, OWNED_POLICY

RULES = f"{RESOURCE}/devicetaintrules"
OWNED = ("--devices=owned", "--ownership-settle-seconds=1")


@pytest.fixture
def fleet(scene):
    """Two nodes with two devices each, and no policy."""
    create_fleet(scene.client, nodes=2, devices=2)
    return scene


@pytest.fixture
def fenced_fleet(fenced_plane):
    """The same with the policies."""
    with fresh_namespace(fenced_plane) as name:
        create_fleet(fenced_plane.client, nodes=2, devices=2)
        yield Scene(fenced_plane, name)
    clear_cluster(fenced_plane)


@pytest.fixture
def start_fenced(fenced_plane, tmp_path):
    """Start operators beside the policies; all are stopped afterwards."""
    started = []

    def start(*flags):
        started.append(start_operator_at(fenced_plane, tmp_path / f"{len(started)}.log", *flags))
        started[-1].wait_ready()
        return started[-1]

    yield start
    for operator in started:
        operator.stop()


def own(scene, name="own", **selector):
    """Create a rule that owns devices of the fleet."""
    spec = {
        "taint": {"key": OWNED_KEY, "effect": "NoSchedule"},
        "deviceSelector": {"driver": DRIVER, **selector},
    }
    scene.client.create(RULES, {"metadata": {"name": name}, "spec": spec})


def pool_of_first_node(scene):
    """The name of the first pool."""
    return min(
        item["spec"]["pool"]["name"] for item in scene.client.get(f"{RESOURCE}/resourceslices")["items"]
    )


def let_go(scene):
    """Delete all rules and wait until the operator has let them go."""
    for item in scene.client.get(RULES)["items"]:
        scene.client.delete(f"{RULES}/{item['metadata']['name']}")
    scene.client.wait_for(RULES, lambda found: not found["items"])


def test_with_the_policy_owned_devices_are_used_after_their_time(fenced_fleet, start_fenced):
    """The operator allocates the pool that a rule owns, and no other; it is ready without a note; the rule goes."""
    fleet, operator = fenced_fleet, start_fenced(*OWNED)
    pool = pool_of_first_node(fleet)
    own(fleet, pool=pool)
    began = time.monotonic()

    for name in ("one", "two"):
        fleet.create_claim(name, DRIVER)
        fleet.wait_allocated(name)
    assert time.monotonic() - began > 1
    fleet.create_claim("three", DRIVER)

    text = fleet.wait_pending("three")
    assert "2 not owned by this operator" in text
    assert "; an admin takes the devices for the operator)" in text
    fleet.client.wait_for("/healthz", lambda _: operator.http("/readyz") == (200, "ok\n"))
    rule = fleet.client.wait_for(
        f"{RULES}/own", lambda rule: "annotations" in rule["metadata"], what="the mark"
    )["metadata"]
    assert (rule["finalizers"], rule["annotations"]) == (
        [OWNED_KEY],
        {"dra-operator.io/settled": f"{rule['uid']}/1/{fence_uid(fleet)}"},
    )
    let_go(fleet)


@pytest.mark.parametrize("when", ["start", "run"])
def test_a_policy_that_was_installed_again_is_believed_after_a_restart_of_the_api_server(
    fenced_fleet, start_fenced, when
):
    """Until then readyz says what a new rule waits for, and its devices wait for quiet."""
    fleet, flags = fenced_fleet, (*OWNED, "--ownership-quiet-seconds=600")
    plane = fleet.plane
    if when == "start":
        install_again(plane)
        operator = start_fenced(*flags)
    else:
        operator = start_fenced(*flags)
        install_again(plane)
    own(fleet)
    fleet.create_claim("one", DRIVER)

    fleet.client.wait_for(
        "/healthz",
        lambda _: (
            "does not protect devices of DeviceTaintRule own: kube-apiserver" in operator.http("/readyz")[1]
        ),
    )
    assert "owned, but not settled yet" in fleet.wait_pending("one")
    with plane.outage():
        pass

    fleet.wait_allocated("one")
    # The policy is asked for every 15 s; until then the mark is that of the one before, and then a claim must wait.
    time.sleep(16)
    fleet.create_claim("two", DRIVER)
    fleet.wait_allocated("two")
    fleet.client.wait_for(
        f"{RULES}/own",
        lambda rule: rule["metadata"]["annotations"]["dra-operator.io/settled"].endswith(fence_uid(fleet)),
    )
    fleet.client.wait_for("/healthz", lambda _: operator.http("/readyz") == (200, "ok\n"))
    let_go(fleet)


def install_again(plane):
    """Delete policy and binding, and install them when the API server, which looks each second, has seen it."""
    remove(plane.client, OWNED_POLICY)
    time.sleep(3)
    install_fence(plane)


def fence_uid(scene):
    """The uids of the policy and its binding."""
    kinds = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    found = (scene.client.get(f"{ADMISSION}/{kind}/{OWNED_POLICY}") for kind in kinds)
    return "/".join(each["metadata"]["uid"] for each in found)
