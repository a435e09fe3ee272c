"""Where claims have more of a counter or of a shared device than there is, those that nobody uses give way."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passbench import Bench, Clock, notices, writes
from table import DRIVER, SHARED, SIZES, USER, Table, has, said, slices

from cluster import CLASS, claim, node
from dra_operator.allocator import Allocated
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import AnnotateWrite, Conflict, Refused, ReleaseWrite, Written
from dra_operator.controller import collisions, messages
from dra_operator.controller.collisions import LASTING_SECONDS
from dra_operator.controller.reports import Notice
from dra_operator.ledger import Overcommitments


@pytest.fixture
def table(bench):
    """A pool of which nothing is in use."""
    return Table(bench)


def test_the_claim_of_a_pod_keeps_the_partition(table):
    """Ours overlaps with it and gives way; both are told what of which pool is too little, and for whom, once."""
    table.put("ours", "half-0")
    table.put("theirs", "whole", used=USER)
    effects = table.wait()

    assert [write.name for write in writes(effects, ReleaseWrite)] == ["ours"]
    assert said(effects) == dict.fromkeys(
        ("ours", "theirs"),
        "counter gpu-0/memory of pool gpu.example.com/pool-1 on node node-1: 4 published, 6 allocated, "
        "to default/ours (2), default/theirs (4); two allocators serve this driver; "
        "nobody uses default/ours yet, so it is allocated again",
    )
    assert notices(effects) == ["DeviceOvercommitted"] * 2
    assert notices(table.wait()) == []


def test_the_claim_of_a_pod_keeps_its_share(table):
    """Of a device that is shared the capacity is told."""
    table.put("ours", 6)
    table.put("theirs", 5, used=USER)
    effects = table.wait()

    assert [write.name for write in writes(effects, ReleaseWrite)] == ["ours"]
    assert said(effects)["theirs"].startswith(
        "capacity rate of device gpu.example.com/pool-1/nic on node node-1: 10 published, 11 allocated, to "
        "default/ours (6), default/theirs (5); "
    )


def test_nothing_is_said_of_what_passes(table):
    """The slice that made room for an allocation may be here later than the allocation."""
    table.put("ours", "half-0")
    effects = table.put("theirs", "whole", used=USER)
    woken_at = table.bench.wake_at
    effects += table.publish(memory=6)

    assert notices(effects) + notices(table.wait()) == []
    assert woken_at == table.clock.now


def test_what_has_lasted_since_it_was_looked_at_is_not_slept_over(table):
    """Time goes on between a look, which comes a moment too early, and the question when to look again."""
    table.put("ours", "half-0")
    begun = table.clock.now
    table.put("theirs", "whole", used=USER)
    table.clock.now += LASTING_SECONDS * 0.75
    table.bench.run()
    table.clock.now += LASTING_SECONDS * 0.5

    assert table.bench.passes._collisions.next_due() == begun + LASTING_SECONDS
    assert [write.name for write in writes(table.bench.run(), ReleaseWrite)] == ["ours"]
    assert table.bench.passes._collisions.next_due() is None


def test_of_two_things_that_are_overcommitted_the_first_is_told_first(table):
    """As soon as it has lasted, and not when the second has."""
    table.put("a", "half-0", used=USER)
    table.put("b", "whole", used=USER)
    begun = table.clock.now
    table.clock.now += 1
    table.put("c", 6, used=USER)
    table.put("d", 5, used=USER)

    assert table.bench.wake_at == begun + LASTING_SECONDS


def test_a_claim_that_gave_a_device_back_once_gives_way_again(table):
    """What it gave back then is over."""
    table.put("ours", "half-0")
    (write,) = writes(table.put("theirs", "half-0", used=USER), ReleaseWrite)
    effects = table.bench.run(table.bench.delta(claim("ours")), Written(write, {}))
    table.bench.run(*[Written(told, {}) for told in writes(effects, AnnotateWrite)])
    table.put("ours", "whole")

    assert table.giving() == ["ours"]


def test_of_claims_that_nobody_uses_none_gives_way(table):
    """Which of them is right only a person can tell: both are told."""
    table.put("a", "half-0")
    table.put("b", "whole")
    effects = table.wait()

    assert (writes(effects, ReleaseWrite), notices(effects)) == ([], ["DeviceOvercommitted"] * 2)
    assert "delete one of the claims" in said(effects)["a"]


def test_as_few_give_way_as_are_needed(table):
    """The one that ends it alone, though others are newer, and though a larger one would end it as well."""
    table.put("small", "quarter-0")
    table.put("enough", "half-1")
    table.put("theirs", "half-0", used=USER)
    table.put("more-of-theirs", "quarter-1", used=USER)
    table.put("newest", "quarter-2")

    # Seven of four, so three too many.
    assert table.giving() == ["enough", "newest"]


def test_of_those_that_are_enough_the_newest_gives_way(table):
    """It was decided without knowing of the others, and people have relied on it for the shortest time."""
    table.put("larger", "half-1")
    table.put("ours", "quarter-0")
    table.put("theirs", "half-0", used=USER)

    assert table.giving() == ["ours"]


def test_a_partition_of_one_claim_is_given_up_before_one_of_two(table):
    """One claim less has to move."""
    table.put("alone", "half-0")
    table.put("a", SHARED)
    table.put("b", SHARED)
    table.put("theirs", "half-1", used=USER)

    assert table.giving() == ["alone"]


def test_a_partition_of_two_claims_comes_back_with_the_last(table):
    """The newest goes first, then the other: one alone would be of no use."""
    table.put("a", SHARED)
    table.put("b", SHARED)
    table.put("theirs", "whole", used=USER)

    assert table.giving() == ["b", "a"]


def test_a_partition_that_is_shared_with_one_in_use_stays(table):
    """To give a share of it back helps nobody."""
    table.put("ours", SHARED)
    table.put("theirs", SHARED, used=USER)
    table.put("more-of-theirs", "whole", used=USER)

    assert table.giving() == []


def test_one_that_gives_back_a_device_is_enough(table):
    """It is on its way already, as another claim has its device as well, and everything else of it comes back, too."""
    table.put("both", "half-0", "half-1")
    table.put("newer", "quarter-0")
    effects = table.put("theirs", "half-0", used=USER)

    assert [write.name for write in writes(effects, ReleaseWrite)] == ["both"]
    assert writes(table.wait(), ReleaseWrite) == []


def test_what_is_decided_and_not_stored_is_not_too_much_yet(table):
    """The API server may still refuse one of them."""
    result = DeviceRequestAllocationResult(request="gpu", driver=DRIVER, pool="pool-1", device="half-0")
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    table.bench.allocator.answers["ours"] = Allocated("node-1", (allocation,))
    (write,) = writes(table.bench.run(table.bench.delta(claim("ours"))))
    table.put("theirs", "whole", used=USER)
    before = table.wait()
    stored = table.bench.delta(claim("ours"), allocation=dict(write.allocation))
    table.bench.run(stored, Written(write, {}))

    assert notices(before) == []
    assert table.giving() == ["ours"]


def test_what_comes_again_is_told_again(table):
    """An end is not told, so another beginning is."""
    table.put("a", "half-0", used=USER)
    told = []
    for _ in range(2):
        table.put("b", "whole", used=USER)
        told += notices(table.wait())
        table.bench.run(Delta("ResourceClaim", "default", "b", None))

    assert told == ["DeviceOvercommitted"] * 4


def test_one_that_gave_way_to_another_case_is_enough(table):
    """A claim that has too much of two things gives way once, and nobody else does."""
    table.put("rate", 5)
    table.put("both", "half-0", 5)
    table.put("memory", "quarter-0")
    table.put("theirs", "half-1", 5, used=USER)

    assert table.giving() == ["both"]


def test_one_that_ends_two_cases_gives_way_before_newer_ones_that_end_one_each(table):
    """Else one claim more would have to move: who comes first is asked for one case after the other."""
    table.put("both", "half-0", 5)
    table.put("rate", 5)
    table.put("memory", "quarter-0")
    table.put("theirs", "half-1", 5, used=USER)

    assert table.giving() == ["both"]


def test_a_case_for_which_another_gives_way_counts_no_more(table):
    """To end it twice is of no use: the newest of those that end the second case gives way."""
    table.put("older", "quarter-0", 5)
    table.put("gives", "quarter-1")
    table.put("theirs", "half-1", used=USER)
    table.put("more-of-theirs", "quarter-2", used=USER)
    (first,) = writes(table.wait(), ReleaseWrite)
    table.put("newer", 5)
    table.put("rate-of-theirs", 5, used=USER)
    (second,) = writes(table.wait(), ReleaseWrite)

    assert (first.name, second.name) == ("gives", "newer")


def test_the_next_one_waits_for_the_one_before(table):
    """As long as its write is under way, refused or in doubt nobody else gives way, whoever comes meanwhile."""
    table.put("first", "quarter-0")
    table.put("second", "quarter-1")
    table.put("theirs", "half-0", used=USER)
    table.put("more", "quarter-2", used=USER)
    (write,) = writes(table.wait(), ReleaseWrite)
    effects = table.put("third", "quarter-3")
    effects += table.wait() + table.bench.run(Refused(write, "no")) + table.bench.run()

    assert write.name == "second"
    assert writes(effects, ReleaseWrite) == []
    table.clock.now = table.bench.wake_at
    assert [again.name for again in writes(table.bench.run(), ReleaseWrite)] == ["second"]


def test_one_that_is_used_from_now_on_is_passed_over(table):
    """The write came to nothing; another one gives way, if there is one."""
    table.put("first", "quarter-0")
    table.put("second", "quarter-1")
    table.put("theirs", "half-0", used=USER)
    table.put("more", "quarter-2", used=USER)
    (write,) = writes(table.wait(), ReleaseWrite)
    used = table.bench.delta(claim("second"), allocation=has("quarter-1"), reservedFor=USER)

    effects = table.bench.run(used, Conflict(write, None, "changed"))
    assert [again.name for again in writes(effects, ReleaseWrite)] == ["first"]
    assert "nobody uses default/first yet" in said(effects)["theirs"]


@pytest.mark.parametrize(
    "ours",
    [{"used": USER}, {"labels": {"dra-operator.io/allocate": "false"}}],
    ids=["in use", "opted out"],
)
def test_nothing_is_taken_that_must_stay(table, ours):
    """What is in use is never cleared, and what the operator was told to leave alone is left alone."""
    table.put("ours", "half-0", **ours)
    table.put("theirs", "whole", used=USER)

    assert table.giving() == []


def test_what_a_driver_takes_back_is_told_on_its_slice(table):
    """No claim is to blame, so none gives way and none is told."""
    table.put("ours", "half-0")
    table.put("theirs", "half-1", used=USER)
    table.publish(memory=3)
    effects = table.wait()

    assert writes(effects, ReleaseWrite) == []
    ((name, sentence),) = said(effects).items()
    assert name == "counters"
    assert (
        "3 published, 4 allocated, to default/ours (2), default/theirs (2); the driver publishes less"
        in sentence
    )
    assert "nothing is taken back" in sentence
    assert b"dra_operator_overcommitments 1.0" in table.bench.passes.desk.metrics.text()


def test_what_is_found_at_the_start_is_told_on_its_slice(bench):
    """Whether a claim or a slice came last is not known any more."""
    held = [
        bench.delta(claim("ours"), allocation=has("half-0")),
        bench.delta(claim("theirs"), allocation=has("whole"), reservedFor=USER),
    ]
    bench.run(*held, *(Delta("ResourceSlice", "", body["metadata"]["name"], body) for body in slices()))
    bench.clock.now += LASTING_SECONDS
    effects = bench.run()

    assert (writes(effects, ReleaseWrite), list(said(effects))) == ([], ["counters"])


def test_a_share_more_is_no_news(table):
    """Of a device that stays overcommitted the same claims and the same slice are not told again."""
    table.put("a", 6, used=USER)
    table.publish(rate=5)
    told = notices(table.wait())
    effects = table.put("b", 1, used=USER) + table.wait()

    assert (told, notices(effects)) == (["DeviceOvercommitted"], [])


def test_no_time_counts_in_which_nothing_is_heard_of_slices(table):
    """Neither before they are heard of again, nor in the pass that was under way then."""
    table.put("ours", "half-0")
    table.put("theirs", "whole", used=USER)
    table.bench.heard -= {"ResourceSlice"}
    before = table.wait()
    table.bench.heard |= {"ResourceSlice"}
    again = table.wait()
    early, late = table.bench.run(), table.wait()

    assert [notices(effects) for effects in (before, again, early)] == [[], [], []]
    assert notices(late) == ["DeviceOvercommitted"] * 2


def test_what_was_told_stays_told_while_nothing_is_heard_of_slices(table):
    """It has not ended, so it does not begin anew."""
    table.put("a", "half-0", used=USER)
    table.put("b", "whole", used=USER)
    told = notices(table.wait())
    table.bench.heard -= {"ResourceSlice"}
    told += notices(table.bench.run())
    table.bench.heard |= {"ResourceSlice"}
    told += notices(table.bench.run()) + notices(table.wait()) + notices(table.wait())

    assert told == ["DeviceOvercommitted"] * 2


def test_nothing_is_kept_of_what_has_ended(table):
    """Pools come and go."""
    table.put("a", "half-0", used=USER)
    table.put("b", "whole", used=USER)
    table.wait()
    kept = table.bench.passes._collisions
    before = [len(kept._told), len(kept._since)]
    table.bench.run(Delta("ResourceClaim", "default", "b", None))

    assert before == [1, 1]
    assert [len(kept._told), len(kept._since)] == [0, 0]
    assert not any(kept._facts.values())


def test_a_sentence_is_formed_when_something_changes(table, monkeypatch):
    """Not in each pass: a slip of a driver brings about hundreds. The Event is refreshed with what is true then."""
    formed, form = [], messages.overcommitted
    monkeypatch.setattr(messages, "overcommitted", lambda *given: formed.append(form(*given)) or formed[-1])
    table.put("a", 6, used=USER)
    table.publish(rate=5)
    table.wait()
    for _ in range(3):
        table.bench.run()
    assert len(formed) == 1

    table.put("b", 1, used=USER)
    table.clock.now += 1200
    (notice,) = [effect for effect in table.bench.run() if isinstance(effect, Notice)]
    assert "5 published, 7 allocated" in notice.message
    assert len(formed) == 2


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([*SIZES, 3, 5]), min_size=1, max_size=2, unique=True), st.booleans()
        ),
        max_size=7,
    )
)
def test_in_the_end_no_claim_of_ours_stands_in_the_way_of_one_in_use(claims):
    """Whatever came in, what is still too much is so by what claims in use have, or by none; and it ends."""
    bench = Bench(Clock())
    table = Table(bench)
    taken = set[str]()
    for number, (results, used) in enumerate(claims):
        # Who has a device that another has for itself gives it back at once, which is another matter.
        free = [result for result in results if result not in taken or result == SHARED]
        taken.update(result for result in free if isinstance(result, str))
        table.put(f"claim-{number}", *free, used=USER if used else None)
    gave = table.giving()

    using = {("default", f"claim-{number}") for number, (_, used) in enumerate(claims) if used}
    assert len(set(gave)) == len(gave)
    for case in Overcommitments(bench.passes._intake._inventory, bench.ledger).find():
        assert using.isdisjoint(case.claims) or all(using & part.claims for part in case.parts)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=7))
def test_no_more_give_way_than_are_needed(shares):
    """Of claims that have one share each, the largest that may go would have to be as many."""
    table = Table(Bench(Clock()))
    for number, (amount, used) in enumerate(shares):
        table.put(f"claim-{number}", amount, used=USER if used else None)
    gave = table.giving()

    ours = sorted((amount for amount, used in shares if not used), reverse=True)
    left, needed = sum(amount for amount, _ in shares), 0
    while left > 10 and needed < len(ours):
        left -= ours[needed]
        needed += 1
    assert len(gave) == (needed if len(ours) < len(shares) else 0)


async def test_a_claim_that_nobody_uses_gets_another_partition(cluster, operator, monkeypatch):
    """kube-scheduler gave half of the GPU to a pod when we gave away the whole: ours moves on to the other half."""
    monkeypatch.setattr(collisions, "LASTING_SECONDS", 0.1)
    cluster.put(node(), CLASS, *slices(), claim("ours"))
    assert await cluster.allocated("ours") == ["whole"]
    status = {"allocation": has("half-0"), "reservedFor": USER}
    cluster.put(claim("theirs") | {"status": status})

    await cluster.until(lambda: cluster.devices("ours") == ["half-1"], "another device")
    assert cluster.devices("theirs") == ["half-0"]
    for name in ("ours", "theirs"):
        await cluster.until(lambda name=name: "DeviceOvercommitted" in cluster.reasons(name))
    metric = b"dra_operator_overcommitments 0.0"
    await cluster.until(lambda: metric in operator.runtime.metrics.text(), "the end of the collision")


async def test_nothing_is_taken_back_while_nothing_is_heard_of_slices(cluster, operator, monkeypatch):
    """A driver may have added what a pod got: that is seen when the slices are, and until then nobody gives way."""
    monkeypatch.setattr(collisions, "LASTING_SECONDS", 0.1)
    sizes = {"half-0": 2, "half-1": 2}
    cluster.put(node(), CLASS, *slices(memory=2, sizes=sizes), claim("ours"))
    assert await cluster.allocated("ours") == ["half-0"]
    faults = [
        cluster.server.faults.answer(503, times=None, verb=verb, kind="ResourceSlice")
        for verb in ("list", "watch")
    ]
    cluster.server.faults.cut_watches("ResourceSlice")
    await cluster.until(lambda: operator.runtime._reflectors["ResourceSlice"].trouble)
    cluster.put(*slices(memory=4, sizes=sizes))
    status = {"allocation": has("half-1"), "reservedFor": USER}
    cluster.put(claim("theirs") | {"status": status})

    await asyncio.sleep(0.5)
    assert cluster.devices("ours") == ["half-0"]
    for fault in faults:
        fault.times = 0
    await cluster.until(lambda: operator.runtime._reflectors["ResourceSlice"].trouble is None)
    await asyncio.sleep(0.5)
    assert cluster.devices("ours") == ["half-0"]
    assert not {"DeviceOvercommitted"}.intersection(cluster.reasons("ours") + cluster.reasons("theirs"))
