"""The examples of docs/reasons.md: for each reason a cluster in which a claim gets the message that the page shows."""

import json
import re
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

import factories
from dra_operator.allocator.reasons import Reason
from dra_operator.questions import state
from factories import manifest

ROOT = Path(__file__).parents[2]
GPU, NIC = "gpu.example.com", "nic.example.com"
MODEL, ROOT_COMPLEX = f"{GPU}/model", "resource.kubernetes.io/pcieRoot"


def device_class(name=GPU, *more):
    """A class of all devices of a driver for which some more expressions are true."""
    return factories.device_class(name, f'device.driver == "{name}"', *more)


def pool(devices, *, driver=GPU, node="node-1", name="", **fields):
    """A slice of a node's pool; `name` tells several of one pool apart."""
    return factories.resource_slice(name or f"{driver}-{node}", devices, driver=driver, pool=node, **fields)


def some(count, *, kind="gpu", first=0, **fields):
    """So many devices that are alike."""
    return [{"name": f"{kind}-{number}", **fields} for number in range(first, first + count)]


def memory(amount):
    """A capacity."""
    return {"memory": {"value": amount}}


def drawing(amount, *groups):
    """Counters that a device draws on."""
    use = {"counterSet": "gpu-0", "counters": memory(amount)}
    return [{**use, "compatibilityGroups": list(groups)} if groups else use]


def request(name="gpu", cls=GPU, *selectors, **fields):
    """A request."""
    return factories.request(name, cls, *selectors, **fields)


def claim(*requests, name="waiting", namespace="team", match=None, **metadata):
    """A claim whose devices agree in an attribute, if one is named."""
    constraints = [{"matchAttribute": match}] if match else []
    return factories.claim(name, *requests, constraints=constraints, namespace=namespace, **metadata)


def node(name, *, ready="True", **spec):
    """A node."""
    return factories.manifest("Node", name, spec, status={"conditions": [{"type": "Ready", "status": ready}]})


TAINT = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
OWN = manifest(
    "DeviceTaintRule",
    "own",
    {
        "deviceSelector": {"driver": GPU, "pool": "node-2"},
        "taint": {"key": "dra-operator.io/owned", "effect": "NoSchedule"},
    },
)
RULE = manifest(
    "DeviceTaintRule", "drain-1", {"deviceSelector": {"driver": GPU}, "taint": TAINT}, version="v1beta2"
)
COUNTERS = pool([], name="counters", count=2)
COUNTERS["spec"].pop("devices")
COUNTERS["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": memory("40Gi")}]
OF_PAIR = f'device.attributes["{GPU}"].of == "pair"'
OTHERS = f'device.attributes["{GPU}"].of == "others"'
ALONE, PAIRED = ({"of": {"string": each}} for each in ("others", "pair"))
LARGE = f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) >= 0'
WIDE = {"value": "20Pi", "requestPolicy": {"default": "1Pi", "validRange": {"min": "1Pi", "step": "1Pi"}}}
UNPARSABLE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Is"}]}]}


def of_model(name):
    """An attribute."""
    return {"attributes": {"model": {"string": name}}}


def at(name, place):
    """A device at a root complex."""
    return {"name": name, "attributes": {ROOT_COMPLEX: {"string": place}}}


def asks(amount):
    """A request for some of a capacity."""
    return {"capacity": {"requests": {"bandwidth": amount}}}


