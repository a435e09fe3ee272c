"""Inventory and ledger joined: the invariants hold after each event."""

from collections import Counter
from itertools import product
from sys import intern
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dra_operator.api.read import read_object
from dra_operator.inventory import Features, Inventory, PoolView, Views
from dra_operator.ledger import Availability, Ledger, Log

DEVICES = ("0", "1", "2")
CONSUMED = {"a": {}, "b": {"memory": "1"}, "c": {"memory": "2"}}
"""What the share of each claim consumes."""


def slice_of(
    name: str, pool: str, devices: Any = (), *, driver: str = "gpu", count: int = 1, **spec: Any
) -> Any:
    """Return a slice of a pool; devices are names, of which 2 is shareable, or objects."""
    listed = [
        {"name": item, "allowMultipleAllocations": item == "2"} if isinstance(item, str) else item
        for item in devices
    ]
    body = {"driver": driver, "pool": {"name": pool, "generation": 1, "resourceSliceCount": count}, **spec}
    devices = {"devices": listed} if listed else {}
    return read_object({"metadata": {"name": name}, "spec": body | devices}, "ResourceSlice")


def uses(counter_set: str, memory: str) -> Any:
    """Return what a device takes of a counter set."""
    return {"consumesCounters": [counter_set_of(counter_set, memory, "counterSet")]}


def counter_set_of(name: str, memory: str, field: str = "name") -> Any:
    """Return a counter set with so much memory."""
    return {field: name, "counters": {"memory": {"value": memory}}}


def pool_slice(node: str, devices: tuple[str, ...], *, counters: bool) -> Any:
    """Return a slice of a node's own pool; each device takes 1 of the node's 2 units of memory."""
    use = uses("s", "1") if counters else {}
    listed = [{"name": name, "allowMultipleAllocations": name == "2", **use} for name in devices]
    return slice_of(f"{node}-devices", node, listed, count=2, nodeName=node)


def counter_slice(node: str) -> Any:
    """Return the slice with a node's counters."""
    return slice_of(
        f"{node}-counters", node, count=2, sharedCounters=[counter_set_of("s", "2")], nodeName=node
    )


def wide_slice(node: str, devices: tuple[str, ...]) -> Any:
    """Return one node's slice of a pool of two nodes, each of which sees another view of it."""
    return slice_of(f"{node}-wide", "wide", devices, count=2, nodeName=node)


def unreadable_slice(node: str) -> Any:
    """Return a slice of a pool of its own whose node selector cannot be parsed."""
    terms = [{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["many"]}]}]
    return slice_of(f"{node}-odd", f"{node}-odd", "0", nodeSelector={"nodeSelectorTerms": terms})


def nic_slice(node: str, *, shareable: bool = True) -> Any:
    """Return a slice of another driver's pool that has the name of the node's own; its device 2 may be shareable."""
    listed = [{"name": name, "allowMultipleAllocations": shareable and name == "2"} for name in DEVICES]
    return slice_of(f"{node}-nics", node, listed, driver="nic", nodeName=node)


def claim(name: str, results: list[tuple[str, str]]) -> Any:
    """Return a claim that holds these devices, the shareable one as a share; of pools by name, driver nic or access."""
    listed = []
    for place, device in results:
        pool, _, kind = place.partition("/")
        driver = "nic" if kind == "nic" else "gpu"
        # The reader of objects keeps short texts, so those of equal pools are mostly one object.
        result: dict[str, Any] = {"driver": driver, "pool": intern(pool), "device": device}
        if device == "2":
            result |= {"shareID": f"{name}-{place}", "consumedCapacity": CONSUMED[name]}
        if kind == "admin":
            result["adminAccess"] = True
        listed.append(result)
    status = {"allocation": {"devices": {"results": listed}}} if listed else {}
    return read_object({"metadata": {"name": name, "namespace": "team"}, "status": status}, "ResourceClaim")


