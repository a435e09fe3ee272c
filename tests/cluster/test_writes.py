"""Writes: what the API server gets, and in which order."""

import pytest

from dra_operator.api.names import FINALIZER, PENDING_ANNOTATION
from dra_operator.api.read import read_object
from dra_operator.cluster import writes

from .script import CLAIMS, ok, status
from .writing import ALLOCATION, DONE, PATH, allocate, annotate, claim, deallocate, known, patches, writer_of


async def test_finalizer_precedes_the_allocation(script, desk):
    """A claim without the finalizer gets it first, and the allocation on top of the version that came of it."""
    script.then(ok(claim(6, finalizers=["other", FINALIZER])), DONE)

    outcome = await desk().result(allocate(finalizers=("other",)))

    assert patches(script) == [
        (
            "",
            {"metadata": {"resourceVersion": "5", "uid": "u", "finalizers": ["other", FINALIZER]}},
        ),
        (
            "/status",
            {"metadata": {"resourceVersion": "6", "uid": "u"}, "status": {"allocation": ALLOCATION}},
        ),
    ]
    assert isinstance(outcome, writes.Stored)
    assert outcome.body["status"]["allocation"] == ALLOCATION


async def test_protected_claim_takes_one_patch(script, desk):
    """A claim that has the finalizer and no annotation is allocated by one patch."""
    script.then(DONE)

    assert isinstance(await desk().result(allocate()), writes.Stored)

    assert [subresource for subresource, _ in patches(script)] == ["/status"]


async def test_patches_are_merge_patches_by_the_field_manager(script, desk):
    """Patches are merge-patches, and managedFields will name the operator."""
    script.then(DONE)

    await desk().result(allocate())

    assert script.asked[0].headers["Content-Type"] == "application/merge-patch+json"
    assert script.asked[0].query == {"fieldManager": "dra-operator"}


async def test_allocation_ends_before_the_finalizer(script, desk):
    """A claim that is deleted loses its allocation first and then our finalizer, and no other."""
    script.then(ok(claim(6, finalizers=["other", FINALIZER])), ok(claim(7, finalizers=["other"])))

    outcome = await desk().result(deallocate(finalizers=("other", FINALIZER)))

    assert isinstance(outcome, writes.Stored)
    assert patches(script) == [
        ("/status", {"metadata": {"resourceVersion": "5", "uid": "u"}, "status": {"allocation": None}}),
        ("", {"metadata": {"resourceVersion": "6", "uid": "u", "finalizers": ["other"]}}),
    ]


async def test_claim_without_allocation_only_loses_the_finalizer(script, desk):
    """A claim that has our finalizer and no allocation is released by one patch."""
    script.then(ok(claim(6)))

    await desk().result(deallocate(allocated=False))

    assert patches(script) == [("", {"metadata": {"resourceVersion": "5", "uid": "u", "finalizers": []}})]


@pytest.mark.parametrize("text", ["why it waits", None], ids=["set", "take off"])
async def test_annotation_is_conditional(script, desk, text):
    """An annotation touches nothing else, and only the claim it was meant for."""
    script.then(ok(claim(6, annotation=text)))

    assert isinstance(await desk().result(annotate(text)), writes.Stored)

    assert patches(script) == [
        (
            "",
            {"metadata": {"resourceVersion": "5", "uid": "u", "annotations": {PENDING_ANNOTATION: text}}},
        )
    ]


async def test_served_version_is_used(script, session):
    """An API server that serves v1beta1 gets its patches there."""
    outcomes = []
    script.then(DONE)
    writer = writer_of(session, outcomes.append, type(CLAIMS)(CLAIMS.kind, "v1beta1"))

    writer.submit(allocate())
    await writer.drain(5)

    assert script.asked[0].path == PATH.replace("/v1/", "/v1beta1/") + "/status"


async def test_a_fence_takes_our_finalizer_off_one_version(script, desk):
    """A claim that has changed since is not touched, and finalizers of others stay."""
    script.then(ok(claim(6, finalizers=["other"])))

    outcome = await desk().result(writes.fence(("ns", "c"), "u", "5", ("other", FINALIZER)))

    sent = {"metadata": {"resourceVersion": "5", "uid": "u", "finalizers": ["other"]}}
    assert patches(script) == [("", sent)]
    assert isinstance(outcome, writes.Stored)


def withdraw(*, allocated=True, reserved_for=()):
    """The end of an allocation of a claim that lives on."""
    held = ALLOCATION if allocated else None
    return writes.withdraw(known(finalizers=(FINALIZER, "other"), allocation=held, reserved_for=reserved_for))


