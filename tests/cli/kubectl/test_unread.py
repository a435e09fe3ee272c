"""What the verbs say where a kind may not be read: never a yes or a no that the whole cluster does not have."""

import pytest

from cluster import allocation, claim, pod
from factories import taint_rule

KINDS = (
    *("ResourceClaim", "Pod", "Node", "DeviceTaintRule", "Namespace", "PersistentVolume"),
    *("PersistentVolumeClaim", "DeviceClass", "ResourceSlice", "ResourceClaimTemplate"),
)
LINES = (
    *("fit class/gpu", "fit class/gpu -c 2", "fit claim/waiting", "fit pod/waits"),
    *("headroom class/gpu", "headroom claim/waiting"),
    *("explain claim/waiting", "explain claim/holder", "explain pod/user", "explain pod/waits"),
    *("explain class/gpu",),
    *("who node/node-1", "who node/node-2", "who class/gpu", "who pool/pool-2", "who --idle"),
    *("impact node/node-1", "impact node/node-2", "impact driver/gpu.example.com"),
    *("audit", "audit -n default", "audit --sort Unreserved", "audit --sort NodeGone"),
    *("lint", "lint class/gpu", "lint claim/waiting"),
)


def forbid(cluster, kind):
    """Refuse lists of a kind, as an authorizer does."""
    cluster.server.faults.answer(403, kind=kind, verb="list", times=None, message=f"may not list {kind}")


@pytest.fixture
async def used(cluster):
    """A claim that a pod uses, one that waits with its pod, and a device that is tainted."""
    reserved = [{"resource": "pods", "name": "user", "uid": "user"}]
    holder = claim("holder") | {"status": {"allocation": allocation(), "reservedFor": reserved}}
    user = pod("user", uses="holder", nodeName="node-1")
    user["metadata"]["uid"] = "user"
    cluster.put(holder, user, claim("waiting", request={"count": 9}), pod("waits", uses="waiting"))
    cluster.put(taint_rule("repair", {"device": "gpu-1"}))
    return cluster


@pytest.mark.parametrize("kind", KINDS)
async def test_kind_that_cannot_be_read_changes_no_answer_but_to_cannot_say(used, dra, kind):
    """Exit code 0 and 1 are those of who may read all; where that is not known it is 2."""
    whole = {line: (await dra(*line.split())).exit_code for line in LINES}
    forbid(used, kind)

    found = {line: (await dra(*line.split())).exit_code for line in LINES}

    assert {line: code for line, code in found.items() if code not in (2, whole[line])} == {}


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("impact node/node-2", "ResourceClaim", "this cannot be said for certain: ResourceClaim"),
        ("impact node/node-2", "Pod", "this cannot be said for certain: Pod"),
        ("explain class/gpu", "DeviceTaintRule", "this cannot be said for certain: DeviceTaintRule"),
        ("headroom class/gpu", "DeviceTaintRule", "this cannot be said for certain: DeviceTaintRule"),
        ("who class/gpu", "DeviceClass", "DeviceClass cannot be read, so nothing can be said"),
        ("devices --class gpu", "DeviceClass", "DeviceClass cannot be read, so nothing can be said"),
        ("who --idle", "Pod", "no claim that can be read holds any of 3 devices"),
        ("lint claim/waiting", "DeviceClass", "not permitted to list deviceclasses"),
        ("top --by class", "DeviceClass", "DeviceClass cannot be read, so nothing can be said"),
        ("top -l zone=a", "Node", "not permitted to list nodes"),
        (
            "audit --sort DeletionHangs",
            "ResourceClaimTemplate",
            "DeletionHangs not checked: ResourceClaimTemplate",
        ),
        ("fit class/gpu", "Node", "not permitted to list nodes"),
    ],
)
async def test_what_cannot_be_said_names_what_is_missing(used, dra, line, kind, words):
    """Exit code 2, and what the answer depends on."""
    forbid(used, kind)

    result = await dra(*line.split())

    assert (result.exit_code, words in result.stderr) == (2, True), result.output


async def test_cluster_whose_last_node_is_gone_has_room_for_nothing(cluster, dra):
    """`--without` of every node leaves none, and not those that slices name."""
    result = await dra("fit", "class/gpu", "--without", "node/node-1", "--without", "node/node-2")

    assert result.exit_code == 1, result.output


async def test_free_devices_are_headed_as_what_they_are_at_most(used, dra):
    """Claims that cannot be read may hold some of them."""
    whole = await dra("top")
    forbid(used, "ResourceClaim")
    partial = await dra("top")

    assert [each.stdout.splitlines()[0].split()[3] for each in (whole, partial)] == ["FREE", "FREE<="]


async def test_the_word_of_the_operator_comes_first(used, dra):
    """Before what can be computed with fewer rights."""
    asked = claim("told")
    asked["metadata"]["annotations"] = {"dra-operator.io/pending": "NotEnoughDevices: 4 in use"}
    used.put(asked)
    forbid(used, "Node")

    result = await dra("explain", "claim/told")

    lines = result.stdout.splitlines()
    assert lines[:2] == ["the operator says: NotEnoughDevices: 4 in use", "as far as you can read:"]
    assert result.exit_code == 2


async def test_kinds_that_may_not_be_read_are_named_once_with_their_rights(used, dra):
    """What restricts the answer says which they are, and the rights stand beside it."""
    forbid(used, "ResourceClaim")
    forbid(used, "DeviceTaintRule")

    printed = (await dra("fit", "class/gpu")).stderr

    assert (
        "this cannot be said for certain: ResourceClaim, DeviceTaintRule cannot be read in full\n" in printed
    )
    assert printed.count("not permitted to list resourceclaims") == 1
