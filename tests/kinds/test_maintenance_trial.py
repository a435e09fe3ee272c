"""What would fit without devices: their taint is tried on, the allocator decides, and all is as before."""

from itertools import count

import pytest

from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.kinds.device_maintenance import read_maintenance
from dra_operator.kinds.device_reservation import read_template
from dra_operator.kinds.maintenance_cards import Card, find_cards
from dra_operator.kinds.maintenance_trial import find_misfit, make_claim, preview
from dra_operator.kinds.selector import DeviceKey
from dra_operator.ledger import Ledger
from factories import GPU, allocation, claim, device_class, manifest, request, resource_slice, result
from kinds.states import build_state

REQUEST = request(allocationMode="ExactCount", count=1)
SPEC = {"spec": {"devices": {"requests": [REQUEST]}}}
TEMPLATE = read_template(manifest("ResourceClaimTemplate", "t", SPEC, uid="t"))


def state(*held):
    """Two nodes with two devices each; claims hold some."""
    inventory, ledger = Inventory(), Ledger()
    inventory.put(read_object(device_class()))
    for name in ("n1", "n2"):
        inventory.put(read_object(manifest("Node", name)))
        inventory.put(read_object(resource_slice(name, [{"name": "a"}, {"name": "b"}], pool=name)))
    claims = {}
    for number, each in enumerate(held):
        results = [result(device, pool) for pool, device in each]
        made = read_object(
            claim(f"c{number}", REQUEST, status={"allocation": allocation(*results)}, namespace="ns")
        )
        claims["ns", made.metadata.name] = made
        ledger.put(made)
    return build_state(inventory, ledger, find_claim=claims.get, find_allocated=claims.values)


def remembered(known):
    """What must be as before."""
    slices = {key: [each.taints for each in pool.newest()] for key, pool in known.inventory.pools.items()}
    held = {key: dict(known.ledger.held(key)) for key in known.ledger.pools()}
    return dict(known.inventory.rules), slices, held, list(known.ledger.assumed())


@pytest.mark.parametrize(
    ("held", "devices", "copies", "said"),
    [
        ([], ["a"], 3, ""),
        ([], ["a"], 4, "ns/t: 3 of 4 copies would fit: "),
        ([], ["a", "b"], 2, ""),
        ([[("n2", "a")], [("n1", "a")]], ["a"], 2, ""),
        ([[("n2", "a"), ("n2", "b")]], ["a", "b"], 1, "ns/t: 0 of 1 copies would fit: "),
    ],
)
def test_claims_must_fit_beside_what_is_held_without_the_devices(held, devices, copies, said):
    """The reason is that of the engine, and the state is as before."""
    known = state(*held)
    before = remembered(known)
    demands = {"ns/t": [make_claim(TEMPLATE, "ns", "t", each + 1) for each in range(copies)]}

    found = find_misfit(known, {f"rule-{each}": DeviceKey(GPU, "n1", each) for each in devices}, demands)

    assert found.startswith(said)
    assert bool(found) is bool(said)
    assert "maintenance" in found or not said
    assert "~" not in found
    assert remembered(known) == before


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([], "2 devices, which no claim holds"),
        ([[("n2", "a")]], "2 devices, which no claim holds"),
        ([[("n1", "a")]], "2 devices, held by claims ns/c0; all would get other devices"),
        (
            [[("n1", "a")], [("n1", "b")], [("n2", "b")]],
            "2 devices, held by claims ns/c0, ns/c1; 1 of 2 would get other devices, not ns/c1: ",
        ),
    ],
)
def test_preview_says_who_is_hit_and_who_would_get_other_devices(held, said):
    """Each claim that is hit begins anew, beside the others."""
    known = state(*held)
    before = remembered(known)
    body = {
        "metadata": {"name": "dm", "uid": "dm"},
        "spec": {"devices": [{"driver": GPU, "pool": "n1"}]},
    }
    cards, _ = find_cards(read_maintenance(body), known)

    assert preview(known, cards, "dm").startswith(said)
    assert remembered(known) == before


def test_rule_that_is_there_stays_as_it_is():
    """A device whose rule the watch has brought is tried on as any other, and keeps it."""
    known = state()
    rule = {"deviceSelector": {"device": "a"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    known.inventory.put(read_object(manifest("DeviceTaintRule", "rule-a", rule)))
    before = remembered(known)

    find_misfit(known, {"rule-a": DeviceKey(GPU, "n1", "b")}, {})

    assert remembered(known) == before


def test_what_there_was_no_time_for_is_not_said_to_misfit():
    """Time that is used up says nothing about devices."""
    known = state([("n1", "a")])
    seconds = count(0, 10)
    known.explainer.allocator.clock = lambda: float(next(seconds))
    found = find_misfit(known, {}, {"ns/t": [make_claim(TEMPLATE, "ns", "t", 1)]})

    assert found.startswith("ns/t: it was not decided if 1 copies would fit: ")


def test_preview_of_a_card_of_very_many_devices_is_not_tried():
    """The rest of such a card would look free."""
    keys = tuple([DeviceKey(GPU, "n1", f"d{number}") for number in range(600)])

    found = preview(state([("n1", "a")]), [Card("large", keys, claims=(("ns", "c0"),))], "dm")

    assert (
        found == "600 devices, held by claims ns/c0; not tried, as a card of them has more than 500 devices"
    )


def test_preview_of_very_many_devices_tries_the_first_that_are_held():
    """The taints of thousands would hold up decisions; the text says how many were tried."""
    known = state([("n1", "a")])
    keys = [DeviceKey(GPU, "n1", f"d{number}") for number in range(600)]
    cards = [
        Card("rest", tuple(keys)),
        Card("held", (DeviceKey(GPU, "n1", "a"),), claims=(("ns", "c0"),)),
    ]

    found = preview(known, cards, "dm")

    assert (
        found
        == "601 devices, held by claims ns/c0; tried with 1 of the 601 devices; all would get other devices"
    )