SCENES = {
    "ClassNotFound": [pool(some(1)), claim(request(cls="gpu.exmaple.com"))],
    "SelectorInvalid": [device_class(GPU, 'device.driver.matchs("a")'), claim(request())],
    "SelectorFailed": [
        pool(
            [
                {
                    "name": "gpu-0",
                    "attributes": {"model": {"string": "a"}, "type": {"string": "b"}},
                    "capacity": memory("1Gi"),
                }
            ]
        ),
        claim(request("gpu", GPU, f'device.attributes["{GPU}"].modle == "a"')),
    ],
    "DerivedAttributeFailed": [
        pool(some(1, attributes={"numaNode": {"int": 0}, "model": {"string": "a"}})),
        claim(
            request(
                derivedAttributes=[
                    {"name": "example.com/numa", "expression": f'device.attributes["{GPU}"].numa'}
                ]
            ),
            match="example.com/numa",
        ),
    ],
    "RequestUnsupported": [pool(some(1)), claim(request(allocationMode="Some"), uid="accepted")],
    "TooManyDevices": [pool(some(1)), claim(request("a", count=20), request("b", count=20))],
    "CapacityRequestInvalid": [
        pool(
            [{"name": "nic-0", "capacity": {"bandwidth": WIDE}, "allowMultipleAllocations": True}], driver=NIC
        ),
        claim(request("nic", NIC, **asks("10Pi"))),
    ],
    "AdminAccessDenied": [
        pool(some(1)),
        manifest("Namespace", "team"),
        claim(request("all", allocationMode="All", adminAccess=True)),
    ],
    "ConstraintConflict": [
        pool([{"name": "gpu-0", **of_model("a")}, {"name": "gpu-1", **of_model("b")}]),
        claim(request(allocationMode="All"), match=MODEL),
    ],
    "NodeSelectorInvalid": [
        pool(some(1), name="net-1", nodeSelector=UNPARSABLE),
        node("node-1"),
        claim(request()),
    ],
    "NoNodes": [
        *(node(name, unschedulable=True) for name in ("node-1", "node-2")),
        node("node-3", ready="False"),
        pool(some(1)),
        claim(request()),
    ],
    "NoDevices": [node("node-1"), claim(request())],
    "ClassMatchesNoDevice": [pool(some(16), driver=NIC), claim(request())],
    "SelectorMatchesNoDevice": [
        pool(some(8, capacity=memory("40Gi"))),
        pool(some(8), driver=NIC),
        claim(request("gpu", GPU, LARGE)),
    ],
    "PoolIncomplete": [pool(some(4), generation=3, count=2), claim(request())],
    "PoolInvalid": [
        *(pool(some(1), name=name, count=2) for name in ("a", "b")),
        claim(request()),
    ],
    "CapacityTooSmall": [
        pool(some(8, capacity=memory("40Gi"))),
        claim(request(capacity={"requests": {"memory": "80Gi"}})),
    ],
    "DeviceNotOwned": [pool(some(2)), OWN, claim(request())],
    "DeviceTainted": [pool(some(8)), RULE, claim(request())],
    "NodeUnusable": [pool(some(4)), node("node-1", unschedulable=True), node("node-2"), claim(request())],
    "NodeOperationsUnsupported": [
        pool(some(2), nodeName="node-1", skipNodeOperations=["*"]),
        claim(request()),
    ],
    "DeviceInUse": [
        pool(some(8)),
        *(claim(request(count=4), name=f"train-{number}") for number in (0, 1)),
        claim(request()),
    ],
    "CountersExhausted": [
        COUNTERS,
        pool(
            [
                {"name": "gpu-0", "attributes": ALONE, "consumesCounters": drawing("30Gi")},
                *some(3, first=1, attributes=PAIRED, consumesCounters=drawing("20Gi")),
            ],
            count=2,
        ),
        claim(request("gpu", GPU, OTHERS), name="train-0"),
        claim(request("gpu", GPU, OF_PAIR)),
    ],
    "CapacityExhausted": [
        pool(
            [
                {
                    "name": "nic-0",
                    "capacity": {"bandwidth": {"value": "10G"}},
                    "allowMultipleAllocations": True,
                }
            ],
            driver=NIC,
        ),
        *(
            claim(request("nic", NIC, **asks(amount)), name=f"a-{amount.lower()}", namespace="other")
            for amount in ("1G", "3G", "4G")
        ),
        claim(request("nic", NIC, **asks("5G"))),
    ],
    "GroupIncompatible": [
        COUNTERS,
        pool(
            [
                {"name": "gpu-0", "attributes": ALONE, "consumesCounters": drawing("1Gi", "graphics")},
                *some(3, first=1, attributes=PAIRED, consumesCounters=drawing("1Gi", "compute")),
            ],
            count=2,
        ),
        claim(request("gpu", GPU, OTHERS), name="train-0"),
        claim(request("gpu", GPU, OF_PAIR)),
    ],
    "NotEnoughDevices": [pool(some(3)), pool(some(4), node="node-2"), claim(request(count=5))],
    "ConstraintUnsatisfiable": [
        pool([at("gpu-0", "a"), at("gpu-1", "a"), at("gpu-2", "b")]),
        claim(request(), name="train-0"),
        claim(request(count=2), match=ROOT_COMPLEX),
    ],
    "RequestsDoNotFitTogether": [
        pool(some(4)),
        claim(request("gpu", count=2), request("nic", count=3)),
    ],
    "SearchAborted": [
        pool([{"name": f"gpu-{number}", **of_model(f"{number}")} for number in range(64)]),
        claim(request("gpu", GPU, f'device.attributes["{GPU}"].model.startsWith("h")')),
    ],
}
"""By reason, the objects; the classes of the two drivers are among them, where none is given."""


def examples():
    """Return the example of each reason on the page."""
    page = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    rows = (line.split(" | ") for line in page.splitlines() if re.match(r"\| `\w+` \|", line))
    return {row[0].strip("| `"): row[2].strip("`") for row in rows}


@pytest.mark.parametrize("reason", SCENES)
def test_the_example_of_a_reason_is_what_is_printed(simulate, monkeypatch, reason):
    """Whoever compares a message with the page finds the same words; an ellipsis stands for what was left out."""
    seconds = count(step=11 if reason == "SearchAborted" else 0)
    monkeypatch.setattr(state, "time", SimpleNamespace(monotonic=lambda: next(seconds), time=lambda: 0.0))
    given = {body["metadata"]["name"] for body in SCENES[reason] if body["kind"] == "DeviceClass"}
    classes = [device_class(name) for name in (GPU, NIC) if name not in given]

    told = simulate(*classes, *SCENES[reason], options=["-o", "json"])
    waiting = next(
        claim for claim in json.loads(told.stdout)["items"] if claim["metadata"]["name"] == "waiting"
    )
    message = waiting["metadata"]["annotations"]["dra-operator.io/pending"]

    assert examples()[reason].strip("… ") in message
    assert reason in simulate(*classes, *SCENES[reason]).stdout


def test_each_reason_has_its_example():
    """No reason is gone or new that is not on the page and here, with its example; those of pods: tests/pods."""
    of_pods = {
        *("ClaimNotFound", "ClaimNotCreated", "ClaimNotForPod", "ClaimReservedTooOften", "TemplateNotFound"),
        *("NodeUnsuitable", "AllocatedNodeUnsuitable", "ClaimsDoNotFitTogether", "NotScheduled"),
    }
    assert examples().keys() == SCENES.keys() | of_pods == {*Reason}
