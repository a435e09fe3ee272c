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
EVENT = st.tuples(
    st.sampled_from(["put", "put", "assume", "withdraw", "remove"]),
    st.sampled_from("xyz"),
    st.lists(RESULT, max_size=4),
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


@given(st.lists(EVENT, max_size=15))
def test_what_is_held_follows_from_what_the_claims_say(events: list[Any]) -> None:
    """Devices, shares, amounts, owners and collisions are those of a model that counts anew each time."""
    ledger, model = Ledger(), Model()
    for event, name, results in events:
        model.play(event, name, results)
        body = claim(name, results)
        if event == "put":
            ledger.put(body)
        elif event == "assume":
            allocation = body.status.allocation or claim(name, [{"adminAccess": True}]).status.allocation
            ledger.assume("team", name, allocation)
        else:
            getattr(ledger, event)("team", name)

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
            assert bool(contested) == (len(owners) > 1)
