"""Slices and taint rules as a hand gets them wrong.

For the test of what `simulate` says of them, and for the one that asks the real API server.
"""

from typing import Any

from too_long import sets, slice_of

DEVICE = {"name": "a"}
SELECTOR = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
}


def pool(**fields: Any) -> dict[str, Any]:
    """A slice of a pool of which something is wrong."""
    return slice_of(pool={"name": "p", "generation": 1, "resourceSliceCount": 1, **fields})


def drawing(*names: str) -> dict[str, Any]:
    """A slice with a device that draws on counter sets."""
    counters = {"c": {"value": "1"}}
    return slice_of(
        {**DEVICE, "consumesCounters": [{"counterSet": name, "counters": counters} for name in names]}
    )


def bound(met: list[str], failed: list[str]) -> dict[str, Any]:
    """A slice with a device that must be bound first."""
    return slice_of({**DEVICE, "bindingConditions": met, "bindingFailureConditions": failed})


def tainted(**taint: str) -> dict[str, Any]:
    """A slice with a taint on its device."""
    return slice_of({**DEVICE, "taints": [{"key": "k", "effect": "NoSchedule", **taint}]})


def grouped(*names: str) -> dict[str, Any]:
    """A slice with a device of compatibility groups."""
    draw = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": list(names)}
    return slice_of({**DEVICE, "consumesCounters": [draw]})


def skipping(*operations: str) -> dict[str, Any]:
    """A slice with node operations to skip."""
    return slice_of(DEVICE, skipNodeOperations=list(operations))


def selecting(**selector: str) -> dict[str, Any]:
    """A rule that selects devices."""
    return {
        "kind": "DeviceTaintRule",
        "spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": "None"}},
    }


