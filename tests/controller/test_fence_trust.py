"""Whether the policy around owned devices is believed: what the API server is asked, and what others allocate."""

import pytest
from cycle_bench import Bench, event_reasons, writes

from cluster import FINALIZER, allocation, claim, resource_slice
from dra_operator.api.names import OWNED_FINALIZER, OWNED_KEY, SETTLED_ANNOTATION
from dra_operator.cluster.ownership_policy import RuleAnswer, RuleProbe, RulesFence
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Stored
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.owned_devices import PolicyState
from dra_operator.inventory.ownership import Settlement
from factories import taint_rule

POLICY = PolicyState(RulesFence("operator", "v1"), uid="policy/binding")
AGAIN = PolicyState(POLICY.fence, uid="policy-2/binding-2")
DRIVER, POOL, DEVICE = "gpu.example.com", "pool-1", "gpu-0"
MARK = "uid-own/1/policy/binding"


@pytest.fixture
def bench(clock):
    """A pass of an operator that uses owned devices 30 s after their rule, and 600 s after somebody else did."""
    bench = Bench(clock, Settlement())
    bench.cycle.settlement.settle, bench.cycle.settlement.quiet = 30, 600
    bench.run()
    return bench


def rule(mark=None, **metadata):
    """What the watch says of a rule that the operator holds, with the mark of having settled."""
    annotations = {} if mark is None else {SETTLED_ANNOTATION: mark}
    common = {"uid": "uid-own", "generation": 1, "resourceVersion": "1", "finalizers": [OWNED_FINALIZER]}
    known = {**common, "annotations": annotations, **metadata}
    body = taint_rule("own", {"driver": DRIVER}, key=OWNED_KEY, **known)
    return Delta("DeviceTaintRule", "", "own", body)


def devices():
    """What the watch says of a slice with one device."""
    return Delta("ResourceSlice", "", "slice-1", resource_slice(DEVICE))


def foreign(bench, name="foreign"):
    """What the watch says of a claim that somebody else has allocated."""
    return bench.delta(claim(name, finalizers=[FINALIZER]), allocation=allocation(DEVICE))


def probes(effects):
    """The questions among what is to be done."""
    return [effect for effect in effects if isinstance(effect, RuleProbe)]


def marks(effects):
    """What is to be written as the mark of the rule."""
    return [write.annotations for write in writes(effects, "mark") if write.annotations]


def is_used(bench):
    """Whether the operator allocates the device."""
    (slice_,) = bench.allocator.inventory.pools[DRIVER, POOL].slices.values()
    return bool(slice_.ours)


def settle(bench):
    """Let the rule settle and the API server know it."""
    bench.run(POLICY, rule(), devices(), bench.delta(claim("waits")))
    bench.clock.now += 30
    (probe,) = probes(bench.run())
    store(bench, bench.run(RuleAnswer(probe, is_known=True)), rule(MARK, resourceVersion="2"))


def store(bench, effects, newer):
    """Let the write to the rule be stored; `newer` is what the watch says then."""
    (write,) = writes(effects, "mark")
    bench.run(newer, Stored(write, {}))


def test_the_api_server_is_asked_before_the_first_device_is_used(bench):
    """The question is about a claim that waits, after the settling time, and once; the answer lets devices be used."""
    bench.run(POLICY, rule(), devices(), bench.delta(claim("waits")))
    assert probes(bench.run()) == []
    bench.clock.now += 30

    (probe,) = probes(bench.run())
    assert (probe.mark, probe.claim.metadata.name, probe.device) == (MARK, "waits", (DRIVER, "any", "any"))
    assert probes(bench.run()) == []
    assert not is_used(bench)

    effects = bench.run(RuleAnswer(probe, is_known=True))

    assert is_used(bench)
    assert marks(effects) == [{SETTLED_ANNOTATION: MARK}]
    assert bench.cycle.notes() == []


def test_a_rule_with_its_mark_is_used_at_once(bench):
    """After a restart of the operator, under the same policy, nothing is asked."""
    effects = bench.run(POLICY, rule(MARK), devices(), bench.delta(claim("waits")))

    assert probes(effects) == []
    assert is_used(bench)


def test_a_rule_that_the_api_server_does_not_know_waits_and_readyz_says_why(bench):
    """It is asked again after a second, about another claim, and after each no later; the first yes ends it."""
    bench.run(AGAIN, rule(MARK), devices(), bench.delta(claim("one")), bench.delta(claim("two")))
    bench.clock.now += 30
    (first,) = probes(bench.run())
    assert probes(bench.run(RuleAnswer(first, is_known=False))) == []
    assert not is_used(bench)
    (note,) = bench.cycle.notes()
    assert "does not protect devices of DeviceTaintRule own: kube-apiserver does not follow new rules" in note
    assert (
        f"those of {DRIVER}/{POOL} are not allocated before nobody else has allocated there for 600 s" in note
    )
    bench.clock.now += 1

    (second,) = probes(bench.run())
    assert {first.claim.metadata.name, second.claim.metadata.name} == {"one", "two"}
    bench.run(RuleAnswer(second, is_known=True))

    assert is_used(bench)
    assert bench.cycle.notes() == []


def test_an_allocation_by_somebody_else_ends_the_use_of_what_the_policy_protects(bench):
    """Nothing is decided there until it has not happened for 600 s and the rule is known; the mark goes meanwhile."""
    settle(bench)
    assert is_used(bench)

    effects = bench.run(foreign(bench, "first"))

    assert "OwnedDeviceAllocated" in event_reasons(effects)
    (event,) = (effect for effect in effects if isinstance(effect, EventRequest))
    assert event.message.endswith("; no owned device is allocated before nobody else has for 600 s")
    assert marks(effects) == [{SETTLED_ANNOTATION: None}]
    assert not is_used(bench)
    (note,) = bench.cycle.notes()
    assert f"somebody else has allocated {DRIVER}/{POOL}/{DEVICE} although the policy" in note
    assert "has not happened for 600 s, in 600 s at the earliest" in note

    store(bench, effects, rule(resourceVersion="3"))
    bench.clock.now += 599
    effects = bench.run(Delta("ResourceClaim", "default", "first", None), foreign(bench, "second"))
    assert "OwnedDeviceAllocated" in event_reasons(effects)
    bench.clock.now += 599
    assert probes(bench.run()) == []

    bench.clock.now += 1
    (probe,) = probes(bench.run())
    assert marks(bench.run(RuleAnswer(probe, is_known=True))) == [{SETTLED_ANNOTATION: MARK}]
    assert is_used(bench)
    assert bench.cycle.notes() == []


def test_what_an_operator_before_this_one_wrote_breaks_no_word(clock):
    """While its writes may still be stored, an allocation that arrives may be one of them."""
    bench = Bench(clock, Settlement())
    bench.cycle.observe([POLICY, rule(MARK), devices(), bench.delta(claim("late", finalizers=[FINALIZER]))])
    bench.run()
    bench.run()

    bench.run(bench.delta(claim("late", finalizers=[FINALIZER]), allocation=allocation(DEVICE)))

    assert is_used(bench)
    assert bench.cycle.notes() == []
