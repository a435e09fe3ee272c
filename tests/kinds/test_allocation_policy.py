"""AllocationPolicy: the plan keeps a rule for each entry, and gives it back with the last policy that names it."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from dra_operator.api.convert import apply_defaults
from dra_operator.api.names import OWNED_FINALIZER, POLICY_FINALIZER
from dra_operator.api.read import read_object
from dra_operator.inventory.ownership import RuleStatus
from dra_operator.kinds.allocation_policy import (
    Hits,
    Policy,
    Rule,
    find_kept,
    plan,
    plan_sweep,
    read_policy,
    read_rule,
)
from dra_operator.kinds.changes import Create, Delete, Patch, complete_conditions
from dra_operator.kinds.policy_controller import find_hits
from dra_operator.kinds.selector import Selector
from factories import allocation, claim, request, resource_slice, result
from kinds.states import build_state

GPU = Selector("gpu.example.com")
POOL = Selector("gpu.example.com", "node-1")
OTHER = Selector("nic.example.com")
SETTLED = RuleStatus(is_settled=True, is_fenced=True)
V1 = "resource.k8s.io/v1"


def policy(name="a", *selectors, **fields):
    """A policy."""
    return Policy(name, f"uid-{name}", 1, selectors, **fields)


def rule(selector=GPU, *owners, **fields):
    """A rule that belongs to some policies."""
    references = tuple({"kind": "AllocationPolicy", "name": each, "uid": f"uid-{each}"} for each in owners)
    uids = frozenset(each["uid"] for each in references)
    made = Rule(
        selector.rule_name,
        "rule",
        "7",
        selector,
        uids,
        references,
        (POLICY_FINALIZER,),
        False,
        SETTLED,
    )
    return replace(made, **fields)


def read(body):
    """An object as the operator has it."""
    return apply_defaults(read_object(body))


def planned(own, *rules, others=(), holders=()):
    """The plan, where claims hold devices of each selector."""
    return plan(own, others, rules, lambda _: Hits(4, len(holders), holders), V1)


def condition(found, name):
    """Status and message of a condition."""
    (each,) = [each for each in found.status["conditions"] if each["type"] == name]
    return each["status"], each["message"]


def test_rule_is_made_for_each_entry():
    """It owns the devices, belongs to the policy, and has the finalizer before anything is decided there."""
    found = planned(policy("a", GPU, POOL))

    assert [type(each) for each in found.changes] == [Create, Create]
    metadata = found.changes[0].body["metadata"]
    assert metadata["finalizers"] == [POLICY_FINALIZER]
    assert [each["uid"] for each in metadata["ownerReferences"]] == ["uid-a"]
    assert condition(found, "Settled")[0] == "False"
    assert condition(found, "Fenced")[0] == "Unknown"


def test_rule_that_owns_the_same_devices_is_adopted():
    """Be it made by hand or by another policy: there is one rule for a selector."""
    found = planned(policy("a", GPU), rule(GPU, "b", finalizers=()), others=[policy("b", GPU)])

    (patch,) = found.changes
    assert [each["uid"] for each in patch.body["metadata"]["ownerReferences"]] == ["uid-b", "uid-a"]
    assert patch.body["metadata"]["finalizers"] == [POLICY_FINALIZER]
    assert (patch.uid, patch.version) == ("rule", "7")
    status, text = condition(found, "Overlapping")
    assert status == "True"
    assert "policy b names some of these devices" in text


def test_settled_rules_need_nothing():
    """What is as it should be is not written again."""
    found = planned(policy("a", GPU), rule(GPU, "a"))

    assert found.changes == ()
    assert condition(found, "Settled") == ("True", "the operator allocates these devices")
    assert condition(found, "Fenced")[0] == "True"


@pytest.mark.parametrize(
    ("is_fenced", "status"),
    [(True, "True"), (False, "False"), (None, "Unknown")],
    ids=["yes", "no", "unknown"],
)
def test_fenced_is_what_the_operator_knows_now(is_fenced, status):
    """Whatever was so when the rule settled; the message has the operator's reason."""
    known = RuleStatus(is_settled=True, is_fenced=is_fenced, why="the policy is not installed")
    found = planned(policy("a", GPU), rule(GPU, "a", status=known))

    assert condition(found, "Settled")[0] == "True"
    assert condition(found, "Fenced")[0] == status
    assert ("the policy is not installed" in condition(found, "Fenced")[1]) is (not is_fenced)


