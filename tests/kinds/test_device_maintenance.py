"""DeviceMaintenance: the plan keeps a taint on the cards that were begun, and evicts what goes with its claim."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.kinds.changes import Create, Delete
from dra_operator.kinds.device_maintenance import read_maintenance
from dra_operator.kinds.maintenance_cards import Card, find_cards, read_holder
from dra_operator.kinds.maintenance_plan import Quiet, build_result, name_rule, plan, read_rule
from dra_operator.kinds.selector import DeviceKey
from dra_operator.ledger import Ledger
from factories import allocation, claim, request, resource_slice, result
from kinds.states import build_state

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
QUIET, FENCED = timedelta(seconds=120), timedelta(seconds=30)
DRIVER, POOL = "gpu.example.com", "node-1"
NAME = f"{DRIVER}/{POOL}"
DEVICES = {"driver": DRIVER, "pool": POOL}
UID = "uid-dm"


def at(seconds):
    """A moment so many seconds ago, as on the wire."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def maintenance(*cards, name="dm", uid=UID, deleted=False, age=9000, **spec):
    """A maintenance of all devices of the pool, with what its status says of cards."""
    metadata = {"name": name, "uid": uid, "generation": 3, "creationTimestamp": at(age)}
    if deleted:
        metadata["deletionTimestamp"] = at(0)
    spec = {"devices": [DEVICES], **spec}
    return read_maintenance({"metadata": metadata, "spec": spec, "status": {"cards": list(cards)}})


def entry(name, phase, since=1000, **fields):
    """What a status says of a card of one device."""
    return {"name": f"{NAME}/{name}", "phase": phase, "since": at(since), "devices": [name], **fields}


def key(name):
    """A device of the pool."""
    return DeviceKey(DRIVER, POOL, name)


def card(name, *claims, **fields):
    """A card of one device, which claims hold."""
    return Card(f"{NAME}/{name}", (key(name),), claims=tuple(("ns", each) for each in claims), **fields)


def rule(name, age=1000, uid=UID, **fields):
    """The rule of a device, as on the wire, and read."""
    body = {
        "metadata": {
            "name": name_rule(uid, key(name)),
            "uid": f"rule-{name}",
            "creationTimestamp": at(age),
            "ownerReferences": [{"uid": uid}],
        },
        "spec": {
            "deviceSelector": {**DEVICES, "device": name},
            "taint": {"key": "dra-operator.io/maintenance", "effect": "NoSchedule"},
            **fields,
        },
    }
    return read_rule(body, uid)


def pod(name="p", owner="", **metadata):
    """A pod, as on the wire."""
    owners = [{"kind": owner, "uid": "uid-owner", "controller": True}] if owner else []
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": f"uid-{name}",
            "ownerReferences": owners,
            **metadata,
        }
    }


def held(name="c", *, device="a", users=("p",), made_for="p", tolerations=()):
    """A claim that holds a device, made for a pod and reserved for pods."""
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": made_for, "uid": f"uid-{made_for}", "controller": True}
    ]
    body = claim(name, request(), namespace="ns")
    body["metadata"]["ownerReferences"] = owners if made_for else []
    got = {"driver": DRIVER, "pool": POOL, "device": device, "request": "r", "tolerations": list(tolerations)}
    body["status"] = {
        "allocation": {"devices": {"results": [got]}},
        "reservedFor": [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in users],
    }
    return read_object(body)


def planned(own, *cards, rules=(), others=(), holders=None, quiet=None, misfit=""):
    """The plan, and what comes of it."""
    found = plan(
        own,
        others,
        cards,
        rules=rules,
        holders=holders or {},
        now=NOW,
        quiet=quiet or Quiet(QUIET, FENCED),
        misfit=misfit,
        api_version="resource.k8s.io/v1",
    )
    return found, build_result(found, {}, []).status


def condition(status, name):
    """Status and message of a condition."""
    (each,) = [each for each in status["conditions"] if each["type"] == name]
    return each["status"], each["message"]