CLAIM = st.tuples(
    st.just("claim"),
    st.sampled_from("abc"),
    st.lists(
        st.sampled_from(list(product(("n1", "n2", "wide", "n1/nic", "n1/admin", "n2/admin"), DEVICES))),
        max_size=4,
        unique=True,
    ),
)
NAMES = st.lists(st.sampled_from(DEVICES), max_size=3, unique=True)
# Claims come more often than all else: most of what happens shows by them.
EVENT = (
    CLAIM
    | CLAIM
    | CLAIM
    | st.tuples(st.just("gone"), st.sampled_from("abc"), st.just(None))
    | st.tuples(st.just("slice"), st.sampled_from(["n1", "n2"]), st.tuples(NAMES, st.booleans()))
    | st.tuples(st.just("wide"), st.sampled_from(["n1", "n2"]), NAMES | NAMES | st.none())
    | st.tuples(st.just("sharing"), st.just("n1"), st.booleans())
    | st.tuples(
        st.sampled_from(["node", "unreadable"]),
        st.sampled_from(["n0", "n1"]),
        st.sampled_from([True, True, False]),
    )
)


@pytest.fixture
def availability() -> Availability:
    """Two nodes with a pool each, and an empty ledger."""
    inventory = Inventory()
    for node in ("n1", "n2"):
        inventory.put(read_object({"metadata": {"name": node}}, "Node"))
        inventory.put(counter_slice(node))
        inventory.put(pool_slice(node, DEVICES, counters=True))
    joined = Availability(Views(inventory, Features.all_on()), Ledger())
    joined.refresh()
    return joined


def check(availability: Availability) -> None:
    """Check the invariants of a joined state against ledger and views."""
    views = availability.views
    nonempty = 0
    for position, name in enumerate(views.order):
        node_view = views.of_node(name)
        for view in node_view.pools:
            check_view(availability, view)
        if node_view.error is not None or any(
            availability.states[view.serial].free for view in node_view.pools
        ):
            nonempty |= 1 << position
    assert availability.nonempty == nonempty


def check_view(availability: Availability, view: PoolView) -> None:
    """Check what one pool view says is free, and what is left of its counters."""
    ledger, state = availability.ledger, availability.states[view.serial]
    published = [name for content in view.slices for name in content.names]
    for position, name in enumerate(published):
        shared = name in ledger.shared(view.key) and not view.shareable >> position & 1
        assert bool(state.free >> position & 1) == (name not in ledger.held(view.key) and not shared)
        assert bool(state.charged >> position & 1) == bool(ledger.consumed(view.key, name))
    if view.counters is not None:
        names = {*ledger.held(view.key), *ledger.shared(view.key)}
        used = [draw for name in names for draw in view.counters.draws.get(name, ())]
        left = list(view.counters.totals)
        for draw in used:
            for position, amount in draw.amounts:
                left[position] -= amount
        counters = availability.counters(view.counters)
        assert counters.left == left
        assert counters.overdrawn == sum(amount < 0 for amount in left)


def change(inventory: Inventory, kind: str, name: str, content: Any) -> None:
    """Change what a driver publishes for a node, or the nodes there are."""
    if kind == "slice":
        inventory.put(pool_slice(name, tuple(content[0]), counters=content[1]))
    elif kind == "wide":
        if content is None:
            inventory.remove("ResourceSlice", f"{name}-wide")
        else:
            # No name twice, as no view of the pool would have a device then.
            inventory.put(
                wide_slice(name, tuple(each for each in content if (each == "1") == (name == "n2")))
            )
    elif kind == "sharing":
        inventory.put(nic_slice(name, shareable=content))
    elif kind == "node":
        if content:
            inventory.put(read_object({"metadata": {"name": name}}, "Node"))
        else:
            inventory.remove("Node", name)
    elif content:
        inventory.put(unreadable_slice(name))
    else:
        inventory.remove("ResourceSlice", f"{name}-odd")


def room(availability: Availability) -> dict[str, Counter[object]]:
    """Return by node what there is to be had: free devices, and what is left of counters and of shared devices."""
    found = dict[str, Counter[object]]()
    for name in availability.views.order:
        there = found[name] = Counter()
        for view in availability.views.of_node(name).pools:
            for device, position in view.positions.items():
                if availability.states[view.serial].free >> position & 1:
                    there[view.key, device] = 100
                    there.subtract(
                        {
                            (view.key, device, amount): number // 10**9
                            for amount, number in availability.ledger.consumed(view.key, device).items()
                        }
                    )
            if view.counters is not None:
                left = availability.counters(view.counters).left
                there.update({(view.key, number): amount for number, amount in enumerate(left)})
    return found


