"""Pools of many slices: the first devices may be all that a claim needs, and nothing is decided otherwise for it."""

from typing import Any

DRIVER = "gpu.example.com"
SLICES = 5
MATCH = {"matchAttribute": f"{DRIVER}/switch"}


def port(number: int) -> dict[str, Any]:
    """Return a device that can be shared by its rate; the first one is of another switch than the others."""
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    return {
        "name": f"p{number:02d}",
        "attributes": {"switch": {"int": int(number > 0)}},
        "allowMultipleAllocations": True,
        "capacity": {"rate": {"value": "10", "requestPolicy": policy}},
    }


def part(amount: int) -> dict[str, Any]:
    """Return the field of a request that asks for an amount."""
    return {"capacity": {"requests": {"rate": str(amount)}}}


def test_a_claim_that_the_first_devices_do_not_serve_gets_others(counted_only: Any, ask: Any) -> None:
    """Those of another switch, where the first one has a device too few."""
    for number in range(SLICES):
        counted_only.slice(f"s{number}", *map(port, range(number, 20, SLICES)), count=SLICES)
    claims = [
        counted_only.claim(ask("a", 2, **part(3)), constraints=[MATCH]),
        counted_only.claim(ask("a", 1, **part(6)), ask("b", 1, **part(6)), constraints=[MATCH]),
    ]

    assert [counted_only.picks(claim) for claim in claims] == [["a=p05", "a=p10"], ["a=p05", "b=p10"]]