def phases(status):
    """The phases of cards, by the names of their first devices."""
    return {each["name"].rpartition("/")[2]: each["phase"] for each in status["cards"]}


@pytest.mark.parametrize(
    ("before", "rules", "claims", "finished", "phase"),
    [
        (None, [], [], [], "Tainted"),
        ("Waiting", [], ["c"], [], "Tainted"),
        ("Tainted", [rule("a")], ["c"], [], "Tainted"),
        ("Tainted", [rule("a")], [], [], "Drained"),
        (None, [rule("a")], [], [], "Drained"),
        ("Drained", [rule("a")], [], [], "Safe"),
        ("Drained", [rule("a", age=100)], [], [], "Drained"),
        ("Safe", [rule("a")], [], [], "Safe"),
        ("Safe", [rule("a", age=100)], [], [], "Drained"),
        ("Safe", [rule("a")], ["c"], [], "Tainted"),
        ("Safe", [], [], [], "Tainted"),
        ("Safe", [rule("a")], [], ["all"], "Finished"),
        ("Tainted", [rule("a")], ["c"], [f"{NAME}/a"], "Finished"),
        ("Finished", [], [], ["all"], "Returned"),
        ("Returned", [], ["c"], ["all"], "Returned"),
        ("Waiting", [], [], ["all"], "Returned"),
        ("Returned", [], [], [], "Tainted"),
    ],
)
def test_card_has_a_phase_for_what_is_there(before, rules, claims, finished, phase):
    """From the rule to the return, by what the status said last, by rules and by claims."""
    cards = [entry("a", before)] if before else []
    found, status = planned(maintenance(*cards, finished=finished), card("a", *claims), rules=rules)

    assert phases(status) == {"a": phase}
    is_begun = phase in ("Tainted", "Drained", "Safe")
    assert [type(each) for each in found.changes] == [
        *([Create] if is_begun and not rules else []),
        *([Delete] if rules and not is_begun else []),
    ]
    assert condition(status, "SafeToWork")[0] == str(phase == "Safe")


def test_time_without_a_claim_is_counted_without_a_break():
    """A claim that is gone before the time is over has it begin anew."""
    found, status = planned(maintenance(entry("a", "Drained", since=119)), card("a"), rules=[rule("a")])
    assert phases(status) == {"a": "Drained"}
    assert "if it stays so" in status["cards"][0]["message"]

    found, status = planned(maintenance(entry("a", "Drained", since=119)), card("a", "c"), rules=[rule("a")])
    assert status["cards"][0]["since"] == at(0)
    assert found.events == []


@pytest.mark.parametrize(
    ("tainted", "free", "fenced", "phase"),
    [
        (1000, 100, None, "Drained"),
        (1000, 130, None, "Safe"),
        (1000, 40, 40, "Safe"),
        (40, 1000, 40, "Safe"),
        (1000, 1000, 20, "Safe"),
        (100, 100, 20, "Drained"),
        (100, 20, 100, "Drained"),
    ],
)
def test_card_is_safe_earlier_where_its_allocation_is_refused(tainted, free, fenced, phase):
    """30 s after that is known, the taint and the last claim; otherwise after 120 s without the former."""
    fences = {} if fenced is None else {"rule-a": NOW - timedelta(seconds=fenced)}
    own = maintenance(entry("a", "Drained", since=free))
    for card_, rules in (
        (card("a"), [rule("a", tainted)]),
        (replace(card("a"), devices=(key("a"), key("b"))), [rule("a", tainted), rule("b", tainted)]),
    ):
        _, status = planned(own, card_, rules=rules, quiet=Quiet(QUIET, FENCED, fences))
        is_late = len(rules) == 2 and min(free, tainted) < QUIET.seconds
        assert phases(status) == {"a": "Drained" if is_late else phase}

    safe = maintenance(entry("a", "Safe", since=5))
    _, status = planned(safe, card("a"), rules=[rule("a", 50)], quiet=Quiet(QUIET, FENCED))
    assert phases(status) == {"a": "Safe"}


