"""Which devices are ours: by taints of slices and of rules, settled or not, and by the counter sets they share."""

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.decision import IMPLIED, Decider
from dra_operator.allocator.matching.candidates import untolerated
from dra_operator.api.names import OWNED_KEY
from dra_operator.api.read import read_object
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory import Inventory, bits
from dra_operator.inventory.ownership import (
    UNOWNED,
    Ownership,
    Settlement,
    close_over_counters,
)

OWNED = {"key": OWNED_KEY, "effect": "NoSchedule"}
POOL = ("gpu", "pool")


@pytest.fixture
def inventory():
    """An inventory in which only owned devices are ours."""
    return Inventory(settlement=Settlement())


def rule(name="own", taint=OWNED, *, deleted=False, **selector):
    """A DeviceTaintRule of the driver gpu, if nothing else is said."""
    metadata = {"name": name, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    spec = {"taint": taint, "deviceSelector": {"driver": "gpu", **selector}}
    return read_object({"kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}, "DeviceTaintRule")


def ours(inventory, name="s"):
    """The names of the devices of a slice that are ours."""
    content = inventory.pools[POOL].slices[name]
    return [content.names[index] for index in bits.each(content.ours)]


def reasons(inventory, name="s"):
    """Why each device of a slice that is not ours is not."""
    content = inventory.pools[POOL].slices[name]
    return {
        content.names[index]: Ownership(barriers[0].value)
        for barriers, devices in content.tainted_groups
        if barriers[0].effect == UNOWNED
        for index in bits.each(devices)
    }


def drawing(name, *sets, **fields):
    """A device that draws on counter sets."""
    uses = [{"counterSet": each, "counters": {"memory": {"value": "1"}}} for each in sets]
    return {"name": name, "consumesCounters": uses, **fields}


def test_a_device_is_ours_by_a_rule_that_has_settled(inventory, make_slice):
    """A rule owns the devices that it matches, from when it has settled; others stay behind a barrier."""
    inventory.put(make_slice("s", ["a", "b"]))
    inventory.put(rule(device="a"))
    assert reasons(inventory) == {"a": Ownership.SETTLING, "b": Ownership.UNOWNED}

    inventory.settle({"own"}, set())

    assert ours(inventory) == ["a"]
    assert reasons(inventory) == {"b": Ownership.UNOWNED}


def test_a_device_is_ours_by_its_own_taint_where_its_pool_has_settled(inventory, make_slice):
    """A taint in the slice owns a device as a rule does, once its pool has settled."""
    inventory.put(make_slice("s", [{"name": "a", "taints": [OWNED]}, "b"]))
    assert reasons(inventory) == {"a": Ownership.SETTLING, "b": Ownership.UNOWNED}

    inventory.settle(set(), {POOL})

    assert ours(inventory) == ["a"]


def test_a_rule_that_is_deleted_owns_no_more(inventory, make_slice):
    """From the deletion on its devices are not ours, although the taint stays in force until the finalizer is gone."""
    inventory.put(make_slice("s", ["a"]))
    inventory.put(rule())
    inventory.settle({"own"}, set())

    inventory.put(rule(deleted=True))

    assert reasons(inventory) == {"a": Ownership.LEAVING}
    assert inventory.pools[POOL].slices["s"].taints[0][0].key == OWNED_KEY


def test_the_rule_that_owns_a_device_most_counts(inventory, make_slice):
    """A device under a rule that has settled is ours, whatever another rule is at."""
    inventory.put(make_slice("s", ["a"]))
    inventory.put(rule("old"))
    inventory.settle({"old"}, set())

    inventory.put(rule("new", device="a"))
    inventory.put(rule("gone", deleted=True))

    assert ours(inventory) == ["a"]


@pytest.mark.parametrize(
    ("taint", "selector", "words"),
    [
        pytest.param({**OWNED, "value": "gpu"}, {}, 'value "gpu"', id="value"),
        pytest.param({**OWNED, "effect": "NoExecute"}, {}, 'effect "NoExecute"', id="effect"),
        pytest.param(OWNED, {"driver": None}, "deviceSelector.driver", id="no driver"),
        pytest.param(OWNED, {"selectors": [{"cel": {"expression": "true"}}]}, "by class or CEL", id="CEL"),
    ],
)
def test_what_is_not_exactly_the_taint_owns_nothing(inventory, make_slice, taint, selector, words):
    """A rule with another value or effect, or for all drivers, owns no device, and is a problem that is told."""
    inventory.put(make_slice("s", ["a"]))
    inventory.put(rule(taint=taint, **selector))
    inventory.settle({"own"}, {POOL})

    assert ours(inventory) == []
    (problem,) = inventory.problems()
    assert (problem.kind, problem.name) == ("DeviceTaintRule", "own")
    assert words in problem.message


def test_an_odd_taint_of_a_slice_is_told_on_the_slice(inventory, make_slice):
    """A published taint with the key and a value is a problem of its slice, with the device."""
    inventory.put(make_slice("s", [{"name": "a", "taints": [{**OWNED, "value": "x"}]}]))

    (problem,) = inventory.problems()

    assert (problem.kind, problem.name) == ("ResourceSlice", "s")
    assert problem.message.startswith("device a: taint dra-operator.io/owned has the value")


def test_devices_that_share_counters_are_ours_together_or_not_at_all(inventory, make_slice):
    """One device that is not owned keeps those off that draw on its counter set, also in other slices, and theirs."""
    sets = [{"name": each, "counters": {"memory": {"value": "8"}}} for each in ("x", "y", "z")]
    inventory.put(make_slice("counters", [], sharedCounters=sets, count=3))
    inventory.put(make_slice("s", [drawing("a", "x"), drawing("b", "x", "y"), drawing("e", "z")], count=3))
    inventory.put(make_slice("t", [drawing("c", "y"), "d"], count=3))
    inventory.put(rule("s", device="a"))
    inventory.put(rule("t", device="b"))
    inventory.put(rule("e", device="e"))
    inventory.settle({"s", "t", "e"}, set())
    assert ours(inventory) == ["e"]
    assert reasons(inventory) == {"a": Ownership.HALF_OWNED, "b": Ownership.HALF_OWNED}
    assert [item.name for item in inventory.problems()] == ["s"]

    inventory.put(rule("c", device="c"))
    inventory.settle({"s", "t", "e", "c"}, set())

    assert ours(inventory) == ["a", "b", "e"]
    assert ours(inventory, "t") == ["c"]


@given(
    uses=st.lists(st.frozensets(st.sampled_from("wxyz"), min_size=1, max_size=2), min_size=1, max_size=6),
    owned=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_closing_over_counters_is_connected_components(uses, owned):
    """A device is ours exactly if all devices that are connected with it by counter sets are owned."""
    device_fields = [
        SimpleNamespace(consumes=[SimpleNamespace(counter_set=each) for each in sorted(sets)])
        for sets in uses
    ]
    content = SimpleNamespace(
        name="s", generation=1, counted=bits.first(len(uses)), device_fields=device_fields
    )
    states = [Ownership.OURS if is_owned else Ownership.UNOWNED for is_owned in owned[: len(uses)]]
    near = {index: {index} for index in range(len(uses))}
    for _ in uses:
        for one, other in itertools.permutations(range(len(uses)), 2):
            if any(uses[one] & uses[each] for each in near[other]):
                near[other] |= near[one]

    closed = close_over_counters([content], {"s": states})["s"]

    assert [state is Ownership.OURS for state in closed] == [
        all(owned[each] for each in near[index]) for index in near
    ]


@pytest.mark.parametrize(
    ("rules", "pools", "admin_access", "fitting"),
    [
        pytest.param({"own"}, set(), False, False, id="under-the-policy"),
        pytest.param({"own"}, set(), True, True, id="with-admin-access"),
        pytest.param(set(), {POOL}, False, True, id="without-the-policy"),
    ],
)
def test_toleration_of_our_taint_counts_for_nothing_under_the_policy(
    make_slice, rules, pools, admin_access, fitting
):
    """kube-scheduler gets an owned device for who tolerates everything only where no policy refuses it."""
    inventory = Inventory(settlement=Settlement())
    inventory.put(make_slice("s", ["a"]))
    inventory.put(rule())
    inventory.settle(rules, pools)
    ((taints, _),) = inventory.pools[POOL].slices["s"].tainted_groups
    anything = DeviceToleration(operator="Exists")

    def left(decider, *said):
        return untolerated(taints, (*said, *IMPLIED[decider.implied(admin_access=admin_access)]))

    assert (left(Decider.KUBE_SCHEDULER, anything) is None) is fitting
    assert left(Decider.OPERATOR) is None


@given(st.permutations(["slice", "rule", "other", "settle"]), st.booleans())
def test_the_order_in_which_things_come_does_not_matter(make_slice, order, again):
    """Slices, rules and what has settled give the same devices, in whatever order they come."""

    def build(steps):
        inventory = Inventory(settlement=Settlement())
        parts = {
            "slice": lambda: inventory.put(make_slice("s", [{"name": "a", "taints": [OWNED]}, "b", "c"])),
            "rule": lambda: inventory.put(rule("one", device="b")),
            "other": lambda: inventory.put(rule("two", device="c")),
            "settle": lambda: inventory.settle({"one"}, {POOL} if again else set()),
        }
        for step in [*steps, "settle"]:
            parts[step]()
        return ours(inventory), reasons(inventory)

    assert build(order) == build(["slice", "rule", "other", "settle"])
