"""Which claim holds what."""

from typing import Any

import pytest

from dra_operator.ledger import Ledger

POOL = ("gpu", "pool")
SHARE = {"device": "1", "shareID": "a", "consumedCapacity": {"memory": "2Gi"}}


def test_an_allocated_claim_holds_its_devices(ledger: Ledger, holding: Any) -> None:
    """The status of a claim is what counts."""
    ledger.put(holding("a", "1", "2"))

    assert "1" in ledger.held(POOL)
    assert ledger.holders(POOL, ["2"]) == {("team", "a")}


def test_a_deallocated_claim_holds_nothing(ledger: Ledger, holding: Any) -> None:
    """A claim without allocation frees what it held."""
    ledger.put(holding("a", "1"))
    ledger.put(holding("a"))

    assert "1" not in ledger.held(POOL)
    assert ledger.holders(POOL, ["1"]) == set()


def test_admin_access_holds_nothing(ledger: Ledger, holding: Any) -> None:
    """It takes nothing away from anybody."""
    ledger.put(holding("a", {"device": "1", "adminAccess": True}))

    assert not ledger.held(POOL)
    assert ledger.version == 0


def test_shares_add_up(ledger: Ledger, holding: Any) -> None:
    """Each share adds its amounts, and gives back what it added."""
    ledger.put(holding("a", SHARE))
    ledger.put(holding("b", {**SHARE, "shareID": "b", "consumedCapacity": {"memory": "1Gi", "cores": "3"}}))
    both = dict(ledger.consumed(POOL, "1"))
    ledger.remove("team", "a")

    assert both == {"memory": 3 * 2**30 * 10**9, "cores": 3 * 10**9}
    assert ledger.consumed(POOL, "1")["memory"] == 2**30 * 10**9
    assert "1" in ledger.shared(POOL)
    assert "1" not in ledger.held(POOL)


def test_without_the_feature_a_share_is_the_whole_device(holding: Any) -> None:
    """With consumable capacity off, results with a share id are exclusive."""
    ledger = Ledger(shares=False)
    ledger.put(holding("a", SHARE))

    assert "1" in ledger.held(POOL)


def test_an_assumption_counts_until_it_is_withdrawn(ledger: Ledger, holding: Any) -> None:
    """What we decided is used before the API server says so."""
    ledger.put(holding("a"))
    ledger.assume("team", "a", holding("a", "1").status.allocation)
    held = "1" in ledger.held(POOL)
    ledger.put(holding("a"))
    still = "1" in ledger.held(POOL)
    ledger.withdraw("team", "a")

    assert held
    assert still
    assert "1" not in ledger.held(POOL)


def test_a_written_allocation_supersedes_the_assumption(ledger: Ledger, holding: Any) -> None:
    """Where they differ, what is written holds."""
    ledger.assume("team", "a", holding("a", "1").status.allocation)
    ledger.put(holding("a", "2"))

    assert "1" not in ledger.held(POOL)
    assert "2" in ledger.held(POOL)


def test_a_confirmed_assumption_is_no_change(ledger: Ledger, holding: Any) -> None:
    """Nothing is taken and nothing comes back when the API server confirms a decision."""
    ledger.assume("team", "a", holding("a", "1").status.allocation)
    touched, version = ledger.subscribe(), ledger.version
    ledger.put(holding("a", "1"))

    assert touched.by_pool() == {}
    assert ledger.version == version
    assert ledger.holders(POOL, ["1"]) == {("team", "a")}


def test_what_was_written_before_an_assumption_goes_when_it_is_confirmed(
    ledger: Ledger, holding: Any
) -> None:
    """A claim that was allocated anew has its new device alone."""
    ledger.put(holding("a", "1"))
    ledger.assume("team", "a", holding("a", "2").status.allocation)
    ledger.put(holding("a", "2"))

    assert ledger.held(POOL) == {"2": (("team", "a"),)}


def test_a_claim_that_is_gone_takes_its_assumption_with_it(ledger: Ledger, holding: Any) -> None:
    """Nothing is left of a removed claim."""
    ledger.assume("team", "a", holding("a", "1").status.allocation)
    ledger.remove("team", "a")

    assert not ledger.held(POOL)


def test_a_device_listed_twice_comes_back_once_its_claim_goes(ledger: Ledger, holding: Any) -> None:
    """It is held by one claim, so it is no collision, and nothing of it stays behind."""
    ledger.put(holding("a", "1", "1"))
    collisions, held = ledger.collisions(), ledger.holders(POOL, ["1"])
    ledger.remove("team", "a")

    assert collisions == ()
    assert held == {("team", "a")}
    assert not ledger.held(POOL)


def test_two_exclusive_claims_collide(ledger: Ledger, holding: Any) -> None:
    """Both are named; shares of one device are no collision."""
    ledger.put(holding("b", "1"))
    ledger.put(holding("a", "1", {**SHARE, "device": "2"}))
    ledger.put(holding("c", {**SHARE, "device": "2", "shareID": "c"}))

    (collision,) = ledger.collisions()
    assert collision.device == ("gpu", "pool", "1")
    assert collision.claims == (("team", "a"), ("team", "b"))


