"""The ledger against a model that keeps nothing but what each claim says."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.read import read_object
from dra_operator.ledger import Ledger

POOLS = ("one", "two")
RESULT: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    driver=st.just("gpu"),
    pool=st.sampled_from(POOLS),
    device=st.sampled_from("abc"),
    adminAccess=st.sampled_from([None, None, None, True]),
    shareID=st.sampled_from([None, None, "s"]),
    consumedCapacity=st.sampled_from([{}, {"memory": "1"}, {"memory": "2", "cores": "3"}]),
)
WHOLE = {"driver": "gpu", "pool": "one", "adminAccess": None, "shareID": None, "consumedCapacity": {}}
# That one says again what another said is rare among results of any kind.
USUAL: list[list[dict[str, Any]]] = [[{**WHOLE, "device": device}] for device in "ab"]
EVENT = st.tuples(
    st.sampled_from(["put", "put", "assume", "withdraw", "remove"]),
    st.sampled_from("xyz"),
    st.sampled_from(USUAL) | st.lists(RESULT, max_size=4),
)


def claim(name: str, results: list[dict[str, Any]]) -> Any:
    """Return a claim with these results, without an allocation if there are none."""
    listed = [{key: value for key, value in result.items() if value is not None} for result in results]
    status = {"allocation": {"devices": {"results": listed}}} if listed else {}
    return read_object({"metadata": {"name": name, "namespace": "team"}, "status": status}, "ResourceClaim")


class Model:
    """What each claim says and what we assume for it; the rest is counted when it is asked for."""

    def __init__(self) -> None:
        self.written: dict[str, list[dict[str, Any]]] = {}
        self.assumed: dict[str, list[dict[str, Any]]] = {}

    def play(self, event: str, name: str, results: list[dict[str, Any]]) -> None:
        """Do what the ledger does."""
        if event == "put":
            self.written[name] = results
            if results:
                self.assumed.pop(name, None)
        elif event == "assume":
            self.assumed[name] = results
        else:
            self.assumed.pop(name, None)
            if event == "remove":
                self.written.pop(name, None)

    def uses(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what counts, each with its claim."""
        return [
            (name, result)
            for table in (self.written, self.assumed)
            for name, results in table.items()
            for result in results
            if not result["adminAccess"]
        ]


def play(ledger: Ledger, event: str, name: str, results: list[dict[str, Any]]) -> None:
    """Let something happen to a claim."""
    body = claim(name, results)
    if event == "put":
        ledger.put(body)
    elif event == "assume":
        allocation = body.status.allocation or claim(name, [{"adminAccess": True}]).status.allocation
        ledger.assume("team", name, allocation)
    else:
        getattr(ledger, event)("team", name)


def taken(model: Model) -> Counter[tuple[str, ...]]:
    """Return what claims take away from others: pool and device, the claim, and what a share consumes."""
    return Counter(
        (
            result["pool"],
            result["device"],
            name,
            str(result["consumedCapacity"]) if result["shareID"] else "alone",
        )
        for name, result in model.uses()
    )


@given(st.lists(EVENT, max_size=15))
def test_whoever_looks_later_learns_of_each_device_that_came_back(events: list[Any]) -> None:
    """Whatever has become of it since, and of each whose use is another one."""
    ledger, model = Ledger(), Model()
    touched = ledger.subscribe()
    back, other = set[tuple[str, str]](), set[tuple[str, str]]()
    for event, name, results in events:
        before = taken(model)
        model.play(event, name, results)
        play(ledger, event, name, results)
        after = taken(model)
        back |= {(pool, device) for pool, device, *_ in before - after}
        other |= {(pool, device) for pool, device, *_ in after - before}

    told = {
        (pool, device): came_back
        for (_, pool), devices in touched.by_pool.items()
        for device, came_back in devices.items()
    }
    assert back <= {place for place, came_back in told.items() if came_back}
    assert other <= told.keys()


@given(st.lists(EVENT, max_size=15))
def test_what_is_held_follows_from_what_the_claims_say(events: list[Any]) -> None:
    """Devices, shares, amounts, owners and collisions are those of a model that counts anew each time."""
    ledger, model = Ledger(), Model()
    for event, name, results in events:
        model.play(event, name, results)
        play(ledger, event, name, results)

    for pool in POOLS:
        uses = [(name, result) for name, result in model.uses() if result["pool"] == pool]
        alone = {(result["device"], name) for name, result in uses if not result["shareID"]}
        shares = [
            (result["device"], name, result["consumedCapacity"]) for name, result in uses if result["shareID"]
        ]
        assert {
            (device, name) for device, names in ledger.held(("gpu", pool)).items() for _, name in names
        } == alone
        assert {
            (device, name)
            for device, found in ledger.shared(("gpu", pool)).items()
            for _, name in found.claims
        } == {(device, name) for device, name, _ in shares}
        for device in "abc":
            amounts = Counter[str]()
            for other, _, consumed in shares:
                if other == device:
                    amounts.update({key: int(value) * 10**9 for key, value in consumed.items()})
            assert +Counter(ledger.consumed(("gpu", pool), device)) == amounts
            owners = {name for other, name in alone if other == device}
            sharing = {name for other, name, _ in shares if other == device}
            assert ledger.holders(("gpu", pool), [device]) == {("team", name) for name in owners | sharing}
            contested = [item for item in ledger.collisions() if item.device == ("gpu", pool, device)]
            assert bool(contested) == (bool(owners) and len(owners | sharing) > 1)