# A device of a view that came to others of its pool is taken, which few of the drawn lists do.
@example(
    [(("gone", "a", None), True), (("wide", "n1", ["0"]), True), (("claim", "a", [("wide", "0")]), True)],
    True,
)
# Two drivers have a pool of one name, and a claim has a device of each; then a share in a pool without counters.
@example([(("claim", "a", [("n1/nic", "0"), ("n1", "0")]), True)], True)
@example([(("claim", "a", [("n1/nic", "2")]), True)], True)
@settings(max_examples=600)
@given(st.lists(st.tuples(EVENT, st.booleans()), max_size=30), st.booleans())
def test_free_devices_counters_and_nodes_follow_every_event(
    events: list[tuple[Any, bool]],
    shares: bool,  # noqa: FBT001 - examples are given by position
) -> None:
    """They are those of ledger and views, and the log names each node that has more of anything than before."""
    inventory, ledger = Inventory(), Ledger(shares=shares)
    for node in ("n1", "n2"):
        inventory.put(read_object({"metadata": {"name": node}}, "Node"))
        inventory.put(counter_slice(node))
    inventory.put(nic_slice("n1"))
    inventory.put(wide_slice("n1", ("0", "2")))
    inventory.put(wide_slice("n2", ("1",)))
    availability = Availability(Views(inventory, Features.all_on()), ledger)
    before, position = room(availability), -1
    for (kind, name, content), refresh in events:
        if kind == "claim":
            ledger.put(claim(name, content))
        elif kind == "gone":
            ledger.remove("team", name)
        else:
            change(inventory, kind, name, content)
        if refresh:
            availability.refresh()
            check(availability)
            log, now = availability.log, room(availability)
            came_back = log.joined(position, 0)
            better = [name for name, there in now.items() if there - before.get(name, Counter())]
            order = availability.views.order
            assert {name for name in better if not came_back >> order.index(name) & 1} == set()
            before, position = now, log.end
    availability.refresh()
    check(availability)


def test_the_log_tells_all_that_came_since_or_that_it_has_forgotten() -> None:
    """Whatever it has forgotten: a node that is left out would wait for ever."""
    log, entries = Log(), list[int]()
    for number in range(9000):
        entries.append(1 << number % 61)
        log.append(entries[-1])

    for position in (*range(0, len(entries), 7), len(entries)):
        expected = 0
        for entry in entries[position : position + 61]:
            expected |= entry
        assert log.joined(position, 0) == (-1 if position < log._start else expected)
    assert 0 < log._start < log.end == len(entries) < log._start + 4097


def test_the_log_tells_of_all_nodes_after_their_positions_changed() -> None:
    """A set from before means other nodes by now, and what came back before may stand at any position."""
    log = Log()
    log.append(0b10)
    before = log.end
    log.forget()

    assert (log.joined(0, 0b1), log.joined(before, 0b1)) == (-1, -1)
    after = log.end
    log.append(0b100)
    assert log.joined(after, 0b1) == 0b101


def test_a_node_that_comes_to_see_counters_is_helped_by_what_comes_back() -> None:
    """Also by a device that it does not see itself, from the next one on."""
    inventory, ledger = Inventory(), Ledger()

    def put_node(name: str, rack: str) -> None:
        inventory.put(read_object({"metadata": {"name": name, "labels": {"rack": rack}}}, "Node"))

    def put_slice(name: str, racks: list[str], **spec: Any) -> None:
        term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": racks}]}
        where = {"nodeSelector": {"nodeSelectorTerms": [term]}}
        inventory.put(slice_of(name, "wide", count=3, **where, **spec))

    for name in ("n1", "n2", "n3"):
        put_node(name, name)
    put_slice("sets", ["n1", "n2"], sharedCounters=[counter_set_of("s", "1")])
    put_slice("first", ["n1"], devices=[{"name": "0", **uses("s", "1")}])
    put_slice("second", ["n2"], devices=[{"name": "1", **uses("s", "1")}])
    availability = Availability(Views(inventory, Features.all_on()), ledger)

    def helped() -> int:
        ledger.put(claim("a", [("wide", "0")]))
        availability.refresh()
        position = availability.log.end
        ledger.remove("team", "a")
        availability.refresh()
        return availability.log.joined(position, 0)

    before = helped()
    put_node("n3", "n2")

    assert (before, helped()) == (0b011, 0b111)
