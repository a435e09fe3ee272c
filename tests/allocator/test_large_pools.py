"""Pools of many slices: the first devices may be all that a claim needs, and nothing is decided otherwise for it."""

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator.search.chain import SearchMode

DRIVER = "gpu.example.com"
SLICES = 5
IS_FAST = f'device.attributes["{DRIVER}"].fast'
MATCH = {"matchAttribute": f"{DRIVER}/switch"}
DIFFER = {"distinctAttribute": f"{DRIVER}/switch"}


def port(
    number: int, *, fast: bool | None = True, switch: int = 0, shared: str | None = "10"
) -> dict[str, Any]:
    """Return a device; `shared` is how much there is to share of it. Where `fast` is None nobody can ask about it."""
    device: dict[str, Any] = {
        "name": f"p{number:02d}",
        "attributes": {"switch": {"int": switch}, **({} if fast is None else {"fast": {"bool": fast}})},
    }
    if shared is not None:
        device |= {"allowMultipleAllocations": True, "capacity": {"rate": _capacity(shared)}}
    return device


def _capacity(amount: str) -> dict[str, Any]:
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    return {"value": amount, "requestPolicy": policy}


def put(scene: Any, devices: Sequence[dict[str, Any]]) -> None:
    """Publish devices to all nodes, as evenly in slices as can be."""
    for number in range(SLICES):
        scene.slice(f"s{number}", *devices[number::SLICES], count=SLICES)


def part(amount: int) -> dict[str, Any]:
    """Return the field of a request that asks for an amount."""
    return {"capacity": {"requests": {"rate": str(amount)}}}


def test_a_claim_that_the_first_devices_do_not_serve_gets_others(counted_only: Any, ask: Any) -> None:
    """Those of another switch, where the first one has a device too few."""
    put(counted_only, [port(number, switch=int(number > 0)) for number in range(20)])
    claims = [
        counted_only.claim(ask("a", 2, **part(3)), constraints=[MATCH]),
        counted_only.claim(ask("a", 1, **part(6)), ask("b", 1, **part(6)), constraints=[MATCH]),
    ]

    assert [counted_only.picks(claim) for claim in claims] == [["a=p05", "a=p10"], ["a=p05", "b=p10"]]


_Ports = st.lists(
    st.tuples(
        st.sampled_from([True, True, True, True, False, False, None]),
        st.integers(0, 3),
        st.sampled_from(["10", "10", "6", None]),
    ),
    min_size=SLICES,
    max_size=12 * SLICES,
)
_Requests = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.booleans(),
        st.none() | st.integers(1, 9),
        st.sampled_from([{}, {}, {}, {}, {"adminAccess": True}, {"allocationMode": "All"}]),
    ),
    min_size=1,
    max_size=3,
)
_Claims = st.lists(
    st.tuples(_Requests, st.sampled_from([[], [MATCH], [DIFFER], [MATCH, DIFFER]])), min_size=1, max_size=8
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ports=_Ports, claims=_Claims, dropped=st.sets(st.integers(0, 7)))
def test_large_pools_are_decided_as_the_plain_search_decides(
    ask: Any, scene_with: Any, ports: Any, claims: Any, dropped: set[int]
) -> None:
    """One claim after the other, some of which give back what they have."""
    scene = scene_with()
    scene.nodes("n", "o")
    scene.put("Namespace", "team", labels={"resource.kubernetes.io/admin-access": "true"})
    put(scene, [port(n, fast=f, switch=s, shared=a) for n, (f, s, a) in enumerate(ports)])
    for number, (requests, constraints) in enumerate(claims):
        asked = [
            ask(
                f"r{place}",
                count,
                *([IS_FAST] if fast else []),
                **mode,
                **({} if amount is None else part(amount)),
            )
            for place, (count, fast, amount, mode) in enumerate(requests)
        ]
        claim = scene.claim(*asked, name=f"c{number}", constraints=constraints)
        decision = scene.decide(claim)
        scene.search(SearchMode.PLAIN)
        plain = scene.decide(claim)
        scene.allocator.searching = SearchMode.COUNTING
        if _devices(decision) is None:
            assert decision == plain
        else:
            assert _devices(decision) == _devices(plain)
            scene.ledger.assume("team", f"c{number}", decision.results[0])
        if number in dropped:
            scene.ledger.withdraw("team", f"c{number}")


def _devices(decision: Any) -> list[tuple[str, str]] | None:
    if not hasattr(decision, "results"):
        return None
    return [(item.request, item.device) for item in decision.results[0].devices.results]
