"""DeviceReservation: the plan keeps a claim for each copy, holds it by an entry of its own, and lets go at the end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from dra_operator.api.names import TEMPLATE_ANNOTATION
from dra_operator.api.read import read_object
from dra_operator.kinds.changes import Create, Delete, Patch
from dra_operator.kinds.device_reservation import (
    PHASES,
    Copy,
    ReservationSpec,
    Template,
    plan,
    plan_sweep,
    read_reservation,
    read_template,
)
from factories import allocation, claim, request, result

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 12, 1, tzinfo=UTC)
UID = "uid-dr"
ENTRY = {"apiGroup": "dra-operator.io", "resource": "devicereservations", "name": "dr", "uid": UID}
TEMPLATE = Template("uid-template", {"labels": {"team": "a"}}, {"devices": {"requests": [request()]}})


def reservation(*, deleted=False, **spec):
    """A reservation that was made an hour ago."""
    created = (NOW - timedelta(hours=1)).isoformat()
    metadata = {"namespace": "ns", "name": "dr", "uid": UID, "generation": 3, "creationTimestamp": created}
    if deleted:
        metadata["deletionTimestamp"] = NOW.isoformat()
    return read_reservation(
        {"metadata": metadata, "spec": {"resourceClaimTemplateName": "gpu", "copies": 2, **spec}}
    )


def pod_entry(name):
    """The entry of a pod."""
    return {"resource": "pods", "name": name, "uid": f"uid-{name}"}


def owner(uid=UID):
    """The reference to a reservation."""
    return {
        "apiVersion": "dra-operator.io/v1alpha1", "kind": "DeviceReservation", "name": "dr",
        "uid": uid, "controller": True,
    }  # fmt: skip


def copy(index, *users, held=True, allocated=True, deleted=False, of=UID, template="uid-template", **facts):
    """The claim of a copy."""
    entries = [*([ENTRY] if held and allocated else []), *map(pod_entry, users)]
    status = {"allocation": allocation(result(f"gpu-{index}")), "reservedFor": entries} if allocated else {}
    metadata = {"namespace": "ns", "uid": f"uid-{index}", "resourceVersion": f"{index}"}
    if of:
        metadata["ownerReferences"] = [owner(of)]
    metadata["annotations"] = {TEMPLATE_ANNOTATION: template}
    if deleted:
        metadata["deletionTimestamp"] = NOW.isoformat()
    return Copy(read_object(claim(f"dr-{index}", status=status, **metadata)), **facts)


def planned(own, *copies, template=TEMPLATE):
    """The plan."""
    return plan(own, template, copies, NOW, "resource.k8s.io/v1")


def names(found, kind):
    """The names of the claims that are changed in a way."""
    return [each.name for each in found.changes if isinstance(each, kind)]


def states(found):
    """The state of each copy, by its number."""
    return {int(each["name"][3:]): each["state"] for each in found.status["copies"]}


def condition(found, name):
    """Status, reason and message of a condition."""
    (each,) = [each for each in found.status["conditions"] if each["type"] == name]
    return each["status"], each["reason"], each["message"]


def test_claim_is_made_for_each_copy():
    """Of the template, with what it gives claims, managed by the reservation."""
    found = planned(reservation(), copy(0))

    (made,) = found.changes
    metadata = made.body["metadata"]
    assert isinstance(made, Create)
    assert (metadata["name"], metadata["namespace"], metadata["labels"]) == ("dr-1", "ns", {"team": "a"})
    assert metadata["annotations"] == {TEMPLATE_ANNOTATION: "uid-template"}
    assert metadata["ownerReferences"] == [owner()]
    assert made.body["spec"] == TEMPLATE.spec
    assert found.status["ready"] == "1/2"
    assert found.status["phase"] == "Pending"


def test_held_copies_need_nothing():
    """The status says what each has, where, and how many pods use it."""
    found = planned(reservation(), copy(0, "a", "b"), copy(1))

    assert found.changes == ()
    assert found.status["phase"] == "Ready"
    assert found.status["expires"] == "Never"
    assert found.status["copies"][0] == {
        "name": "dr-0",
        "state": "Ready",
        "devices": ["gpu.example.com/node-1/gpu-0"],
        "node": "node-1",
        "users": 2,
    }
    assert condition(found, "Ready")[:2] == ("True", "Ready")
    assert found.status["observedGeneration"] == 3


def test_claim_that_others_allocated_is_taken_as_it_is():
    """It gets the entry behind that of the pod, and is told as Foreign."""
    found = planned(reservation(copies=1), copy(0, "a", held=False))

    (patch,) = found.changes
    assert (patch.name, patch.uid, patch.version) == ("dr-0", "uid-0", "0")
    assert patch.body["status"] == {"reservedFor": [pod_entry("a"), ENTRY]}
    held = planned(reservation(copies=1), copy(0, "a", is_foreign=True))
    assert states(held) == {0: "Foreign"}
    assert held.status["ready"] == "1/1"
    assert condition(held, "Foreign")[0] == "True"


@pytest.mark.parametrize(
    ("copies", "used", "deleted"),
    [(3, {}, [3]), (2, {3: ["a"]}, [1, 2]), (1, {1: ["a"], 3: ["b"]}, [0, 2, 3]), (4, {}, [])],
)
def test_fewer_copies_let_the_highest_unused_ones_go(copies, used, deleted):
    """Those in use go last, and wait for their pods; of the others only what nobody begins to use meanwhile."""
    own = [copy(index, *used.get(index, ())) for index in range(4)]
    found = planned(reservation(copies=copies), *own)

    gone = [each for each in found.changes if isinstance(each, Delete)]
    assert [each.name for each in gone] == [f"dr-{index}" for index in deleted]
    assert [bool(each.version) for each in gone] == [index not in used for index in deleted]
    assert {index for index, state in states(found).items() if state == "Expiring"} == {*deleted}


@pytest.mark.parametrize(
    ("spec", "deleted", "phase"),
    [
        ({"ttlSeconds": 3600}, False, "Expiring"),
        ({"until": "2026-11-30T23:59:59Z"}, False, "Expiring"),
        ({}, True, "Expiring"),
        ({"ttlSeconds": 3601}, False, "Ready"),
        ({"until": "2026-12-01T00:00:01+00:00"}, False, "Ready"),
    ],
)
def test_claims_are_deleted_at_the_end(spec, deleted, phase):
    """All at once, used or not: no new pod can start on them."""
    found = planned(reservation(deleted=deleted, **spec), copy(0, "a"), copy(1))

    assert found.status["phase"] == phase
    assert names(found, Delete) == ([] if phase == "Ready" else ["dr-0", "dr-1"])
    assert not found.is_released


def test_entry_goes_when_it_alone_is_left():
    """What a pod still uses is kept for it, and the status says for whom."""
    own = reservation(ttlSeconds=1)
    found = planned(own, copy(0, "a", deleted=True), copy(1, deleted=True))

    (patch,) = found.changes
    assert (patch.name, patch.body["status"]) == ("dr-1", {"reservedFor": []})
    status, _, text = condition(found, "Expiring")
    assert (status, "once a has ended" in text) == ("True", True)
    over = planned(own)
    assert (over.status["phase"], over.changes) == ("Expired", ())
    assert condition(over, "Ready")[1] == "Expired"
    assert over.is_released


def test_end_is_shown_in_utc():
    """Whatever offset `until` is written with."""
    assert planned(reservation(until="2030-12-01T18:00:00+02:00")).status["expires"] == "2030-12-01T16:00:00Z"


def test_end_in_the_past_holds_nothing():
    """No claim is made, and the status says when it ended."""
    found = planned(reservation(until="2026-01-01T00:00:00Z"))

    assert found.changes == ()
    assert condition(found, "Ready")[1:] == (
        "Expired",
        "it ended at 2026-01-01T00:00:00Z: nothing is held any more but what pods still use",
    )


@pytest.mark.parametrize(
    ("if_lost", "facts", "users", "is_replaced"),
    [
        ("Wait", {}, [], False),
        ("Replace", {}, [], True),
        ("Replace", {}, ["a"], False),
        ("Replace", {"may_end": False}, [], False),
    ],
)
def test_lost_device_is_replaced_once_no_pod_uses_it(if_lost, facts, users, is_replaced):
    """Wait keeps the claim; either says Lost."""
    lost = copy(0, *users, lost="node n is gone", **facts)
    found = planned(reservation(copies=1, ifLost=if_lost), lost)

    assert states(found) == {0: "Lost"}
    assert found.status["ready"] == "0/1"
    assert [each.body["status"] for each in found.changes] == (
        [{"allocation": None, "reservedFor": None}] if is_replaced else []
    )
    assert "node n is gone" in condition(found, "Lost")[2]
    assert condition(found, "Ready")[1] == "Lost"


@pytest.mark.parametrize(
    ("copies", "template", "reason", "text"),
    [
        ((), None, "TemplateNotFound", 'no ResourceClaimTemplate "gpu"'),
        ((copy(0, of="other", held=False),), TEMPLATE, "NameTaken", "not of this reservation"),
        ((copy(0, of="other", held=False, deleted=True),), TEMPLATE, "NameTaken", "not touched"),
        ((copy(0, allocated=False, reason="DevicesInUse", text="all are"),), TEMPLATE, "DevicesInUse", "all are"),
        ((copy(0, *map(str, range(256)), held=False),), TEMPLATE, "InUseTooOften", "256 pods"),
        ((copy(0, deleted=True),), TEMPLATE, "Expiring", "being deleted"),
    ],
    ids=["template", "name", "name going", "waits", "full", "deleted by hand"],
)  # fmt: skip
def test_reason_of_a_copy_is_that_of_the_reservation(copies, template, reason, text):
    """What keeps the first copy is said of the whole, with what the allocator says; a foreign claim is not touched."""
    found = planned(reservation(copies=1), *copies, template=template)

    status, said, message = condition(found, "Ready")
    assert (status, said) == ("False", reason)
    assert text in message
    assert message.startswith("dr-0: ")
    assert not any(isinstance(each, Create | Delete) for each in found.changes)


def test_full_claim_says_so():
    """With the entry of the reservation 255 pods can use a claim."""
    found = planned(reservation(copies=1), copy(0, *map(str, range(255))))

    assert found.changes == ()
    assert found.status["copies"][0]["message"] == "no more pods can use it"


def test_template_made_anew_is_for_new_copies():
    """Those that are there stay, and that is said."""
    found = planned(reservation(copies=1), copy(0, template="before"))

    assert found.changes == ()
    assert condition(found, "TemplateChanged")[2].startswith("dr-0: the template was made anew")


def test_claim_without_its_owner_is_known_by_its_entry():
    """After a deletion with `--cascade=orphan` it is let go all the same."""
    own = reservation(deleted=True)
    found = planned(own, copy(0, of=None), copy(1, of=None, deleted=True))

    assert names(found, Delete) == ["dr-0"]
    assert names(found, Patch) == ["dr-1"]


def test_entries_of_reservations_that_are_gone_are_swept():
    """Those of pods stay, and so do those of a reservation that is there."""
    foreign = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "gone"}
    body = claim("c", status={"reservedFor": [ENTRY, pod_entry("p"), foreign]}, namespace="ns")

    assert [*plan_sweep([read_object(body)], {UID})] == []
    (patch,) = plan_sweep([read_object(body)], {"another"})
    left = patch.body["status"]["reservedFor"]
    assert [each["uid"] for each in left] == ["uid-p", "gone"]
    assert (patch.namespace, patch.name, patch.subresource) == ("ns", "c", "status")


def test_spec_of_one_that_is_deleted_does_not_matter():
    """A spec that nobody can read must not keep its claims for ever."""
    metadata = {"namespace": "ns", "name": "dr", "uid": UID, "deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert read_reservation({"metadata": metadata, "spec": {"copies": 0}}).is_deleted


def test_template_gives_labels_and_annotations():
    """What else its metadata has is its own."""
    body = {
        "metadata": {"uid": "t"},
        "spec": {"metadata": {"labels": {"a": "b"}, "name": "x"}, "spec": {"devices": {}}},
    }

    assert read_template(body) == Template("t", {"labels": {"a": "b"}}, {"devices": {}})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"copies": 0}, "copies"),
        ({"copies": 10_000}, "copies"),
        ({"ttlSeconds": 0}, "ttlSeconds"),
        ({"ttlSeconds": 1, "until": "2026-01-01T00:00:00Z"}, "exclude each other"),
        ({"until": "tomorrow"}, "until"),
        ({"until": "2026-01-01T00:00:00"}, "until"),
        ({"ifLost": "Run"}, "ifLost"),
        ({"resourceClaimTemplateName": ""}, "resourceClaimTemplateName"),
        ({"x": 1}, "x"),
    ],
)
def test_spec_that_the_schema_refuses_is_refused_here_too(spec, said):
    """Should it come all the same, the field is named."""
    with pytest.raises(ValidationError, match=said):
        reservation(**spec)


def test_copies_that_were_let_go_come_back():
    """Of a reservation that is extended after its end; a number that is still in use is waited for."""
    own = replace(reservation(), copies=2)
    found = planned(own, copy(0, "a", deleted=True))

    assert [each.body["metadata"]["name"] for each in found.changes] == ["dr-1"]
    assert states(found) == {0: "Expiring", 1: "Pending"}


def bounds(field):
    """What a field of a JSON schema allows; of one that may be null, what else it allows."""
    field = next((each for each in field.get("anyOf", ()) if each["type"] != "null"), field) | {
        key: value for key, value in field.items() if key == "default" and value is not None
    }
    names = ("type", "minimum", "maximum", "minLength", "maxLength", "enum", "default")
    return {name: field[name] for name in names if name in field}


def test_schema_and_model_agree():
    """Fields, types, bounds and defaults are the same; of a time the schema has a length as well."""
    crd = yaml.safe_load((ROOT / "crds" / "device-reservations" / "crd.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"]["until"].pop("maxLength")
    model = ReservationSpec.model_json_schema(by_alias=True)

    assert {name: bounds(field) for name, field in schema["properties"].items()} == {
        name: bounds(field) for name, field in model["properties"].items()
    }
    assert schema["required"] == model["required"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert tuple(status["properties"]["phase"]["enum"]) == PHASES


def test_status_is_as_the_schema_has_it():
    """The API server drops what a structural schema does not name."""
    crd = yaml.safe_load((ROOT / "crds" / "device-reservations" / "crd.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    copies = [copy(0, "a"), copy(1, lost="gone"), copy(2, is_foreign=True), copy(3, of="x", held=False)]
    status = planned(reservation(copies=5), *copies).status

    assert status.keys() <= schema.keys()
    fields = schema["copies"]["items"]["properties"]
    for each in status["copies"]:
        assert each.keys() <= fields.keys()
        assert each["state"] in fields["state"]["enum"]
    assert {each["state"] for each in status["copies"]} == {
        "Ready",
        "Lost",
        "Foreign",
        "NameTaken",
        "Pending",
    }
