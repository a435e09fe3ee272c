"""The controller of DeviceReservation: whatever happens, nothing is held too long, nor taken from a pod that runs."""

import asyncio
import copy

import pytest

from dra_operator.api.read import read_object
from dra_operator.cluster.session import ApiError
from dra_operator.kinds.device_reservation import read_reservation
from dra_operator.kinds.reservation_controller import find_copies
from dra_operator.ledger import Breakage, Cause
from factories import allocation, claim, result
from kinds.reservation_world import NAMESPACE, History, run_history
from kinds.states import build_state

HISTORIES = 500
PARTS = 10
GONE = Breakage(Cause.DEVICE_MISSING, ("gpu.example.com", "node-1", "gpu-0"), generation=2)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_history_leaves_anything_behind(part):
    """Of 500 at random, with kills, lags and lost devices: what is asked for is held at the end, and nothing else."""
    for number in range(part, HISTORIES, PARTS):
        run_history(f"suite {number}")


def history(**spec):
    """A cluster with one reservation."""
    made = History("one")
    made.create_reservation()
    (body,) = made.reservations.values()
    body["spec"] = {"resourceClaimTemplateName": "gpu", "copies": 2, **spec}
    return made, body


@pytest.mark.parametrize("code", [400, 403, 422])
def test_claim_that_is_refused_is_said(code):
    """A quota, an admission policy, a namespace that is being deleted: the words of the API server."""
    made, body = history()
    answer = made.session.request

    async def refuse(method, path, **options):
        if method == "POST":
            raise ApiError(
                code, "Forbidden", "exceeded quota: gpus", verb="create", resource="resourceclaims"
            )
        return await answer(method, path, **options)

    made.session.request = refuse
    made.reconcile_one(body)

    ready = body["status"]["conditions"][0]
    assert (ready["status"], ready["reason"]) == ("False", "Refused")
    assert "a-0: the API server refuses this claim" in ready["message"]
    assert "exceeded quota: gpus" in ready["message"]
    assert body["status"]["copies"][0]["reason"] == "Refused"


def test_one_refused_copy_keeps_nothing_from_the_others():
    """Of two copies the first is refused, and the second is made all the same."""
    made, body = history()
    answer = made.session.request

    async def refuse(method, path, **options):
        if method == "POST" and options["body"]["metadata"]["name"] == "a-0":
            raise ApiError(403, "Forbidden", "exceeded quota", verb="create", resource="resourceclaims")
        return await answer(method, path, **options)

    made.session.request = refuse
    made.reconcile_one(body)

    assert [each["reason"] for each in body["status"]["copies"]] == ["Refused", "Creating"]
    assert [each["metadata"]["name"] for each in made.server.of_kind("ResourceClaim")] == ["a-1"]


def test_other_faults_are_for_the_next_time():
    """An API server in trouble is no reason; Kopf asks again."""
    made, body = history()

    async def fail(*_args, **_options):
        raise ApiError(500, "InternalError", "etcd")

    made.session.request = fail
    with pytest.raises(ApiError):
        asyncio.run(made.controller.reconcile(body))


@pytest.mark.parametrize("now", ["deleted", "gone", "another", "fewer"])
def test_reservation_is_read_anew(now):
    """What Kopf has of it may be older: nothing is made for one that was deleted since, or made anew under its name."""
    made, body = history()
    older = copy.deepcopy(body)
    match now:
        case "deleted":
            body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        case "gone":
            made.reservations.clear()
        case "another":
            body["metadata"]["uid"] = "another"
        case "fewer":
            body["spec"]["copies"] = 1

    asyncio.run(made.controller.reconcile(older))

    names = [each["metadata"]["name"] for each in made.server.of_kind("ResourceClaim")]
    assert names == (["a-0"] if now == "fewer" else [])


def test_phases_are_counted_while_a_reservation_is_there():
    """One that is gone is in none, also if it is asked for once more."""
    made, body = history()

    def count():
        registry = made.operator.metrics.registry
        return {
            phase: number
            for phase in ("Pending", "Ready", "Expiring", "Expired")
            if (number := registry.get_sample_value("dra_operator_reservations", {"phase": phase}))
        }

    made.reconcile_one(body)
    assert count() == {"Pending": 1}
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for _ in range(4):
        made.operator.tell(100)
        if made.reservations:
            made.reconcile_one(body)
    asyncio.run(made.controller.reconcile(body))

    assert made.reservations == {}
    assert count() == {}
    assert made.events == ["Expiring", "Expired"]


@pytest.mark.parametrize("devices", [["gpu-0"], ["gpu-1"]], ids=["has it", "had it"])
def test_what_was_lost_is_about_what_a_claim_has_now(devices):
    """Right after a claim got other devices, those of before may still be known to be lost."""
    status = {"allocation": allocation(*map(result, devices))}
    held = read_object(claim("a-0", status=status, namespace=NAMESPACE, uid="1"))
    state = build_state(
        find_claim={(NAMESPACE, "a-0"): held}.get,
        find_broken=lambda: {(NAMESPACE, "a-0"): (GONE,)},
    )
    _, body = history()

    (found,) = find_copies(state, read_reservation(body))

    assert bool(found.lost) is (devices == ["gpu-0"])


def test_why_a_copy_waits_is_what_the_operator_says():
    """The reason of its explanation, with the smallest change, while it has no devices."""
    waiting = read_object(claim("a-1", namespace=NAMESPACE, uid="1"))
    state = build_state(
        find_claim={(NAMESPACE, "a-1"): waiting}.get,
        find_reason={(NAMESPACE, "a-1"): ("DeviceInUse", "all 4 are; it fits if one ends")}.get,
    )
    _, body = history()

    (found,) = find_copies(state, read_reservation(body))

    assert (found.reason, found.text) == ("DeviceInUse", "all 4 are; it fits if one ends")


def test_each_copy_that_gets_other_devices_is_counted():
    """By what is wrong with those that it had, once the API server has taken its allocation."""
    made, body = history(ifLost="Replace", copies=1)
    while body.get("status", {}).get("phase") != "Ready":
        made.reconcile_one(body)
        made.run_cycle()
        made.send()
        made.tell()
    made.lose(body["status"]["copies"][0]["node"])
    made.operator.tell(100)

    for _ in range(2):
        made.reconcile_one(body)

    name, labels = "dra_operator_reallocations_total", {"cause": "node-gone"}
    assert made.operator.metrics.registry.get_sample_value(name, labels) == 1
