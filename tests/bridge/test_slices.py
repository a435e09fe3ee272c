"""The writes of a pool lead to what is wanted from whatever is there, and no write is in vain."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from dra_bridge.slices import DEVICES_OF_A_SLICE, plan_slices, slice_name

NODE = {"metadata": {"name": "node-1", "uid": "uid-1"}}
TAINT = {"key": "a/b", "value": "c", "effect": "NoSchedule"}
DEVICES = st.lists(
    st.tuples(st.integers(0, 300), st.booleans()), max_size=200, unique_by=lambda pair: pair[0]
).map(
    lambda pairs: [
        {"name": f"dev-{number}", **({"taints": [TAINT]} if tainted else {})}
        for number, tainted in sorted(pairs)
    ]
)


def plan(devices, present):
    """Return the writes for a pool."""
    return plan_slices(
        node=NODE, resource="vendor.com/foo", driver="foo.vendor.com", devices=devices, present=present
    )


def apply(written, stored):
    """Return the slices after the writes of a plan, as an API server stores them."""
    after = {each["metadata"]["name"]: each for each in stored}
    for each in deepcopy([*written.create, *written.update]):
        each["metadata"]["resourceVersion"] = "2"
        for device in each["spec"]["devices"]:
            for taint in device.get("taints", ()):
                taint["timeAdded"] = "2026-01-01T00:00:00Z"
        after[each["metadata"]["name"]] = each
    for name in written.delete:
        del after[name]
    return [*after.values()]


def is_complete(slices):
    """Return whether an allocator sees the whole pool and nothing else."""
    pools = [each["spec"]["pool"] for each in slices]
    return all(pool == pools[0] and pool["resourceSliceCount"] == len(pools) for pool in pools)


@given(DEVICES, DEVICES, st.randoms(use_true_random=False))
def test_a_pool_comes_to_what_is_wanted(before, after, random):
    """From a pool, or from what a crash has left of one, and then there is nothing to write."""
    stored = apply(plan(before, []), [])
    left = random.sample(stored, random.randint(0, len(stored)))

    slices = apply(plan(after, left), left)

    found = [device for each in slices for device in each["spec"]["devices"]]
    assert sorted(device["name"] for device in found) == sorted(device["name"] for device in after)
    assert is_complete(slices)
    assert all(len(each["spec"]["devices"]) <= DEVICES_OF_A_SLICE for each in slices)
    assert plan(after, slices).is_empty


@given(DEVICES, DEVICES, st.integers(1, 9))
def test_no_half_written_pool_passes_for_a_whole_one(before, after, number):
    """After each write but the last one the pool is the old one, the new one, or not complete."""
    stored = apply(plan(before, []), [])
    writes = plan(after, stored)
    every = [*writes.create, *writes.update]
    partial = type(writes)(create=tuple(every[:number]))

    slices = apply(partial, stored)

    newest = max((each["spec"]["pool"]["generation"] for each in slices), default=0)
    seen = [each for each in slices if each["spec"]["pool"]["generation"] == newest]
    if number < len(every):
        assert len(seen) < seen[0]["spec"]["pool"]["resourceSliceCount"] or is_complete(seen)
        assert not (seen != stored and len(seen) == seen[0]["spec"]["pool"]["resourceSliceCount"])


def test_names_of_slices_are_names():
    """Also of a node whose name takes all there is, and no two are the same."""
    node = "n" * 253

    assert len(slice_name(node, "foo.vendor.com", 3)) == 253
    assert slice_name("node-1", "foo.vendor.com", 3).startswith("node-1-foo.vendor.com-")
    assert slice_name("a-b", "c.com", 0) != slice_name("a", "b-c.com", 0)
