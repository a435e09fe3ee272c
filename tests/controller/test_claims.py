"""Which claims are ours."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.core import Metadata, OwnerReference
from dra_operator.api.names import FINALIZER
from dra_operator.api.types import (
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from dra_operator.controller.claims import (
    ClaimScope,
    ClaimStore,
    PodUse,
    Standing,
    is_released,
    pod_use,
)

KEY = ("team-a", "gpu")


def claim(*, status=None, **metadata):
    """A claim called team-a/gpu."""
    fields = {"namespace": KEY[0], "name": KEY[1], **metadata}
    return ResourceClaim(metadata=Metadata(**fields), status=status or ResourceClaimStatus())


def pod(phase="Running", **fields):
    """A pod on the wire that names the claim."""
    return {
        "metadata": {"namespace": "team-a", "name": "train", **fields},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
        "status": {"phase": phase},
    }


@pytest.fixture
def book():
    """A book with one claim."""
    book = ClaimStore()
    book.put(claim())
    return book


RESERVED = ResourceClaimStatus(
    reserved_for=(ResourceClaimConsumerReference(resource="pods", name="p", uid="1"),)
)


RESERVATION = OwnerReference(
    "dra-operator.io/v1alpha1", kind="DeviceReservation", name="dr", uid="dr", controller=True
)


def test_operator_that_allocates_nothing_has_no_claim():
    """Not even one of a reservation: it would be decided on all devices, as nobody owns any."""
    book = ClaimStore(ClaimScope.NONE)
    for each in (claim(owner_references=(RESERVATION,)), claim()):
        book.put(each)

        assert book.standing(each) is Standing.STANDALONE
        assert not book.is_allocatable(KEY)
        assert not book.is_for_us_to_release(each)


@pytest.mark.parametrize("scope", [scope for scope in ClaimScope if scope is not ClaimScope.NONE])
@pytest.mark.parametrize("is_gated", [None, True, False], ids=["no pod", "gated pod", "pod"])
@pytest.mark.parametrize(
    ("owner", "is_ours"),
    [(RESERVATION, True), (replace(RESERVATION, api_version="example.com/v1"), False)],
)
def test_claims_of_a_reservation_are_ours_whoever_names_them(scope, is_gated, owner, is_ours):
    """They are decided for the reservation, not with pods; those of a kind of others of the same name are not."""
    book = ClaimStore(scope)
    book.put(claim(owner_references=(owner,)))
    if is_gated is not None:
        book.put_pod(PodUse(*KEY, claims=frozenset(("gpu",)), is_gated=is_gated))

    assert (book.standing(book.get(KEY)) is Standing.OURS) is is_ours
    reserved = claim(owner_references=(owner,), status=RESERVED)
    assert not is_ours or book.standing(reserved) is Standing.RESERVED


@pytest.mark.parametrize(
    ("subject", "standing"),
    [
        (claim(), Standing.OURS),
        (claim(labels={"dra-operator.io/allocate": "false"}), Standing.OPTED_OUT),
        (claim(labels={"dra-operator.io/allocate": "true"}), Standing.OURS),
        (claim(owner_references=(OwnerReference(kind="Pod", name="p", controller=True),)), Standing.OWNED),
        (claim(owner_references=(OwnerReference(kind="Workflow", name="w"),)), Standing.OURS),
        (claim(status=RESERVED), Standing.RESERVED),
    ],
    ids=["plain", "opted out", "label with another value", "controller owner", "mere owner", "reserved"],
)
def test_the_claim_itself_says_whose_it_is(book, subject, standing):
    """Label, controller owner and reservations decide before pods do."""
    assert book.standing(subject) is standing


@pytest.mark.parametrize(
    "body",
    [
        pod(),
        pod(phase="Pending"),
        *({**pod(phase), "spec": {**pod()["spec"], "nodeName": "n"}} for phase in ("Succeeded", "Failed")),
        {
            **pod(),
            "spec": {},
            "status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "gpu"}]},
        },
        {**pod(), "spec": {}, "status": {"extendedResourceClaimStatus": {"resourceClaimName": "gpu"}}},
    ],
    ids=[
        "by name",
        "not running yet",
        "succeeded on a node",
        "failed on a node",
        "made from a template",
        "for extended resources",
    ],
)
def test_a_pod_that_names_a_claim_takes_it(book, body):
    """A claim that a pod names in any of the three ways is the scheduler's, also when the pod has run."""
    use = pod_use(body)
    changed = book.put_pod(use)

    assert (use.namespace, use.name, use.claims) == ("team-a", "train", {"gpu"})
    assert changed == {KEY}
    assert book.standing(claim()) is Standing.POD
    assert not book.waiting()


@pytest.mark.parametrize(
    "body",
    [pod(phase="Succeeded"), pod(phase="Failed"), pod(deletionTimestamp="2026-01-01T00:00:00Z")],
    ids=["succeeded", "failed", "being deleted"],
)
def test_a_pod_at_its_end_gives_the_claim_back(book, body):
    """A claim is ours again when the last pod that names it is being deleted, or finished without a node."""
    book.put_pod(pod_use(pod()))

    assert book.put_pod(pod_use(body)) == {KEY}
    assert book.waiting() == {KEY}