@pytest.mark.parametrize("first", ["alone", "sharing"])
def test_a_share_beside_an_exclusive_use_collides(ledger: Ledger, holding: Any, first: str) -> None:
    """Whichever came first; each of the two is another holder to the other, until one is gone."""
    claims = {"alone": holding("alone", "2"), "sharing": holding("sharing", {**SHARE, "device": "2"})}
    for name in (first, *(claims.keys() - {first})):
        ledger.put(claims[name])

    assert [item.claims for item in ledger.collisions()] == [(("team", "alone"), ("team", "sharing"))]
    assert ledger.other_holders(("team", "alone")) == {("team", "sharing")}
    assert ledger.other_holders(("team", "sharing")) == {("team", "alone")}
    ledger.remove("team", first)
    assert ledger.collisions() == ()
    assert not ledger.other_holders(("team", "alone")) | ledger.other_holders(("team", "sharing"))


def test_claims_that_share_a_device_are_no_other_holders(ledger: Ledger, holding: Any) -> None:
    """Each has its own share, and admin access has nothing."""
    ledger.put(holding("a", {**SHARE, "device": "2"}))
    ledger.put(holding("b", {**SHARE, "device": "2", "shareID": "b"}))

    assert ledger.other_holders(("team", "a")) == set()


def test_a_collision_ends_with_one_of_its_claims(ledger: Ledger, holding: Any) -> None:
    """The device is no longer contested, however the claim went."""
    ledger.put(holding("a", "1"))
    ledger.put(holding("b", "1"))
    ledger.put(holding("c", "1"))
    ledger.remove("team", "a")
    (collision,) = ledger.collisions()
    ledger.put(holding("b", "2"))

    assert collision.claims == (("team", "b"), ("team", "c"))
    assert ledger.collisions() == ()


def test_changes_say_what_came_back(ledger: Ledger, holding: Any) -> None:
    """Only what was given back can help a claim that waits."""
    ledger.put(holding("a", "1"))
    touched = ledger.subscribe()
    ledger.put(holding("b", "2"))
    ledger.remove("team", "a")
    ledger.put(holding("c", "3"))

    assert touched.by_pool() == {POOL: {"2": False, "1": True, "3": False}}


def test_what_was_taken_is_told_by_pool_however_much_it_is(ledger: Ledger, holding: Any) -> None:
    """Whoever looks after a long time is told of each device once, and nothing else is kept meanwhile."""
    touched = ledger.subscribe()
    ledger.put(holding("first", "0", {"device": "admin", "adminAccess": True}))
    for number in range(500):
        ledger.assume("team", f"{number % 7}", holding("any", f"{number % 9}").status.allocation)
        assert len(touched.taken) <= 64

    assert touched.by_pool().keys() == {POOL}
    assert touched.by_pool()[POOL].keys() == {f"{number}" for number in range(9)}
    assert touched.taken == []


def test_a_share_of_less_than_nothing_is_something_that_came_back(ledger: Ledger, holding: Any) -> None:
    """It leaves more to others, whatever else the claim takes of the device, before it or after."""
    touched = ledger.subscribe()
    less = {**SHARE, "shareID": "b", "consumedCapacity": {"memory": "-1"}}
    ledger.put(holding("a", SHARE, less, {**SHARE, "shareID": "c"}))

    assert touched.by_pool() == {POOL: {"1": True}}


def test_an_allocation_that_says_the_same_is_no_change(ledger: Ledger, holding: Any) -> None:
    """Of what is not used by it, as with admin access, it may say anything."""
    ledger.put(holding("a", "1", SHARE))
    touched, version = ledger.subscribe(), ledger.version
    ledger.put(holding("a", {"device": "2", "adminAccess": True}, "1", SHARE))

    assert (touched.by_pool(), ledger.version) == ({}, version)


def test_whoever_is_gone_is_told_nothing(ledger: Ledger, holding: Any) -> None:
    """The ledger keeps none of those who once subscribed; the others go on being told."""
    gone = ledger.subscribe()
    kept = ledger.subscribe()
    del gone
    last = ledger.subscribe()
    ledger.put(holding("a", "1"))

    assert len(ledger._subscribers._known) == 2
    assert kept.by_pool() == last.by_pool() == {POOL: {"1": False}}


def test_a_claim_arrives_once(ledger: Ledger, holding: Any) -> None:
    """What came in as allocated is told once; what we decided, or is gone by now, is not."""
    ledger.put(holding("a", "1"))
    ledger.put(holding("gone", "2"))
    ledger.remove("team", "gone")
    ledger.assume("team", "ours", holding("ours", "3").status.allocation)
    ledger.put(holding("ours", "3"))

    assert (ledger.pop_arrived(), ledger.pop_arrived()) == ({("team", "a")}, set())
