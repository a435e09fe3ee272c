"""What cannot be known: answers where some kinds could not be read, or where a search is given up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator import Cluster, Conclusion, QuestionError
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.search.chain import SearchMode
from questionfuzz.unread import KINDS, QUESTIONS, find_unsound, make_whole_world
from small_cluster import CLASS, cluster, devices, node, template


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_kind_that_was_not_read_changes_no_answer_but_to_cannot_say(kind, seed):
    """An answer without a condition is that about the whole cluster, whichever kind was not read."""
    assert [*find_unsound(make_whole_world(seed), [kind])] == []


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**9), kinds=st.sets(st.sampled_from(KINDS), min_size=1, max_size=4))
def test_kinds_that_were_not_read_change_no_answer_but_to_cannot_say(seed, kinds):
    """So it is with several kinds, in any cluster."""
    assert [*find_unsound(make_whole_world(seed), sorted(kinds))] == []


def test_partial_answer_names_all_that_it_lacks():
    """What could not be read is named, one line for each kind."""
    unread = {"ResourceClaim": "forbidden", "DeviceTaintRule": "forbidden"}

    answer = cluster(unread=unread).fit(template())

    assert answer.partial == (
        "ResourceClaim cannot be read: forbidden",
        "DeviceTaintRule cannot be read: forbidden",
    )


@pytest.mark.parametrize("kind", ["ResourceSlice", "DeviceClass"])
@pytest.mark.parametrize(
    "question", ["fit of a class", "headroom", "explain a class", "usage by class", "lint"]
)
def test_nothing_is_said_without_devices_and_classes(kind, question):
    """What depends on them altogether is no answer but an error that names them."""
    world = make_whole_world(1)
    left = [body for body in world.objects if body["kind"] != kind]

    with pytest.raises(QuestionError, match=kind):
        QUESTIONS[question](Cluster.load(left, unread={kind: "forbidden"}), world)


# --- searches that are given up


@pytest.mark.parametrize(
    "ask",
    [
        lambda asked, wanted: asked.fit(wanted),
        lambda asked, wanted: asked.headroom(wanted),
        lambda asked, wanted: asked.explain(wanted, effort=None),
    ],
    ids=["fit", "headroom", "explain"],
)
def test_search_that_was_given_up_is_no_no(ask):
    """25 shares of 3 of eight times 10 cannot be had; to prove that takes too long, so that it cannot be said."""
    shareable = {"allowMultipleAllocations": True, "memory": "10"}
    asked = Cluster.load(
        [CLASS, node("n1"), devices("n1", *[f"gpu-{number}" for number in range(8)], **shareable)]
    )
    for allocator in asked.allocators.values():
        allocator.searching, allocator.limits = SearchMode.PLAIN, Limits(steps=1000, seconds=None)
    wanted = template()
    (request,) = wanted["spec"]["spec"]["devices"]["requests"]
    request["exactly"]["capacity"] = {"requests": {"memory": "3"}}
    wanted["spec"]["spec"]["devices"]["requests"] = [
        {**request, "name": f"r{number}"} for number in range(25)
    ]

    answer = ask(asked, wanted)

    assert (answer.reason, answer.partial, answer.conclusion) == (
        "SearchAborted",
        ("a search ran out of its time",),
        Conclusion.CANNOT_SAY,
    )


# --- clusters without nodes


def test_no_node_is_assumed_where_none_was_listed():
    """Slices name nodes that are gone: nothing fits there."""
    objects = [CLASS, devices("n1", "gpu-0")]

    assert Cluster.load(objects).fit("DeviceClass/gpu").fits
    assert Cluster.load(objects, listed=["Node"]).fit("DeviceClass/gpu").reason == "NoNodes"
    assert Cluster.load(objects, listed=["Node"], unread={"Node": "forbidden"}).fit("DeviceClass/gpu").fits
