"""Audit: each fault that is put into a cluster is found, at its object, and nothing else is."""

import re

import pytest

import clean_worlds as worlds
import world_faults as faults
from dra_operator.questions.answers import Sort
from dra_operator.questions.claims import Use
from dra_operator.questions.cluster import Cluster

WORLDS_A_FAULT = 3
MOST_SEEDS = 60


def load(world, **unread):
    """The cluster of a world."""
    return Cluster.load(world.bodies, now=worlds.NOW.timestamp(), unread=unread)


def found(cluster):
    """What an audit finds, by sort and object."""
    return {(each.sort.value, each.kind, each.namespace, each.name) for each in cluster.audit().findings}


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_wrong_in_a_clean_world(seed):
    """A cluster with all that is normal has no findings, and all sorts are judged."""
    cluster = load(worlds.make_world(seed))

    report = cluster.audit()

    assert (cluster.errors, report.findings, report.unchecked) == ([], (), ())


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(each, id=f"{sort}-{each.__name__}")
        for sort, those in faults.FAULTS.items()
        for each in those
    ],
)
def test_fault_is_found_and_nothing_else(fault):
    """A fault is found at the objects that have it, in several clusters."""
    tried = 0
    for seed in range(MOST_SEEDS):
        world = worlds.make_world(seed)
        if (expected := fault(world)) is None:
            continue
        cluster = load(world)

        assert (cluster.errors, found(cluster)) == ([], expected), seed
        tried += 1
        if tried == WORLDS_A_FAULT:
            break
    assert tried


def test_each_sort_has_two_faults():
    """No sort is tried with fewer than two faults."""
    assert {sort: len(those) >= 2 for sort, those in faults.FAULTS.items()} == {
        sort.value: True for sort in Sort
    }


def test_two_faults_are_both_found_the_most_urgent_first():
    """Findings are sorted by how urgent they are, whatever their objects are called."""
    world = worlds.make_world(1)
    later = faults.slice_that_is_missing(world)
    first = faults.second_claim_on_a_device(world)

    cluster = load(world)

    assert found(cluster) == first | later
    assert [each.sort for each in cluster.audit().findings] == [Sort.TWO_HOLDERS, Sort.POOL_NOT_COMPLETE]


def test_what_cannot_be_judged_is_said():
    """Without pods nobody knows whether a reservation is for one that is gone."""
    world = worlds.make_world(1)
    faults.reserved_for_a_pod_that_is_gone(world)
    for key in [key for key in world.objects if key[0] == "Pod"]:
        del world.objects[key]

    report = load(world, Pod="not permitted to list pods").audit()

    assert Sort.CONSUMER_GONE not in {each.sort for each in report.findings}
    assert [(each.sort, each.why) for each in report.unchecked] == [
        (Sort.CONSUMER_GONE, "Pod: not permitted to list pods"),
        (Sort.DELETION_HANGS, "Pod: not permitted to list pods"),
        (Sort.BINDING_OVERDUE, "Pod: not permitted to list pods"),
        (Sort.UNKNOWN_REQUEST, "Pod: not permitted to list pods"),
        (Sort.NODE_WITHOUT_DEVICES, "Pod: not permitted to list pods"),
        (Sort.NOBODY_DECIDES, "Pod: not permitted to list pods"),
        (Sort.GATE_LEFT_BEHIND, "Pod: not permitted to list pods"),
    ]


@pytest.mark.parametrize(("hours", "is_found"), [(2, False), (26, True)])
def test_reservations_that_were_written_within_a_day_count_as_use(hours, is_found):
    """The time of the allocation does not say how long nobody has reserved it; who took the last one away does."""
    world = worlds.make_world(1)
    (expected,) = faults.claim_that_nobody_used_for_two_days(world)
    fields = {"f:status": {"f:reservedFor": {}}}
    time = worlds.ago(hours=hours)
    manager = {"manager": "kube-controller-manager", "operation": "Update", "time": time, "fieldsV1": fields}
    claim = world.objects[("ResourceClaim", *expected[2:])]
    claim["status"]["allocation"]["allocationTimestamp"] = worlds.ago(days=3)
    claim["metadata"]["managedFields"] = [manager]

    assert found(load(world)) == ({expected} if is_found else set())