def test_next_card_waits_until_what_must_fit_does():
    """One card is begun at a time, so that it can be asked what would fit without it; those begun stay so."""
    demand = {"namespace": "ns", "resourceClaimTemplateName": "t"}
    own = maintenance(entry("a", "Safe"), maxUnavailable=3, mustStillFit=[demand])
    cards, rules = [card(each) for each in "abc"], [rule("a")]

    found, _ = planned(own, *cards, rules=rules)
    assert (found.beginning, [*found.begun]) == ([f"{NAME}/b"], [key("a"), key("b")])

    found, status = planned(own, *cards, rules=rules, misfit="ns/t: 0 of 1 copies would fit: why")
    assert phases(status) == {"a": "Safe", "b": "Waiting", "c": "Waiting"}
    assert not found.changes
    assert condition(status, "Blocked") == (
        "True",
        "spec.mustStillFit: ns/t: 0 of 1 copies would fit: why",
    )


def test_allocation_of_a_safe_card_is_told():
    """It is no longer safe, and an Event and a count say that somebody works on what is in use."""
    found, status = planned(maintenance(entry("a", "Safe")), card("a", "c"), rules=[rule("a")])

    assert condition(status, "SafeToWork") == ("False", f"{NAME}/a is Tainted")
    (told,) = found.events
    assert told.is_warning
    assert told.reason == "AllocatedInMaintenance"
    assert "ns/c" in told.message


def test_at_most_so_many_are_begun_in_the_order_of_names():
    """Those that are begun, or finished and not back, make others wait."""
    own = maintenance(entry("b", "Safe"), entry("c", "Finished"), maxUnavailable=3, finished=[f"{NAME}/c"])
    lost = card("c", is_published=False)
    found, status = planned(own, card("d"), lost, card("b"), card("a"), rules=[rule("b")])

    assert phases(status) == {"a": "Tainted", "b": "Safe", "c": "Finished", "d": "Waiting"}
    assert [each.body["spec"]["deviceSelector"]["device"] for each in found.changes] == ["a"]
    assert "nobody publishes it" in status["cards"][2]["message"]
    assert status["summary"] == "1 Tainted, 1 Safe, 1 Finished, 1 Waiting"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"is_published": False}, "nobody publishes it"),
        ({"taints": ("x:NoExecute",)}, "the taint x:NoExecute"),
    ],
)
def test_card_that_is_not_usable_is_not_returned(fields, said):
    """It says what is missing, and returns once that is there."""
    own = maintenance(entry("a", "Finished"), finished=["all"])

    assert said in planned(own, card("a", **fields))[1]["cards"][0]["message"]
    assert phases(planned(own, card("a"))[1]) == {"a": "Returned"}


@pytest.mark.parametrize(
    ("age", "theirs", "mine", "is_blocked"),
    [
        (9999, [], [], True),
        (9999, ["Waiting"], ["Safe"], True),
        (9999, ["Returned"], [], False),
        (1, [], [], False),
        (1, ["Safe"], [], True),
        (1, ["Safe"], ["Tainted"], False),
    ],
    ids=["older", "older with ours begun", "older is done", "younger", "younger began", "both began"],
)
def test_one_of_two_maintenances_works_on_a_device(age, theirs, mine, is_blocked):
    """The older one, unless the younger alone has begun; the other is blocked, and keeps no taint."""
    other = maintenance(*[entry("a", each) for each in theirs], name="other", uid="uid-other", age=age)
    own = maintenance(*[entry("a", each) for each in mine], age=5000)
    found, status = planned(own, card("a"), others=[other], rules=[rule("a")] if mine else [])

    state, text = condition(status, "Blocked")
    assert state == str(is_blocked)
    assert ("maintenance other" in text) is is_blocked
    changes = [Delete] if is_blocked and mine else [Create] if not (is_blocked or mine) else []
    assert [type(each) for each in found.changes] == changes


