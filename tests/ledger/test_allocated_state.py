"""Which claim holds what."""

from typing import Any

from dra_operator.ledger import Ledger

POOL = ("gpu", "pool")
SHARE = {"device": "1", "shareID": "a", "consumedCapacity": {"memory": "2Gi"}}


def test_without_the_feature_a_share_is_the_whole_device(holding: Any) -> None:
    """With consumable capacity off, results with a share id are exclusive."""
    ledger = Ledger(shares=False)
    ledger.put(holding("a", SHARE))

    assert "1" in ledger.held(POOL)


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

    assert touched.by_pool == {}
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


def test_a_device_listed_twice_comes_back_once_its_claim_goes(ledger: Ledger, holding: Any) -> None:
    """It is held by one claim, so it is no collision, and nothing of it stays behind."""
    ledger.put(holding("a", "1", "1"))
    collisions, held = ledger.collisions(), ledger.holders(POOL, ["1"])
    ledger.remove("team", "a")

    assert collisions == ()
    assert held == {("team", "a")}
    assert not ledger.held(POOL)


def test_a_share_of_less_than_nothing_is_something_that_came_back(ledger: Ledger, holding: Any) -> None:
    """It leaves more to others, whatever else the claim takes of the device, before it or after."""
    touched = ledger.subscribe()
    less = {**SHARE, "shareID": "b", "consumedCapacity": {"memory": "-1"}}
    ledger.put(holding("a", SHARE, less, {**SHARE, "shareID": "c"}))

    assert touched.by_pool == {POOL: {"1": True}}


def test_an_allocation_that_says_the_same_is_no_change(ledger: Ledger, holding: Any) -> None:
    """Of what is not used by it, as with admin access, it may say anything."""
    ledger.put(holding("a", "1", SHARE))
    touched, version = ledger.subscribe(), ledger.version
    ledger.put(holding("a", {"device": "2", "adminAccess": True}, "1", SHARE))

    assert (touched.by_pool, ledger.version) == ({}, version)


def test_a_claim_arrives_once(ledger: Ledger, holding: Any) -> None:
    """What came in as allocated is told once; what we decided, or is gone by now, is not."""
    ledger.put(holding("a", "1"))
    ledger.put(holding("gone", "2"))
    ledger.remove("team", "gone")
    ledger.assume("team", "ours", holding("ours", "3").status.allocation)
    ledger.put(holding("ours", "3"))

    assert (ledger.pop_arrived(), ledger.pop_arrived()) == ({("team", "a")}, set())


def test_what_was_taken_is_told_by_pool_however_much_it_is(ledger: Ledger, holding: Any) -> None:
    """Whoever looks after a long time is told of each device once, and nothing else is kept meanwhile."""
    touched = ledger.subscribe()
    ledger.put(holding("first", "0", {"device": "admin", "adminAccess": True}))
    for number in range(500):
        ledger.assume("team", f"{number % 7}", holding("any", f"{number % 9}").status.allocation)

    assert touched.by_pool.keys() == {POOL}
    assert touched.by_pool[POOL].keys() == {f"{number}" for number in range(9)}


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
