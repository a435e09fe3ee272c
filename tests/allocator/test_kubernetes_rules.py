"""What Kubernetes 1.38 decides otherwise than 1.37: each rule in a scenario, as the code of both versions has it."""

from typing import Any

import pytest

from conformance.replay import outcome
from conformance.scenarios import load

GPU = "gpu.example.com"
VERSION = f"{GPU}/version"
Wire = dict[str, Any]


def scenario(
    devices: list[Wire], *requests: Wire, used: Wire | None = None, count: int = 1, **claim: Any
) -> Wire:
    """Return a pool of `count` slices, of which one is there, on node-1; node-2 has a device of another driver."""
    pools = [("node-1", GPU, devices, count), ("node-2", "other.example.com", [{"name": "o"}], 1)]
    slices = [
        {
            "metadata": {"name": node},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": number},
                "devices": there,
            },
        }
        for node, driver, there, number in pools
    ]
    asked = [
        {
            "name": f"r{place}",
            "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, **part},
        }
        for place, part in enumerate(requests or ({},))
    ]
    result = {
        "request": "r",
        "driver": GPU,
        "pool": "node-1",
        "device": "a",
        "shareID": "s",
        "consumedCapacity": used,
    }
    holder = {"metadata": {"name": "h"}, "status": {"allocation": {"devices": {"results": [result]}}}}
    return {
        "name": "rule",
        "nodes": [{"metadata": {"name": node}} for node, *_ in pools],
        "deviceClasses": [{"metadata": {"name": "any"}, "spec": {}}],
        "resourceSlices": slices,
        "allocated": [holder] if used else [],
        "claims": [
            {"metadata": {"name": "c", "namespace": "d"}, "spec": {"devices": {"requests": asked, **claim}}}
        ],
    }


def shareable(**capacity: str) -> Wire:
    """Return a device in shares with some capacities."""
    values = {name.replace("full_", f"{GPU}/"): {"value": value} for name, value in capacity.items()}
    return {"name": "a", "allowMultipleAllocations": True, "capacity": values}


def asking(**amounts: str) -> Wire:
    """Return a request for some amounts."""
    named = {name.replace("full_", f"{GPU}/"): amount for name, amount in amounts.items()}
    return {"capacity": {"requests": named}}


def versions(*texts: str) -> list[Wire]:
    """Return devices with a version each."""
    return [
        {"name": f"d{place}", "attributes": {"version": {"version": text}}}
        for place, text in enumerate(texts)
    ]


POLICY = {"default": "1", "validRange": {"min": "1", "step": "1"}}
ROUNDED = {"name": "a", "capacity": {"cards": {"value": "4", "requestPolicy": POLICY}}}
MATCH, DISTINCT = ({"constraints": [{kind: VERSION}]} for kind in ("matchAttribute", "distinctAttribute"))
RULES = {
    "a request by the full name": (scenario([shareable(memory="8")], asking(full_memory="8")), "none", "a"),
    "a slice by the full name": (scenario([shareable(full_memory="8")], asking(memory="8")), "none", "a"),
    "both names in a request": (
        scenario([shareable(memory="8")], asking(memory="1", full_memory="1")), "none", "error",
    ),
    "both names in a device": (
        scenario([shareable(memory="8", full_memory="2")], asking(memory="4")), "a", "none",
    ),
    "a share by the full name": (
        scenario([shareable(memory="8")], asking(memory="8"), used={f"{GPU}/memory": "1"}), "a", "none",
    ),
    "both names in a share": (
        scenario([shareable(memory="8")], asking(memory="6"), used={"memory": "4", f"{GPU}/memory": "2"}), "none", "a",
    ),
    "versions that match": (scenario(versions("1.0.0+a", "1.0.0+b"), {"count": 2}, **MATCH), "none", "d0 d1"),
    "versions that differ": (scenario(versions("1.0.0+a", "1.0.0+b"), {"count": 2}, **DISTINCT), "d0 d1", "none"),
    "a version that is none": (scenario(versions("1.x"), **MATCH), "d0", "error"),
    "a value of an unknown type": (
        scenario([{"name": "a", "attributes": {"version": {"future": "x"}}}], **MATCH), "none", "error",
    ),
    "a list without the feature": (
        scenario([{"name": "a", "attributes": {"version": {"versions": ["1.0.0"]}}}], **MATCH)
        | {"features": {"ListTypeAttributes": False}},
        "a",
        "error",
    ),
    "a negative amount": (scenario([ROUNDED], asking(cards="-1")), "a", "error"),
    "All beside an incomplete pool": (
        scenario([{"name": "a"}], {"allocationMode": "All", "count": 0}, count=2), "error", "o",
    ),
}  # fmt: skip


def answer(row: Wire, version: str) -> str:
    """Return the devices that are allocated, or `none`, or `error`."""
    loaded = load({**row, "kubernetes": version})
    return told(outcome(loaded.allocator.allocate(loaded.claims)))


def told(found: Wire) -> str:
    """Return an answer in short."""
    if "results" in found:
        return " ".join(item["device"] for item in found["results"][0]["devices"]["results"])
    return "none" if "unsatisfiable" in found else "error"


@pytest.mark.parametrize(("row", "released", "coming"), RULES.values(), ids=RULES)
def test_each_version_decides_by_its_rules(row: Wire, released: str, coming: str) -> None:
    """The answers of 1.37.2 and 1.38.0-beta.0 were asked once."""
    assert (answer(row, "1.37"), answer(row, "1.38")) == (released, coming)


def test_the_status_has_the_name_of_the_slice() -> None:
    """Drivers look amounts up by the name that they published, whatever the claim calls it."""
    found = []
    for name in ("memory", f"{GPU}/memory"):
        device = shareable() | {"capacity": {name: {"value": "8"}}}
        loaded = load({**scenario([device], asking(memory="2")), "kubernetes": "1.38"})
        result = outcome(loaded.allocator.allocate(loaded.claims))["results"][0]["devices"]["results"][0]
        found.append(result["consumedCapacity"])

    assert found == [{"memory": "2"}, {f"{GPU}/memory": "2"}]


def test_error_behind_all() -> None:
    """Upstream finds no node by the rules of 1.38, and says nothing of the class that is missing."""
    asked = {"allocationMode": "All", "count": 0}
    row = scenario([{"name": "a"}], asked, {"deviceClassName": "missing"}, count=2)

    assert answer(row, "1.38") == "error"


def test_requested_twice() -> None:
    """Upstream passes the device over as well, at random."""
    row = scenario([shareable(memory="8")], asking(memory="1", full_memory="1", cores="1"))

    assert answer(row, "1.38") == "error"