STATES = {
    Standing.OURS: claim(),
    Standing.OPTED_OUT: claim(labels={"dra-operator.io/allocate": "false"}),
    Standing.OWNED: claim(owner_references=(OwnerReference(kind="Pod", name="p", controller=True),)),
    Standing.RESERVED: claim(status=RESERVED),
}
names = st.sampled_from("ab")
happenings = st.one_of(
    st.tuples(names, st.none() | st.sampled_from(list(STATES))),
    st.builds(PodUse, st.just("team-a"), names, st.frozensets(names)),
)


@given(st.lists(happenings, max_size=12))
def test_claims_and_pods_may_come_and_go_in_any_order(happened):
    """What waits, and how many there are of each standing, follows from the claims and pods that are left."""
    book, claims, pods = ClaimStore(), {}, {}
    for item in happened:
        if isinstance(item, PodUse):
            changed = book.put_pod(item)
            assert changed == {("team-a", name) for name in pods.get(item.name, frozenset()) ^ item.claims}
            pods[item.name] = item.claims
        elif item[1] is None:
            book.remove(("team-a", item[0]))
            claims.pop(item[0], None)
        else:
            book.put(replace(STATES[item[1]], metadata=replace(STATES[item[1]].metadata, name=item[0])))
            claims[item[0]] = item[1]
        used = frozenset().union(*pods.values())
        found = {
            name: Standing.POD if standing is Standing.OURS and name in used else standing
            for name, standing in claims.items()
        }

        assert book.waiting() == {("team-a", name) for name, each in found.items() if each is Standing.OURS}
        assert book.standings() == {each: list(found.values()).count(each) for each in Standing}


@pytest.mark.parametrize(
    ("subject", "released"),
    [
        (claim(deletion_timestamp="t", finalizers=(FINALIZER,)), True),
        (claim(deletion_timestamp="t", finalizers=(FINALIZER,), status=RESERVED), False),
        (claim(finalizers=(FINALIZER,)), False),
        (claim(deletion_timestamp="t", finalizers=("other",)), False),
    ],
    ids=["deleted and free", "deleted and reserved", "not deleted", "held by another finalizer"],
)
def test_a_deleted_claim_is_released_when_nobody_reserves_it(subject, released):
    """A reserved allocation is never cleared."""
    assert is_released(subject) is released


GATED = {"schedulingGates": [{"name": "dra-operator.io/allocation"}]}


def use(name, *, gated=True, phase="Pending", on=""):
    """What a pod of the claim's namespace uses: the claim."""
    body = pod(phase, name=name)
    body["spec"] |= {**(GATED if gated else {}), **({"nodeName": on} if on else {})}
    return pod_use(body)


@pytest.mark.parametrize(
    ("uses", "standing"),
    [
        ([use("a"), use("b")], Standing.GATED),
        ([use("a"), use("b", gated=False)], Standing.OWNED),
        ([use("a"), use("b", gated=False, phase="Succeeded", on="n")], Standing.GATED),
        ([use("b", gated=False, phase="Succeeded", on="n")], Standing.OWNED),
        ([], Standing.OWNED),
    ],
    ids=["all gated", "one is not", "one has run", "all have run", "none"],
)
def test_claim_is_decided_with_its_pods_if_all_unfinished_ones_are_gated(uses, standing):
    """Whoever owns the claim: those of templates are owned by their pods."""
    store = ClaimStore(ClaimScope.GATED)
    store.put(claim(owner_references=(OwnerReference(kind="Pod", name="a", controller=True),)))
    for each in uses:
        store.put_pod(each)

    assert store.standing(store.get(KEY)) is standing
    assert store.is_allocatable(KEY) is (standing is Standing.GATED)
    assert not store.waiting()


@pytest.mark.parametrize(
    ("scope", "alone", "held"),
    [
        (ClaimScope.STANDALONE, Standing.OURS, Standing.POD),
        (ClaimScope.GATED, Standing.STANDALONE, Standing.GATED),
        (ClaimScope.ALL, Standing.OURS, Standing.GATED),
    ],
)
def test_scope_says_which_claims_are_ours(scope, alone, held):
    """Those that no pod names, those that only gated pods name, or both."""
    store = ClaimStore(scope)
    store.put(claim())
    before = store.standing(store.get(KEY))
    changed = store.put_pod(use("a"))

    assert (before, store.standing(store.get(KEY))) == (alone, held)
    assert changed == {KEY}


def test_claim_reserved_for_another_than_its_gated_pods_is_not_ours():
    """A reservation for a gated pod was made by an operator; one for an earlier pod of its name was not."""
    store = ClaimStore(ClaimScope.GATED)
    store.put(claim(status=RESERVED))
    found = []
    for each in (use("a"), replace(use("p"), uid="0"), replace(use("p"), uid="1")):
        changed = store.put_pod(each)
        found.append((KEY in changed, store.standing(store.get(KEY))))

    assert found == [(True, Standing.RESERVED), (True, Standing.RESERVED), (True, Standing.GATED)]
