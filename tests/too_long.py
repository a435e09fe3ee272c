"""Objects with a list or a text of a length, and how long the API server takes it.

For the test of what `simulate` says of them, and for the one that asks the real API server.
"""

from typing import Any

SELECTOR = {"cel": {"expression": "true"}}
CONFIG = {"opaque": {"driver": "a.io", "parameters": {"mtu": 1}}}
TAINT = {"key": "a.io/broken", "effect": "NoSchedule"}
DRAW = {"counterSet": "s", "counters": {"c": {"value": "1"}}}


def request(name: str = "r", **exactly: Any) -> dict[str, Any]:
    """A request of a claim."""
    return {"name": name, "exactly": {"deviceClassName": "c", **exactly}}


def claim(**devices: Any) -> dict[str, Any]:
    """A claim."""
    return {"kind": "ResourceClaim", "spec": {"devices": {"requests": [request()], **devices}}}


def slice_of(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A slice with some devices, or with something else."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "a.io", "nodeName": "n", "pool": pool, **more}
    return {"kind": "ResourceSlice", "spec": {**spec, "devices": list(items)} if items else spec}


def devices(count: int, **last: Any) -> list[dict[str, Any]]:
    """Some devices, the last with more fields."""
    return [{"name": f"d{number}"} for number in range(count - 1)] + [{"name": "last", **last}]


def alternatives(count: int, **fields: Any) -> dict[str, Any]:
    """A request with some alternatives."""
    items = [{"name": f"a{number}", "deviceClassName": "c", **fields} for number in range(count)]
    return {"name": "r", "firstAvailable": items}


def named(count: int, value: Any, prefix: str = "n") -> dict[str, Any]:
    """Some entries of a map."""
    return {f"{prefix}{number}": value for number in range(count)}


def sets(count: int, counters: int = 1) -> list[dict[str, Any]]:
    """Some counter sets."""
    return [{"name": f"s{number}", "counters": named(counters, {"value": "1"})} for number in range(count)]


def values(count: int) -> dict[str, Any]:
    """A device with a capacity that is given in some amounts."""
    policy = {"default": "1", "validValues": [str(number + 1) for number in range(count)]}
    return {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"c": {"value": "99", "requestPolicy": policy}},
    }


def parameters(count: int, letter: str = "a") -> dict[str, Any]:
    """An entry of configuration whose parameters are so many bytes of compact JSON."""
    left = count - len('{"x":""}')
    size = len(letter.encode())
    text = letter * (left // size) + "a" * (left % size)
    return {"opaque": {"driver": "a.io", "parameters": {"x": text}}}


TERM = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
MATCH = {"matchAttribute": "a.io/b"}
LISTS = {"bindingFailureConditions": ["f"]}
CASES = {
    "requests": (lambda n: claim(requests=[request(f"r{i}") for i in range(n)]), 32, "spec.devices.requests"),
    "constraints": (lambda n: claim(constraints=[MATCH] * n), 32, "spec.devices.constraints"),
    "configuration": (lambda n: claim(config=[CONFIG] * n), 32, "spec.devices.config"),
    "parameters": (
        lambda n: claim(config=[parameters(n)]),
        10240,
        "spec.devices.config[0].opaque.parameters",
    ),
    "parameters of a class, in other letters": (
        lambda n: {"kind": "DeviceClass", "spec": {"config": [parameters(n, "é")]}},
        10240,
        "spec.config[0].opaque.parameters",
    ),
    "alternatives": (
        lambda n: claim(requests=[alternatives(n)]),
        8,
        "spec.devices.requests[0].firstAvailable",
    ),
    "selectors": (
        lambda n: claim(requests=[request(selectors=[SELECTOR] * n)]),
        32,
        "spec.devices.requests[0].exactly.selectors",
    ),
    "selectors of an alternative": (
        lambda n: claim(requests=[alternatives(1, selectors=[SELECTOR] * n)]),
        32,
        "spec.devices.requests[0].firstAvailable[0].selectors",
    ),
    "a long expression": (
        lambda n: claim(requests=[request(selectors=[{"cel": {"expression": "true".ljust(n)}}])]),
        10240,
        "spec.devices.requests[0].exactly.selectors[0].cel.expression",
    ),
    "a long expression of a derived attribute": (
        lambda n: claim(
            requests=[request(derivedAttributes=[{"name": "a.io/b", "expression": "true".ljust(n)}])],
            constraints=[{"matchAttribute": "a.io/b"}],
        ),
        10240,
        "spec.devices.requests[0].exactly.derivedAttributes[0].expression",
    ),
    "selectors of a class": (
        lambda n: {"kind": "DeviceClass", "spec": {"selectors": [SELECTOR] * n}},
        32,
        "spec.selectors",
    ),
    "configuration of a class": (
        lambda n: {"kind": "DeviceClass", "spec": {"config": [CONFIG] * n}},
        32,
        "spec.config",
    ),
    "terms that select nodes": (
        lambda n: slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": [TERM] * n}),
        1,
        "spec.nodeSelector.nodeSelectorTerms",
    ),
    "devices": (lambda n: slice_of(*devices(n)), 128, "spec.devices"),
    "devices beside one that is shared": (
        lambda n: slice_of(*devices(n, allowMultipleAllocations=True)),
        128,
        "spec.devices",
    ),
    "devices beside one with a taint": (
        lambda n: slice_of(*devices(n, taints=[TAINT])),
        64,
        "spec.devices",
    ),
    "devices beside one with counters": (
        lambda n: slice_of(*devices(n, consumesCounters=[DRAW])),
        64,
        "spec.devices",
    ),
    "taints": (
        lambda n: slice_of({"name": "d", "taints": [{**TAINT, "key": key} for key in named(n, None)]}),
        16,
        "spec.devices[0].taints",
    ),
    "attributes and capacities": (
        lambda n: slice_of(
            {
                "name": "d",
                "attributes": named(n - 16, {"int": 1}),
                "capacity": named(16, {"value": "1"}, "c"),
            }
        ),
        32,
        "spec.devices[0]",
    ),
    "values in lists": (
        lambda n: slice_of({"name": "d", "attributes": {"a": {"ints": list(range(n))}}}),
        48,
        "spec.devices[0]",
    ),
    "binding conditions": (
        lambda n: slice_of({"name": "d", "bindingConditions": list(named(n, None)), **LISTS}),
        4,
        "spec.devices[0].bindingConditions",
    ),
    "counter sets that a device draws on": (
        lambda n: slice_of(
            {"name": "d", "consumesCounters": [{**DRAW, "counterSet": name} for name in named(n, None)]}
        ),
        2,
        "spec.devices[0].consumesCounters",
    ),
    "counters that a device draws on": (
        lambda n: slice_of(
            {"name": "d", "consumesCounters": [{**DRAW, "counters": named(n, {"value": "1"})}]}
        ),
        32,
        "spec.devices[0].consumesCounters[0].counters",
    ),
    "counter sets": (lambda n: slice_of(sharedCounters=sets(n)), 8, "spec.sharedCounters"),
    "counters": (lambda n: slice_of(sharedCounters=sets(1, n)), 32, "spec.sharedCounters[0].counters"),
    "amounts of a policy": (
        lambda n: slice_of(values(n)),
        10,
        'spec.devices[0].capacity["c"].requestPolicy.validValues',
    ),
}
"""How to make an object with a list of a length, how long it may be, and its path."""