@pytest.mark.parametrize(
    "edited",
    [
        {"taint": {"key": "dra-operator.io/maintenance", "effect": "None"}},
        {"deviceSelector": {"driver": DRIVER}},
        None,
    ],
    ids=["its taint", "its selector", "deleted"],
)
def test_rule_that_was_edited_or_deleted_is_restored(edited):
    """What was edited is deleted, and made anew once it is gone; an Event says so."""
    own = maintenance(entry("a", "Safe"))
    found, status = planned(own, card("a"), rules=[rule("a", **edited)] if edited else [])

    assert [type(each) for each in found.changes] == [Delete if edited else Create]
    assert [each.reason for each in found.events] == ["RuleRestored"]
    assert phases(status) == {"a": "Tainted"}


def test_maintenance_that_is_deleted_takes_its_rules_off():
    """It goes once the last one is gone."""
    own = maintenance(entry("a", "Safe"), deleted=True)
    found, _ = planned(own, rules=[rule("a")])
    assert [type(each) for each in found.changes] == [Delete]
    assert not found.is_released
    assert planned(own)[0].is_released


@pytest.mark.parametrize(
    ("made", "found_pod", "fate"),
    [
        (held(), pod(), "being evicted"),
        (held(), pod(owner="ReplicaSet"), "being evicted"),
        (held(users=("p", "q")), pod(), "left to people"),
        (held(made_for=""), pod(), "left to people"),
        (held(made_for="q"), pod(), "left to people"),
        (held(users=()), None, "that nobody uses"),
        (held(), pod(owner="DaemonSet"), "of a DaemonSet"),
        (held(), pod(deletionTimestamp=at(1)), "is ending"),
        (held(), pod() | {"status": {"phase": "Succeeded"}}, "has ended"),
        (held(), pod(uid="another"), "is gone"),
        (held(), None, "is gone"),
        (held(tolerations=[{"operator": "Exists"}]), pod(), "tolerates dra-operator.io/maintenance"),
    ],
)
def test_only_pods_are_evicted_whose_claim_goes_with_them(made, found_pod, fate):
    """All else is named, with the reason why it stays."""
    own = maintenance(entry("a", "Tainted"), drain="Evict")
    holder = read_holder(made, found_pod)
    found, status = planned(own, card("a", "c"), rules=[rule("a")], holders={("ns", "c"): holder})

    assert [each.pod.uid for each in found.evicted.values()] == (["uid-p"] if fate == "being evicted" else [])
    state, text = condition(status, "Drained")
    assert state == "False"
    assert "ns/c" in text
    assert fate in text


@pytest.mark.parametrize(
    ("spec", "age", "evicted", "count"),
    [
        ({"drain": "Evict"}, 301, [], 1),
        ({"drain": "Evict"}, 299, [], 0),
        ({"drain": "Evict", "evictAfterSeconds": 0}, 1, [], 1),
        ({"drain": "Wait"}, 301, [], 0),
        ({"drain": "Evict"}, 301, ["a uid-owner"], 0),
        ({"drain": "Evict"}, 301, ["b uid-owner"], 1),
    ],
)
def test_pods_are_evicted_when_it_is_time_and_once_for_each_owner_and_device(spec, age, evicted, count):
    """The status says until when they may stay, and what was evicted before."""
    own = maintenance(entry("a", "Tainted", evicted=evicted), **spec)
    holder = read_holder(held(), pod(owner="ReplicaSet"))
    found, _ = planned(own, card("a", "c"), rules=[rule("a", age=age)], holders={("ns", "c"): holder})

    assert len(found.evicted) == count
    told = build_result(found, dict.fromkeys(found.evicted.values(), ""), [])
    assert told.status["cards"][0].get("evicted", []) == [*evicted, *["a uid-owner"] * count]
    refused = build_result(found, dict.fromkeys(found.evicted.values(), "the budget"), [])
    assert ("eviction of p refused: the budget" in condition(refused.status, "Drained")[1]) is bool(count)
    assert refused.status["cards"][0].get("evicted", []) == evicted


