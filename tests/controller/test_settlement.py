"""From when owned devices may be used: with the policy, without it, and after a restart."""

import pytest

from dra_operator.api.names import OWNED_FINALIZER, OWNED_KEY, SETTLED_ANNOTATION
from dra_operator.api.read import read_object
from dra_operator.cluster.ownership_policy import PoolsFence, RulesFence
from dra_operator.controller.owned_devices import PolicyState, SettlementTimer
from dra_operator.inventory.ownership import settled_mark

POOL, OTHER = ("gpu", "one"), ("gpu", "two")
RULES = PolicyState(RulesFence("operator", "v1"), uid="policy/binding")
AGAIN = PolicyState(RULES.fence, uid="policy-2/binding-2")
"""The same policy, deleted and installed again."""
NO_FENCE = PolicyState(None, "not installed")


def rule(name="own", generation=1, settled=None, finalizers=(OWNED_FINALIZER,), **selector):
    """A rule that owns the devices of a driver, and that the operator holds."""
    annotations = {} if settled is None else {SETTLED_ANNOTATION: settled}
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation, "annotations": annotations}
    metadata["finalizers"] = list(finalizers)
    spec = {
        "taint": {"key": OWNED_KEY, "effect": "NoSchedule"},
        "deviceSelector": {"driver": "gpu", **selector},
    }
    return read_object({"kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}, "DeviceTaintRule")


@pytest.fixture
def timer():
    """A timer with the default times."""
    return SettlementTimer(settle=30, quiet=600)


def settled(timer, now, *rules, knows=True):
    """What may be used by now, with these rules and two pools; the API server is asked and `knows` the rules."""
    found = {each.metadata.name: each for each in rules}
    timer.observe_rules(found, now)
    for name in timer.settled(found, [POOL, OTHER], now).unproven:
        mark = settled_mark(found[name].metadata, timer.policy.uid)
        timer.observe_answer(mark, "" if knows else "not known")
    return timer.settled(found, [POOL, OTHER], now)


def test_nothing_settles_before_the_policy_was_looked_for(timer):
    """As long as nobody knows whether a policy protects devices, none is used."""
    assert not settled(timer, 1000, rule(settled="uid-own/1/policy/binding")).rules


def test_with_the_policy_a_rule_settles_after_its_time(timer):
    """A rule that the API server knows is used 30 s after it was seen first, and says when that is."""
    timer.observe_policy(RULES, 0)
    assert settled(timer, 10, rule()).due == 40

    assert settled(timer, 40, rule()).rules == {"own"}


def test_a_rule_settles_no_earlier_than_its_policy(timer):
    """A policy that was installed after the rule protects from then on, and from then the time counts."""
    timer.observe_policy(NO_FENCE, 0)
    settled(timer, 0, rule())
    timer.observe_policy(RULES, 100)

    assert not settled(timer, 129, rule()).rules
    assert settled(timer, 130, rule()).rules == {"own"}


def test_what_has_settled_stays_so_after_a_restart(timer):
    """A rule whose annotation names its generation is used at once; one that was changed since is not."""
    timer.observe_policy(RULES, 0)

    assert settled(timer, 0, rule(generation=3, settled="uid-own/3/policy/binding")).rules == {"own"}
    assert not settled(timer, 0, rule("other", generation=4, settled="uid-other/3/policy/binding")).rules


def test_a_rule_that_is_not_held_is_not_used(timer):
    """Without our finalizer a rule could go while allocations are being written."""
    timer.observe_policy(RULES, 0)
    settled(timer, 0, rule(finalizers=()))
    assert settled(timer, 100, rule(finalizers=())).rules == frozenset()
    assert settled(timer, 100, rule()).rules == {"own"}


def test_rules_are_marked_when_all_that_they_own_is_used(timer):
    """A rule for two pools is marked when both are quiet; with a policy for pools as well."""
    timer.observe_policy(NO_FENCE, 0)
    settled(timer, 0, rule())
    timer.observe_allocation(OTHER, 100)
    assert settled(timer, 600, rule()).marked == {}
    assert settled(timer, 700, rule()).marked == {"own": "uid-own/1"}

    pools = PoolsFence("operator", frozenset({"gpu"}), frozenset())
    timer.observe_policy(PolicyState(pools, uid="list/its"), 1000)

    assert settled(timer, 1029, rule()).marked == {}
    assert settled(timer, 1030, rule()).marked == {"own": "uid-own/1/list/its"}


def test_without_the_policy_a_pool_must_have_been_quiet(timer):
    """A pool is used when nobody else has stored an allocation there for 600 s, and is not protected."""
    timer.observe_policy(NO_FENCE, 0)
    settled(timer, 0, rule(pool="one"))
    timer.observe_allocation(POOL, 500)

    early, late = settled(timer, 1099, rule(pool="one")), settled(timer, 1100, rule(pool="one"))

    assert (early.pools, early.due) == (frozenset(), 1100)
    assert late.pools == late.unfenced == {POOL}


def test_a_pool_that_others_use_is_not_quiet_however_old_the_rule(timer):
    """Each allocation of somebody else stops the use of a pool without policy for another 600 s."""
    timer.observe_policy(NO_FENCE, 0)
    settled(timer, 0, rule(pool="one"))
    assert settled(timer, 600, rule(pool="one")).pools == {POOL}

    timer.observe_allocation(POOL, 601)

    assert not settled(timer, 1200, rule(pool="one")).pools


def test_a_policy_for_pools_protects_the_pools_that_it_names(timer):
    """Slices of a pool in the list settle as rules do, others wait for quiet."""
    timer.observe_policy(PolicyState(PoolsFence("operator", frozenset(), frozenset({POOL}))), 0)
    for key in (POOL, OTHER):
        timer.observe_published(key, 0, owned=True)

    found = settled(timer, 30)

    assert found.pools == {POOL}
    assert found.unfenced == {OTHER}


def test_a_rule_that_nobody_asked_about_is_not_used(timer):
    """When its time has passed the API server is to be asked about a rule; until it answers nothing is used."""
    timer.observe_policy(RULES, 0)
    found = {"own": rule()}
    timer.observe_rules(found, 0)

    early, late = (timer.settled(found, [POOL], now) for now in (29, 1000))

    assert (early.unproven, early.rules) == (frozenset(), frozenset())
    assert (late.unproven, late.rules, late.pools, late.unfenced) == ({"own"}, *[frozenset()] * 3)


def test_a_rule_that_the_api_server_does_not_know_waits_for_quiet(timer):
    """It is asked about again and again; as long as it is not known, its pools are used as without a policy."""
    timer.observe_policy(RULES, 0)
    settled(timer, 0, rule(pool="one"))
    timer.observe_allocation(POOL, 100)

    early, late = (
        settled(timer, 699, rule(pool="one"), knows=False),
        settled(timer, 700, rule(pool="one"), knows=False),
    )

    assert (early.unknown, early.unproven, early.pools) == ({"own": "not known"}, {"own"}, frozenset())
    assert (late.pools, late.unfenced, late.rules) == ({POOL}, {POOL}, frozenset())
    assert late.marked == {"own": "uid-own/1"}
    assert settled(timer, 701, rule(pool="one")).rules == {"own"}


@pytest.mark.parametrize("mark", ["uid-own/1", "uid-own/1/policy/binding"])
def test_the_mark_of_another_policy_does_not_count(timer, mark):
    """Under a policy that was installed again, and after an update, a rule settles anew and is asked about."""
    timer.observe_policy(AGAIN, 0)

    assert not settled(timer, 0, rule(settled=mark)).rules
    assert not settled(timer, 30, rule(settled=mark), knows=False).rules
    assert settled(timer, 31, rule(settled=mark)).marked == {"own": "uid-own/1/policy-2/binding-2"}


def test_a_policy_that_is_installed_again_meanwhile_ends_what_has_settled(timer):
    """What the API server knew under the first policy says nothing about the second."""
    timer.observe_policy(RULES, 0)
    settled(timer, 0, rule())
    assert settled(timer, 30, rule()).rules == {"own"}

    timer.observe_policy(AGAIN, 100)

    assert not settled(timer, 129, rule()).rules
    assert not settled(timer, 130, rule(), knows=False).rules


def test_an_allocation_by_somebody_else_breaks_the_word_of_the_policy(timer):
    """Nothing that the policy protects is used until 600 s have passed without another, and the API server knows it."""
    timer.observe_policy(RULES, 0)
    marked = rule(settled="uid-own/1/policy/binding")
    assert settled(timer, 0, marked).rules == {"own"}

    timer.observe_breach(10)
    timer.observe_breach(20)

    assert settled(timer, 619, marked).rules == settled(timer, 619, rule()).rules == frozenset()
    assert settled(timer, 619, rule()).due == 620
    assert not settled(timer, 620, rule(), knows=False).rules
    assert settled(timer, 620, rule()).rules == {"own"}