async def test_an_allocation_that_is_taken_back_ends_before_the_finalizer(script, desk):
    """The claim lives on with the finalizers of others; the second patch names the version that the first one made."""
    script.then(
        ok(claim(6, finalizers=[FINALIZER, "other"])),
        ok(claim(7, finalizers=["other"])),
    )

    outcome = await desk().result(withdraw())

    assert isinstance(outcome, writes.Stored)
    assert patches(script) == [
        ("/status", {"metadata": {"resourceVersion": "5", "uid": "u"}, "status": {"allocation": None}}),
        ("", {"metadata": {"resourceVersion": "6", "uid": "u", "finalizers": ["other"]}}),
    ]


async def test_claim_that_was_reserved_meanwhile_keeps_its_allocation(script, desk):
    """Its version is another one by then; nothing is repeated."""
    reserved = claim(6, finalizers=[FINALIZER], allocation=ALLOCATION)
    reserved["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "1"}]
    script.then(status(409), ok(reserved))

    outcome = await desk().result(withdraw())

    assert isinstance(outcome, writes.Stale)
    assert len(patches(script)) == 1


RESULT = ALLOCATION["devices"]["results"][0]
PLAIN = claim()
ANNOTATED = claim(finalizers=[FINALIZER], annotation="why")
ALLOCATED = claim(allocation=ALLOCATION)


def metadata(**fields):
    """The patch of one field of the metadata."""
    ((field, value),) = fields.items()
    return writes.Patch(f"metadata.{field}", {"metadata": {field: value}})


def patch_allocation(allocation):
    """The patch that gives a claim devices, or takes them."""
    return writes.Patch("status.allocation", {"status": {"allocation": allocation}})


@pytest.mark.parametrize(
    ("step", "body", "holds"),
    [
        (metadata(finalizers=[FINALIZER]), PLAIN, False),
        (metadata(finalizers=[FINALIZER]), ANNOTATED, True),
        (metadata(finalizers=[]), PLAIN, True),
        (metadata(finalizers=[]), ANNOTATED, False),
        (metadata(annotations={PENDING_ANNOTATION: "why"}), ANNOTATED, True),
        (metadata(annotations={PENDING_ANNOTATION: None}), ANNOTATED, False),
        (metadata(annotations={PENDING_ANNOTATION: None}), PLAIN, True),
        (patch_allocation(None), {**PLAIN, "status": None}, True),
        (patch_allocation(None), ALLOCATED, False),
        (patch_allocation(ALLOCATION), PLAIN, False),
        (patch_allocation(ALLOCATION), ALLOCATED, True),
        *(
            (patch_allocation({"devices": {"results": [RESULT | {part: "another"}]}}), ALLOCATED, False)
            for part in ("request", "driver", "pool", "device")
        ),
        (patch_allocation({"devices": {}}), claim(allocation={}), True),
    ],
)
def test_a_step_is_done_when_the_claim_says_so(step, body, holds):
    """All that it sets, and nothing that it leaves alone; of an allocation each device counts with its request."""
    assert step.holds(body) is holds


def test_claim_is_reserved_in_the_patch_of_its_allocation():
    """A claim that pods share is reserved for the one that it is decided with, at once."""
    given = known(allocation=ALLOCATION).status.allocation
    decided = writes.allocate(known(finalizers=[FINALIZER]), given, writes.Consumer("pod", "uid"))

    (patch,) = decided.patches

    assert patch.body["status"]["reservedFor"] == [{"resource": "pods", "name": "pod", "uid": "uid"}]


def test_reservation_is_added_to_those_that_are_there():
    """A merge patch replaces the list, so it has all of it; it holds once the claim is reserved for the pod."""
    there = {"resource": "pods", "name": "first", "uid": "first"}

    (patch,) = writes.reserve(known(reserved_for=["first"]), writes.Consumer("pod", "2")).patches

    patched = patch.body
    assert patched["status"]["reservedFor"] == [there, {"resource": "pods", "name": "pod", "uid": "2"}]
    assert patch.holds(patched)
    assert not patch.holds({"status": {"reservedFor": [there]}})


async def test_a_rule_that_has_changed_is_not_read(script, desk):
    """Nobody may need the right to read single rules: the watch tells of the newer version."""
    body = {"metadata": {"name": "r", "uid": "u", "resourceVersion": "5"}, "spec": {}}
    rule = read_object(
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", **body}, "DeviceTaintRule"
    )
    script.then(status(409, "the object has been modified"))

    outcome = await desk().result(writes.mark_rule(rule, ("a",), {"b": None}))

    assert isinstance(outcome, writes.Stale)
    assert [asked.method for asked in script.asked] == ["PATCH"]
    metadata = {"finalizers": ["a"], "annotations": {"b": None}, "uid": "u", "resourceVersion": "5"}
    assert script.asked[0].body == {"metadata": metadata}