@pytest.mark.parametrize(
    ("fields", "holders", "gives_back", "changes"),
    [
        ({}, [], False, [Delete]),
        ({}, [("team", "c")], False, [Delete]),
        ({"is_deleted": True}, [("team", "c")], False, []),
        ({"is_deleted": True}, [], False, [Patch]),
        ({}, [("team", "c")], True, [Delete, Patch]),
        ({"is_deleted": True, "finalizers": ()}, [], False, []),
        ({"is_deleted": True, "finalizers": (POLICY_FINALIZER, OWNED_FINALIZER)}, [], False, []),
    ],
    ids=[
        "nobody",
        "deleted first",
        "claims hold it",
        "claims ended",
        "in use",
        "others hold it",
        "being decided on",
    ],
)
def test_rule_is_given_back_when_no_claim_holds_its_devices(fields, holders, gives_back, changes):
    """It is deleted, which ends new decisions, and our finalizer goes with the last claim, or at once on demand."""
    found = planned(policy("a", gives_back_in_use=gives_back), rule(GPU, "a", **fields), holders=holders)

    assert [type(each) for each in found.changes] == changes
    assert not found.is_released
    status, text = condition(found, "Releasing")
    assert status == "True"
    assert ("team/c" in text) is bool(holders)


@pytest.mark.parametrize("owners", [("a", "b"), ("a",)], ids=["taken over", "not yet"])
def test_rule_stays_with_another_policy_that_names_it(owners):
    """Only the reference of the first one goes, also if the other has not taken the rule over yet."""
    found = planned(policy("a"), rule(GPU, *owners), others=[policy("b", GPU)])

    (patch,) = found.changes
    assert [each["uid"] for each in patch.body["metadata"]["ownerReferences"]] == ["uid-b"]
    assert found.is_released


def test_rule_that_was_deleted_by_hand_is_made_anew_once_it_is_gone():
    """Until then it is told, and held while claims have its devices."""
    gone = rule(GPU, "a", is_deleted=True)

    assert planned(policy("a", GPU), gone, holders=[("team", "c")]).changes == ()
    assert [type(each) for each in planned(policy("a", GPU), gone).changes] == [Patch]
    assert [type(each) for each in planned(policy("a", GPU)).changes] == [Create]


def test_devices_that_another_rule_keeps_hold_nothing_back():
    """Of two that overlap, the one that goes waits for the claims on devices that it alone owns."""
    wide, narrow = rule(GPU, "a"), rule(POOL, "b")

    assert find_kept(GPU, policy("a"), [wide, narrow]) == (POOL,)
    assert find_kept(POOL, policy("b"), [wide, narrow]) == (GPU,)
    assert find_kept(GPU, policy("a"), [wide, replace(narrow, status=RuleStatus())]) == ()
    assert find_kept(GPU, policy("a", GPU), [wide, narrow]) == ()


def test_hits_are_devices_and_their_holders():
    """Those that a selector names, in its pools; those that others keep have no holders."""
    state = build_state()
    for name, pool in (("first", "node-1"), ("second", "node-2")):
        devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
        state.inventory.put(read(resource_slice(f"s-{pool}", devices, driver="gpu.example.com", pool=pool)))
        status = {"allocation": allocation(result("gpu-0", pool, driver="gpu.example.com"))}
        state.ledger.put(read(claim(name, request("gpu"), status=status, namespace="team")))
    first, second = ("team", "first"), ("team", "second")

    assert find_hits(state, GPU) == Hits(4, 2, [first, second], [])
    assert find_hits(state, GPU, (POOL,)) == Hits(4, 1, [second], [])
    assert find_hits(state, POOL) == Hits(2, 1, [first], [])
    assert find_hits(state, Selector("gpu.example.com", device="gpu-1")) == Hits(2, 0, [], [])
    assert find_hits(state, OTHER) == Hits(0, 0, [], [])


@pytest.mark.parametrize(
    ("hits", "said"),
    [
        (Hits(4), "4 devices"),
        (Hits(4, 1, [("t", "c")]), "1 of 4 devices are held by claims t/c"),
        (
            Hits(9, 7, [("t", str(n)) for n in range(7)]),
            "7 of 9 devices are held by claims t/0, t/1, t/2, t/3, t/4 and 2 others",
        ),
        (Hits(0), "0 devices; driver gpu.example.com names no published device"),
        (
            Hits(2, half_owned=["n/a"]),
            "2 devices; n/a draw on counters with devices that are not owned, so the operator uses none of them",
        ),
    ],
)
def test_status_says_what_the_rules_hit(hits, said):
    """With the first names, and how many more there are; and so does the Event of their creation."""
    found = plan(policy("a", GPU), [], [], lambda _: hits, V1)

    assert found.status["hits"] == said
    (event,) = found.events
    assert (event.is_warning, event.reason) == (False, "Owning")
    assert said in event.message