def finding(fault, seed=1):
    """The only finding that a fault causes, in the first cluster that has a place for it."""
    for number in range(seed, MOST_SEEDS):
        world = worlds.make_world(number)
        if fault(world) is not None:
            (only,) = load(world).audit().findings
            return only
    raise AssertionError(fault)


@pytest.mark.parametrize(
    ("fault", "message", "action"),
    [
        (faults.second_claim_on_a_device, "each for itself alone", "restart kube-scheduler"),
        (faults.whole_and_parts_in_use, "4 published", "delete claims until the others fit"),
        (
            faults.device_of_a_pool_that_is_gone,
            "of whose pool no slice is published",
            "see whether its driver runs",
        ),
        (faults.reserved_for_a_pod_that_is_gone, "pod lost, which is gone", "kube-controller-manager"),
        (
            faults.claim_that_a_pod_still_uses,
            "being deleted for 60m: it is reserved for pod",
            "end what uses it",
        ),
        (
            faults.rule_that_no_operator_lets_go,
            "finalizer dra-operator.io/owned",
            "whether the operator runs",
        ),
        (faults.two_publishers_of_one_pool, "2 where 1 is announced", "give each publisher a pool name"),
        (faults.device_plugin_beside_the_driver, "offers 2 example.com/gpu by a device plugin", "not both"),
        (faults.nomination_for_a_node_that_is_gone, "node-9, which is gone", "kubectl patch pod"),
        (
            faults.device_that_was_in_use_when_it_was_owned,
            "before the device was owned",
            "nothing: the operator",
        ),
        (faults.owned_device_that_kube_scheduler_wrote, "kube-scheduler allocated it", "dra-operator-owned"),
        (
            faults.device_that_kube_scheduler_wrote_before_it_was_owned,
            "kube-scheduler allocated it before the device was owned",
            "nothing: the operator",
        ),
        (
            faults.template_with_a_tolerant_alternative_beside_tolerations_that_do_not_count,
            "request some/b tolerates the taint dra-operator.io/owned",
            "name the keys of other taints",
        ),
        (faults.claim_whose_pod_has_waited_for_days, "for nobody for 25h", "see why pod"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_finding_says_what_is_wrong_and_what_to_do(fault, message, action):
    """With the device, the pod, the amount or the time by which it can be checked."""
    found = finding(fault)

    assert message in found.message
    assert action in found.action


def test_pool_that_is_not_complete_says_what_is_allocated_from_it():
    """Its devices may well be in use: each node may see as many slices as are announced."""
    world = worlds.make_world(1)
    faults.slice_that_is_missing(world)

    (found,) = [each for each in load(world).audit().findings if each.sort == Sort.POOL_NOT_COMPLETE]

    assert "so its devices are not allocated" not in found.message
    assert re.search(r"; (\d+|none) of its devices (are|is) allocated$", found.message)


def test_claim_that_a_reservation_left_behind_says_how_it_goes():
    """Its entry alone holds a claim that is being deleted; and it is told as a holder by its kind."""
    entry = {"apiGroup": "dra-operator.io", "resource": "devicereservations", "name": "dr", "uid": "uid-dr"}
    for seed in range(MOST_SEEDS):
        world = worlds.make_world(seed)
        if (expected := faults.claim_that_a_pod_still_uses(world)) is not None:
            break
    (place,) = expected
    claim = world.objects["ResourceClaim", place[2], place[3]]
    claim["status"]["reservedFor"] = [entry]
    cluster = load(world)

    (finding,) = [each for each in cluster.audit().findings if each.sort is Sort.DELETION_HANGS]
    assert "it is reserved for devicereservation dr" in finding.message
    assert "if the reservation was deleted by force" in finding.action
    (holder,) = [each for each in cluster.holders().holders if each.name == place[3]]
    consumer = holder.consumers[0]
    assert (consumer.kind, consumer.name, consumer.use) == ("DeviceReservation", "dr", Use.WAITING)