def rule(**taint: str) -> dict[str, Any]:
    """A rule that puts a taint on devices."""
    taint = {"key": "k", "effect": "NoSchedule", **taint}
    return {"kind": "DeviceTaintRule", "spec": {"deviceSelector": {"driver": "a.io"}, "taint": taint}}


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a device that cannot fail to be bound": (
        bound(["a.io/b"], []),
        "spec.devices[0].bindingFailureConditions",
        "is empty: ",
    ),
    "a device that can only fail to be bound": (
        bound([], ["a.io/b"]),
        "spec.devices[0].bindingConditions",
        "is empty: ",
    ),
    "a condition that is met and failed": (
        bound(["Ready"], ["Failed", "Ready"]),
        "spec.devices[0].bindingFailureConditions[1]",
        '"Ready" is named twice: ',
    ),
    "two conditions of one name": (
        bound(["Ready", "Ready"], ["Failed"]),
        "spec.devices[0].bindingConditions[1]",
        '"Ready" is named twice: ',
    ),
    "a condition with a blank": (
        bound(["is ready"], ["Failed"]),
        "spec.devices[0].bindingConditions[0]",
        '"is ready" is no name of a condition: ',
    ),
    "a device that draws on no counters of a set": (
        slice_of({**DEVICE, "consumesCounters": [{"counterSet": "s", "counters": {}}]}),
        "spec.devices[0].consumesCounters[0].counters",
        "has no counters: ",
    ),
    "a node selector without terms": (
        slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": []}),
        "spec.nodeSelector.nodeSelectorTerms",
        "is empty: ",
    ),
    "a device in capitals": (
        slice_of({"name": "GPU_0"}),
        "spec.devices[0].name",
        '"GPU_0" is no name of a device: ',
    ),
    "a device with a dot": (slice_of({"name": "a.b"}), "spec.devices[0].name", '"a.b" is no name'),
    "a device without a name": (slice_of({"name": ""}), "spec.devices[0].name", '"" is no name'),
    "a device with a long name": (slice_of({"name": "a" * 64}), "spec.devices[0].name", '"aaa'),
    "two devices of one name": (
        slice_of(DEVICE, {"name": "b"}, DEVICE),
        "spec.devices[2].name",
        '"a" is the name of two devices of this slice: ',
    ),
    "devices beside counters": (
        slice_of(DEVICE, sharedCounters=sets(1)),
        "spec",
        "devices and sharedCounters are both set: publish the counters in another slice",
    ),
    "two counter sets of one name": (
        slice_of(sharedCounters=sets(1) * 2),
        "spec.sharedCounters[1].name",
        '"s0" is the name of two counter sets: ',
    ),
    "a counter set in capitals": (
        slice_of(sharedCounters=[{**sets(1)[0], "name": "S"}]),
        "spec.sharedCounters[0].name",
        '"S" is no name of a counter set: ',
    ),
    "a counter in capitals": (
        slice_of(sharedCounters=[{"name": "s", "counters": {"C": {"value": "1"}}}]),
        "spec.sharedCounters[0].counters",
        '"C" is no name of a counter: ',
    ),
    "a counter set without counters": (
        slice_of(sharedCounters=[{"name": "s", "counters": {}}]),
        "spec.sharedCounters[0].counters",
        "has no counters: ",
    ),
    "a device that draws on a set in capitals": (
        drawing("S"),
        "spec.devices[0].consumesCounters[0].counterSet",
        '"S" is no name of a counter set: ',
    ),
    "a device that draws on a set twice": (
        drawing("s", "s"),
        "spec.devices[0].consumesCounters[1].counterSet",
        '"s" is named twice: ',
    ),
    "a driver that is too long": (slice_of(driver="a" * 64), "spec.driver", '"aaa'),
    "a driver with a space": (slice_of(driver="a b"), "spec.driver", '"a b" is no name of a driver: '),
    "a pool in capitals": (pool(name="A"), "spec.pool.name", '"A" is no name of a pool: '),
    "a pool without a name": (pool(name=""), "spec.pool.name", '"" is no name of a pool: '),
    "a generation below zero": (pool(generation=-1), "spec.pool.generation", "-1 is less than zero: "),
    "a pool without slices": (pool(resourceSliceCount=0), "spec.pool.resourceSliceCount", "0 is not greater"),
    "a slice for no node": (
        slice_of(DEVICE, nodeName=None),
        "spec",
        "none of nodeName, nodeSelector, allNodes, ",
    ),
    "a slice for a node and for all": (slice_of(DEVICE, allNodes=True), "spec", "2 of nodeName, "),
    "a device for no node": (
        slice_of(DEVICE, nodeName=None, perDeviceNodeSelection=True),
        "spec.devices[0]",
        "none of nodeName, nodeSelector, allNodes are set: ",
    ),
    "a device for a node and for those selected": (
        slice_of(
            {**DEVICE, "nodeName": "n", "nodeSelector": SELECTOR}, nodeName=None, perDeviceNodeSelection=True
        ),
        "spec.devices[0]",
        "2 of nodeName, nodeSelector, allNodes are set: ",
    ),
    "a device with a node of its own": (
        slice_of({**DEVICE, "nodeName": "n"}),
        "spec.devices[0]",
        "says where it can be used: ",
    ),
    "a taint whose effect is misspelt": (
        tainted(effect="noSchedule"),
        "spec.devices[0].taints[0].effect",
        '"noSchedule" is no effect: ',
    ),
    "a taint without effect": (tainted(effect=""), "spec.devices[0].taints[0].effect", '"" is no effect: '),
    "a taint without key": (tainted(key=""), "spec.devices[0].taints[0].key", '"" is no key of a taint: '),
    "a taint with a space": (tainted(value="a b"), "spec.devices[0].taints[0].value", '"a b" is no value of'),
    "a rule whose effect is misspelt": (
        rule(effect="NoExec"),
        "spec.taint.effect",
        '"NoExec" is no effect: ',
    ),
    "a group in capitals": (
        grouped("Mig"),
        "spec.devices[0].consumesCounters[0].compatibilityGroups[0]",
        '"Mig" is no name of a group: ',
    ),
    "a group with a dot": (
        grouped("a", "a.b"),
        "spec.devices[0].consumesCounters[0].compatibilityGroups[1]",
        '"a.b" is no name of a group: ',
    ),
    "two groups of one name": (
        grouped("a", "a"),
        "spec.devices[0].consumesCounters[0].compatibilityGroups[1]",
        '"a" is named twice: ',
    ),
    "an operation that there is not": (
        skipping("Prepare"),
        "spec.skipNodeOperations[0]",
        '"Prepare" is no operation: ',
    ),
    "an operation that is skipped twice": (
        skipping("NodeUnprepareResources", "NodeUnprepareResources"),
        "spec.skipNodeOperations[1]",
        '"NodeUnprepareResources" is named twice: ',
    ),
    "devices that are not prepared, and then undone": (
        skipping("NodePrepareResources"),
        "spec.skipNodeOperations",
        "has NodePrepareResources alone: ",
    ),
    "a rule for a driver with a blank": (
        selecting(driver="a b"),
        "spec.deviceSelector.driver",
        '"a b" is no name of a driver: ',
    ),
    "a rule for a pool in capitals": (
        selecting(pool="A"),
        "spec.deviceSelector.pool",
        '"A" is no name of a pool: ',
    ),
    "a rule for a device without a name": (
        selecting(device=""),
        "spec.deviceSelector.device",
        '"" is no name of a device: ',
    ),
    "a rule without key": (rule(key=""), "spec.taint.key", '"" is no key of a taint: '),
}
"""A slice or a rule, the field that is wrong, and how the message about it begins."""
RIGHT: dict[str, dict[str, Any]] = {
    "conditions of a binding": bound(["Ready", "a.io/b"], ["a.io/failed"]),
    "nothing in it": slice_of(),
    "a driver in capitals": slice_of(driver="A.io"),
    "a pool of several parts": pool(name="rack-1/node.a"),
    "the longest names": slice_of({"name": "a" * 63}, driver="a" * 63),
    "counters alone": slice_of(sharedCounters=sets(2)),
    "a device of two sets": drawing("s", "t"),
    "a node for each device": slice_of(
        {**DEVICE, "allNodes": True}, nodeName=None, perDeviceNodeSelection=True
    ),
    "a taint of no effect": tainted(key="a.io/k", value="v", effect="None"),
    "a rule": rule(value="v", effect="NoExecute"),
    "a rule for a device of a pool": selecting(driver="A.io", pool="rack-1/node.a", device="gpu-0"),
    "two groups": grouped("mig", "vgpu"),
    "no group": grouped(),
    "everything skipped": skipping("*"),
    "everything skipped, told in full": skipping("NodePrepareResources", "NodeUnprepareResources"),
    "what is done and not undone": skipping("NodeUnprepareResources"),
    "everything skipped, and preparing": skipping("NodePrepareResources", "*"),
}
"""Slices and rules that are right, each close to one that is not."""