def test_what_becomes_otherwise_is_an_event_once():
    """Of conditions when they change, and of rules that are gone."""
    fence = RuleStatus(is_settled=True, is_fenced=False, why="it is not installed")
    own, other = policy("a", GPU), policy("b", GPU)
    settled = planned(own, rule(GPU, "a", status=fence), others=[other])
    again = planned(replace(own, told=settled.status), rule(GPU, "a", status=fence), others=[other])
    releasing = planned(policy("a", told=settled.status), rule(GPU, "a"), holders=[("team", "c")])
    gone = planned(policy("a", told=releasing.status))

    assert [(each.is_warning, each.reason) for each in settled.events] == [
        (True, "NotFenced"),
        (False, "Settled"),
        (True, "Overlapping"),
    ]
    assert again.events == ()
    assert [(each.is_warning, each.reason) for each in releasing.events] == [(False, "Releasing")]
    assert [(each.is_warning, each.reason) for each in gone.events] == [(False, "GivenBack")]


@pytest.mark.parametrize(
    ("fields", "holders", "is_swept"),
    [
        ({}, [("team", "c")], True),
        ({"is_deleted": True}, [("team", "c")], False),
        ({"is_deleted": True}, [], True),
        ({"is_deleted": True, "finalizers": (POLICY_FINALIZER, OWNED_FINALIZER)}, [], False),
        ({"finalizers": ()}, [], False),
        ({"owners": frozenset({"uid-b"})}, [], False),
    ],
    ids=["orphan", "claims hold it", "claims ended", "being decided on", "not ours", "of another policy"],
)
def test_finalizer_goes_from_rules_that_no_policy_owns(fields, holders, is_swept):
    """As after `--cascade=orphan`; one that is deleted waits for its claims all the same."""
    swept = [*plan_sweep([rule(GPU, **fields)], {"uid-b"}, lambda _: Hits(1, 1, holders))]

    assert bool(swept) is is_swept
    assert all(POLICY_FINALIZER not in each.body["metadata"]["finalizers"] for each in swept)


@pytest.mark.parametrize(
    "spec", [{"taint": {"value": "x"}}, {"taint": {"key": "example.com/x"}}, {"deviceSelector": None}]
)
def test_rule_that_somebody_edited_is_deleted_and_made_anew(spec):
    """It owns nothing any more: it goes with our finalizer, whatever claims hold, and another takes its place."""
    body = GPU.rule(V1)
    body["metadata"] |= {
        "uid": "rule",
        "resourceVersion": "7",
        "finalizers": [POLICY_FINALIZER],
        "ownerReferences": [{"kind": "AllocationPolicy", "uid": "uid-a"}],
    }
    body["spec"] |= {
        name: {**body["spec"][name], **change} if change else None for name, change in spec.items()
    }
    edited = read_rule(read(body), body)

    assert [type(each) for each in planned(policy("a", GPU), edited).changes] == [Create, Delete]
    deleted = replace(edited, is_deleted=True)
    assert [type(each) for each in planned(policy("a", GPU), deleted).changes] == [Create, Patch]
    assert [*plan_sweep([deleted], set(), lambda _: Hits())]


def test_foreign_rules_are_left_alone():
    """Those of other policies and those that were made by hand."""
    assert planned(policy("a", OTHER), rule(GPU), rule(POOL, "b")).changes[1:] == ()


def test_condition_keeps_its_time_while_it_stays():
    """Only a change of status has a new time."""
    first = complete_conditions(planned(policy("a", GPU)).status, (), "t1")
    second = complete_conditions(planned(policy("a", GPU), rule(GPU, "a")).status, first["conditions"], "t2")

    times = {each["type"]: each["lastTransitionTime"] for each in second["conditions"]}
    assert times == {"Settled": "t2", "Fenced": "t2", "Overlapping": "t1", "Releasing": "t1"}


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([], "devices"),
        ([{"pool": "x"}], "driver"),
        ([{"driver": ""}], "driver"),
        ([{"driver": "d", "x": 1}], "x"),
    ],
)
def test_spec_that_the_schema_refuses_is_refused_here_too(devices, said):
    """Should it come all the same, the field is named."""
    body = {"metadata": {"name": "a", "uid": "u"}, "spec": {"devices": devices}}

    with pytest.raises(ValidationError, match=said):
        read_policy(body)


def test_policy_that_is_being_deleted_names_nothing_whatever_its_spec():
    """A spec that nobody can read must not keep its rules for ever."""
    metadata = {"name": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert read_policy({"metadata": metadata, "spec": {}}).selectors == ()