def test_what_does_not_exist_is_named():
    """Devices that nobody publishes, and finished ones that are none of these; the others go on."""
    own = maintenance(
        devices=[DEVICES, {"node": "node-9"}, {**DEVICES, "device": "z"}], finished=[f"{NAME}/y"]
    )
    state, text = condition(planned(own, card("a"))[1], "Resolved")

    assert state == "False"
    for said in ("node node-9", "device z", f"spec.finished: {NAME}/y"):
        assert said in text


# --- cards


def state(*devices, holds=(), admin=False):
    """The state, with one slice of devices, some of which a claim holds."""
    inventory, ledger = Inventory(), Ledger()
    inventory.put(read_object(resource_slice("s", devices)))
    body = claim("c", request(), namespace="ns")
    results = [result(each) | {"adminAccess": admin} for each in holds]
    body["status"] = {"allocation": allocation(*results)}
    made = read_object(body)
    ledger.put(made)
    return build_state(inventory, ledger, find_claim=lambda _: made)


def part(name, *sets):
    """A device that draws on counter sets."""
    uses = [{"counterSet": each, "counters": {"x": {"value": "1"}}} for each in sets]
    return {"name": name, "consumesCounters": uses}


PARTS = (
    part("all", "g0", "g1"),
    part("g0-a", "g0"),
    part("g1-a", "g1"),
    part("g1-b", "g1"),
    {"name": "plain"},
)


@pytest.mark.parametrize(
    ("devices", "cards"),
    [
        ({**DEVICES, "device": "g1-b"}, {"g1": ["all", "g1-a", "g1-b"]}),
        ({**DEVICES, "device": "plain"}, {"plain": ["plain"]}),
        ({**DEVICES, "device": "all"}, {"g0": ["all", "g0-a"], "g1": ["all", "g1-a", "g1-b"]}),
        ({"node": POOL}, {"g0": ["all", "g0-a"], "g1": ["all", "g1-a", "g1-b"], "plain": ["plain"]}),
        ({"node": "other"}, {}),
        ({"driver": DRIVER, "pool": "other"}, {}),
    ],
)
def test_device_stands_for_all_that_draw_on_its_counter_set(devices, cards):
    """They are one card; one that draws on several belongs to each."""
    found, _ = find_cards(maintenance(devices=[devices]), state(*PARTS))

    assert {each.name.rpartition("/")[2]: [key.name for key in each.devices] for each in found} == cards


@pytest.mark.parametrize("admin", [False, True])
def test_admin_access_does_not_hold_a_device(admin):
    """As it takes nothing away from anybody."""
    found, _ = find_cards(maintenance(), state({"name": "a"}, holds=["a"], admin=admin))

    assert found[0].claims == (() if admin else (("ns", "c"),))


def test_card_that_was_begun_is_known_although_nobody_publishes_it():
    """Its rule stays, and so does what holds a partition that is gone."""
    own = maintenance(
        entry("gone", "Safe"), entry("g1", "Tainted") | {"devices": ["g1-old"]}, entry("x", "Waiting")
    )
    found, claims = find_cards(own, state(part("g1-a", "g1"), holds=["g1-old"]))

    assert [(each.name.rpartition("/")[2], each.is_published) for each in found] == [
        ("g1", True),
        ("gone", False),
    ]
    assert [key.name for key in found[0].devices] == ["g1-a", "g1-old"]
    assert list(claims) == [("ns", "c")]


def test_taints_of_others_are_seen():
    """A device with the driver's own taint is not back in service; ours do not count."""
    taints = [{"key": "x", "effect": each} for each in ("NoExecute", "None")]
    ours = {"key": "dra-operator.io/owned", "effect": "NoSchedule"}
    (found,), _ = find_cards(maintenance(), state({"name": "a"} | {"taints": [*taints, ours]}))

    assert found.taints == ("x:NoExecute",)
    assert replace(found, taints=()) == card("a", node=POOL)
