"""The inventory kept incrementally is the inventory built from scratch."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.api.read import read_object
from dra_operator.inventory import Features, Inventory, Views, bits

SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
RARELY = st.sampled_from([False, False, False, True])
WHERE = st.sampled_from(
    [
        {"nodeName": "n1"},
        {"nodeName": "n1"},
        {"nodeName": "n2"},
        {"nodeName": "n2"},
        {"allNodes": True},
        {"nodeSelector": SELECTOR},
        {"perDeviceNodeSelection": True},
    ]
)
DEVICE = st.builds(
    lambda extra, taints, counted: {
        **extra,
        "taints": taints,
        **({"consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}]} if counted else {}),
    },
    st.sampled_from([{"nodeName": "n1"}, {"nodeName": "n3"}, {"allNodes": True}, {"nodeSelector": SELECTOR}]),
    st.sampled_from([[], [{"key": "k", "effect": "NoSchedule"}]]),
    RARELY,
)
SLICE = st.builds(
    lambda pool, generation, count, where, devices, counters: {
        "driver": "gpu",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": [{"name": f"{len(devices)}-{number}", **device} for number, device in enumerate(devices)],
        **({"sharedCounters": [{"name": "s", "counters": {"m": {"value": "2"}}}]} if counters else {}),
        **where,
    },
    st.sampled_from("ppq"),
    st.integers(1, 2),
    st.integers(1, 2),
    WHERE,
    st.lists(DEVICE, max_size=2),
    RARELY,
)
EVENT = st.one_of(
    st.tuples(st.just("ResourceSlice"), st.sampled_from("abcd"), st.one_of(st.none(), SLICE)),
    st.tuples(
        st.just("Node"),
        st.sampled_from(["n1", "n2", "n3"]),
        st.one_of(st.none(), st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}])),
    ),
    st.tuples(
        st.just("DeviceTaintRule"),
        st.sampled_from("rs"),
        st.one_of(
            st.none(),
            st.sampled_from([{}, {"pool": "p"}, {"device": "1-0"}]).map(
                lambda selector: {"taint": {"key": "t", "effect": "NoExecute"}, "deviceSelector": selector}
            ),
        ),
    ),
)


def apply(inventory: Inventory, event: tuple[str, str, Any]) -> None:
    """Put an object into the inventory, or remove it."""
    kind, name, content = event
    if content is None:
        inventory.remove(kind, name)
    elif kind == "Node":
        inventory.put(read_object({"metadata": {"name": name, "labels": content}}, kind))
    else:
        inventory.put(read_object({"metadata": {"name": name}, "spec": content}, kind))


def seen(views: Views) -> Any:
    """Return all that nodes see, in a form that can be compared."""
    table = {}
    for name in views.order:
        view = views.of_node(name)
        pools = []
        for pool in view.pools:
            shown = []
            for position in range(pool.size):
                content, index = pool.locate(position)
                taints = content.taints[index] if content.taints else ()
                shown.append((content.name, content.names[index], pool.visible >> position & 1, taints))
            layout = pool.counters
            counters = None if layout is None else (layout.totals, sorted(layout.draws.items()))
            pools.append((pool.key, pool.verdict, pool.reason, shown, counters, sorted(pool.selector_errors)))
        table[name] = (view.error, pools)
    return table


@settings(max_examples=300)
@given(st.lists(st.tuples(EVENT, st.booleans()), max_size=25))
def test_incremental_views_equal_those_built_from_scratch(events: list[tuple[Any, bool]]) -> None:
    """Whatever comes, goes and changes, in whatever order, and however often the views are brought up to date."""
    inventory = Inventory()
    views = Views(inventory, Features.all_on())
    latest: dict[tuple[str, str], Any] = {}
    for event, refresh in events:
        apply(inventory, event)
        latest[event[:2]] = event
        if refresh:
            views.refresh()
    views.refresh()
    fresh = Inventory()
    for event in latest.values():
        apply(fresh, event)
    scratch = Views(fresh, Features.all_on())
    scratch.refresh()

    assert seen(views) == seen(scratch)
    assert inventory.summary() == fresh.summary()
    assert inventory.problems() == fresh.problems()
    for position, name in enumerate(views.order):
        assert views.of_node(name).nodes >> position & 1
        assert all(pool.nodes >> position & 1 for pool in views.of_node(name).pools)
    for known in views.of_pool.values():
        for view in known.values():
            assert view.nodes == bits.from_flags(view in views.of_node(name).pools for name in views.order)


@pytest.mark.parametrize(("value", "admitted"), [("true", True), ("True", False), (None, False)])
def test_admin_access_needs_exactly_the_label(
    make: Any, inventory: Inventory, value: str | None, *, admitted: bool
) -> None:
    """The value is `true`, in lower case."""
    labels = {} if value is None else {"resource.kubernetes.io/admin-access": value}
    inventory.put(make("Namespace", "team", labels=labels))

    assert inventory.admits_admin_access("team") is admitted
    assert not inventory.admits_admin_access("unknown")
