"""What a change in a pool with counters costs, and that nodes still see the same counters."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.api.read import read_object
from dra_operator.inventory import Features, Inventory, Views
from dra_operator.inventory.pool import CounterLayout

Wire = dict[str, Any]
NODES = ("n0", "n1", "n2")

uses = st.builds(
    lambda amount, groups: {
        "counterSet": "s",
        "counters": {"m": {"value": amount}},
        **({"compatibilityGroups": groups} if groups else {}),
    },
    st.sampled_from("12"),
    st.sampled_from([[], [], [], ["g"]]),
)
devices = st.builds(
    lambda name, version, use: {
        "name": name,
        "attributes": {"version": {"int": version}},
        "consumesCounters": use,
    },
    st.sampled_from("ab"),
    st.integers(1, 3),
    st.lists(uses, max_size=1),
)
contents = st.lists(
    st.lists(devices, max_size=2, unique_by=lambda item: item["name"]), min_size=3, max_size=3
)


def put(inventory: Inventory, content: list[list[Wire]]) -> None:
    """Put a pool of which each node has a slice, and the first a counter set too."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": len(NODES) + 1}
    named = [
        [{**device, "name": f"{node}-{device['name']}"} for device in listed]
        for node, listed in zip(NODES, content, strict=True)
    ]
    specs = [{"nodeName": node, "devices": listed} for node, listed in zip(NODES, named, strict=True)]
    specs.append(
        {
            "nodeName": "n0",
            "sharedCounters": [{"name": "s", "counters": {"m": {"value": "4"}}}],
            "devices": [],
        }
    )
    for number, spec in enumerate(specs):
        whole = {"driver": "gpu", "pool": pool, **spec}
        inventory.put(
            read_object(
                {"kind": "ResourceSlice", "metadata": {"name": f"s{number}"}, "spec": whole}, "ResourceSlice"
            )
        )


def looked_up(inventory: Inventory) -> Views:
    """Return views of the inventory, up to date."""
    views = Views(inventory, Features.all_on())
    views.refresh()
    return views


def told(views: Views) -> Any:
    """Return the devices that each node sees, what they take, and the counters that it sees them in."""
    names = {
        item.serial: item.name for pool in views.inventory.pools.values() for item in pool.slices.values()
    }

    def layout_of(layout: CounterLayout | None) -> Any:
        if layout is None:
            return None
        joining = [(names[serial], *rest) for serial, *rest in layout.joining]
        return (layout.totals, layout.names, sorted(layout.draws.items()), joining, layout.is_plain)

    table = {}
    for name in views.order:
        seen = []
        for view in views.of_node(name).pools:
            for content, index in (view.locate(position) for position in range(view.size)):
                layout = view.counters if content.counted >> index & 1 else None
                draw = None if layout is None else layout.draw(content, index)
                seen.append((content.path(index), content.attribute(index, "gpu/version"), draw))
            seen.append((view.verdict, view.reason, layout_of(view.counters)))
        table[name] = seen
    return table


@settings(max_examples=200)
@given(st.lists(contents, min_size=2, max_size=4))
def test_changed_slices_with_counters_are_seen_as_if_they_were_new(steps: list[list[list[Wire]]]) -> None:
    """Whatever changes of attributes, devices, counters and groups, nodes see what they would at first sight."""
    inventory = Inventory()
    for node in NODES:
        inventory.put(read_object({"metadata": {"name": node}}, "Node"))
    views = Views(inventory, Features.all_on())
    for step in steps:
        put(inventory, step)
        views.refresh()

        assert told(views) == told(looked_up(inventory))
