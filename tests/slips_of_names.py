"""Names of objects, nodes, drivers and attributes as a hand gets them wrong, and configuration of a class.

For the tests of what `simulate` says of them, and for the one that asks the real API server.
"""

from typing import Any

from too_long import CONFIG, alternatives, claim, request, slice_of

LONG = "a" * 254


def named(name: str, kind: str = "Node", **more: Any) -> dict[str, Any]:
    """An object of a name."""
    return {"kind": kind, "metadata": {"name": name}, **more}


def pod(*entries: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with claims."""
    return {
        "kind": "Pod",
        "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": list(entries), **spec},
    }


def device_on(node: str) -> dict[str, Any]:
    """A slice with a device that has a node of its own."""
    return slice_of({"name": "d", "nodeName": node}, nodeName=None, perDeviceNodeSelection=True)


def class_with(*config: dict[str, Any]) -> dict[str, Any]:
    """A class with configuration."""
    return {"kind": "DeviceClass", "spec": {"config": list(config)}}


def serving(resource: str) -> dict[str, Any]:
    """A class that serves an extended resource."""
    return {"kind": "DeviceClass", "spec": {"extendedResourceName": resource}}


def matching(attribute: str) -> dict[str, Any]:
    """A claim with a constraint."""
    return claim(constraints=[{"matchAttribute": attribute}])


def configured(driver: str) -> dict[str, Any]:
    """An entry of configuration for a driver."""
    return {"opaque": {"driver": driver, "parameters": {}}}


ENTRY = {"name": "a", "resourceClaimName": "x"}
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a constraint without an attribute": (
        claim(constraints=[{"requests": ["r"]}]),
        "spec.devices.constraints[0]",
        "neither matchAttribute nor distinctAttribute is set: ",
    ),
    "a mode in lower case": (
        claim(requests=[request(allocationMode="all")]),
        "spec.devices.requests[0].exactly.allocationMode",
        '"all" is no allocation mode: ',
    ),
    "a mode that is none, of an alternative": (
        claim(requests=[alternatives(1, allocationMode="Some")]),
        "spec.devices.requests[0].firstAvailable[0].allocationMode",
        '"Some" is no allocation mode: ',
    ),
    "a request for nothing": (
        claim(requests=[{"name": "r"}]),
        "spec.devices.requests[0]",
        "asks for nothing: ",
    ),
    "a request without a class": (
        claim(requests=[request(deviceClassName="")]),
        "spec.devices.requests[0].exactly.deviceClassName",
        "is missing: ",
    ),
    "a request for a class in capitals": (
        claim(requests=[request(deviceClassName="GPU")]),
        "spec.devices.requests[0].exactly.deviceClassName",
        '"GPU" is no name of a DeviceClass: ',
    ),
    "an alternative of a class with an underscore": (
        claim(requests=[alternatives(1, deviceClassName="a_b")]),
        "spec.devices.requests[0].firstAvailable[0].deviceClassName",
        '"a_b" is no name of a DeviceClass: ',
    ),
    "a node in capitals": (named("Node-1"), "metadata.name", '"Node-1" is no name of an object: '),
    "a node with an underscore": (named("a_b"), "metadata.name", '"a_b" is no name of an object: '),
    "a node with a long name": (named(LONG), "metadata.name", '"aaa'),
    "a class with two dots": (
        named("a..b", "DeviceClass", spec={}),
        "metadata.name",
        '"a..b" is no name of an object: ',
    ),
    "a claim with a slash": (
        {**claim(), **named("a/b", "ResourceClaim")},
        "metadata.name",
        '"a/b" is no name of an object: ',
    ),
    "a slice in capitals": (
        {**slice_of(), **named("A", "ResourceSlice")},
        "metadata.name",
        '"A" is no name of an object: ',
    ),
    "a namespace with a dot": (
        named("a.b", "Namespace"),
        "metadata.name",
        '"a.b" is no name of a namespace: ',
    ),
    "a namespace with a long name": (named("a" * 64, "Namespace"), "metadata.name", '"aaa'),
    "a pod on a node in capitals": (pod(nodeName="N"), "spec.nodeName", '"N" is no name of a node: '),
    "a slice of a node in capitals": (
        slice_of(nodeName="N"),
        "spec.nodeName",
        '"N" is no name of a node: ',
    ),
    "a slice of a node without name, and of all": (
        slice_of(nodeName="", allNodes=True),
        "spec.nodeName",
        '"" is no name of a node: ',
    ),
    "a slice of a node, and not of all": (
        slice_of(allNodes=False),
        "spec.allNodes",
        "cannot be false: ",
    ),
    "a slice that does not choose nodes by device": (
        slice_of(perDeviceNodeSelection=False),
        "spec.perDeviceNodeSelection",
        "cannot be false: ",
    ),
    "a device of a node with a long name": (device_on(LONG), "spec.devices[0].nodeName", '"aaa'),
    "an empty entry of configuration": (class_with({}), "spec.config[0]", "opaque is missing: "),
    "configuration for no driver": (
        class_with(configured("a b")),
        "spec.config[0].opaque.driver",
        '"a b" is no name of a driver: ',
    ),
    "configuration without parameters": (
        class_with(CONFIG, {"opaque": {"driver": "a.io"}}),
        "spec.config[1].opaque.parameters",
        "must be an object: ",
    ),
    **{
        f"an extended resource {what}": (
            serving(name),
            "spec.extendedResourceName",
            f'"{name}" is no name of an extended resource: ',
        )
        for what, name in {
            "without a domain": "gpu",
            "of Kubernetes": "node.kubernetes.io/gpu",
            "that every class has": "deviceclass.resource.kubernetes.io/gpu",
            "of a quota": "requests.a.io/gpu",
            "in capitals": "A.io/gpu",
            "with a hyphen at its end": "a.io/gpu-",
            "with two slashes": "a.io/b/c",
            "of a domain that leaves no room for its quota": f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 56}/e",
            "without a name": "",
        }.items()
    },
    "a domain of an attribute with an underscore": (
        matching("a_b/c"),
        "spec.devices.constraints[0].matchAttribute",
        '"a_b/c" is not fully qualified: ',
    ),
    "an attribute of a domain in capitals": (
        matching("A.io/B"),
        "spec.devices.constraints[0].matchAttribute",
        '"A.io/B" is not fully qualified: ',
    ),
    "an attribute with a hyphen": (
        matching("a.io/b-c"),
        "spec.devices.constraints[0].matchAttribute",
        '"a.io/b-c" is not fully qualified: ',
    ),
}
"""An object, the field that is wrong, and how the message about it begins."""
RIGHT: dict[str, dict[str, Any]] = {
    "a node with dots": named("a.b-c.1"),
    "the longest name": named("a" * 253),
    "a namespace with the longest name": named("a" * 63, "Namespace"),
    "a pod on no node": pod(nodeName=""),
    "a device of a node": device_on("a.b"),
    "configuration of a class": class_with(CONFIG, configured("A.io")),
    "configuration for a driver in capitals": claim(config=[configured("A.io")]),
    "an extended resource": serving("a.io/B_c.d"),
    "an extended resource of the longest domain": serving(f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 52}/e"),
    "an attribute in capitals": matching("a.io/B"),
    "an attribute of which the API server looks at no part": matching("a/b/c"),
    "requests of the longest name": claim(requests=[request("a" * 63)]),
}
"""Objects that are right, each close to one that is not."""
PODS: dict[str, tuple[dict[str, Any], str, str]] = {
    "two entries of one name": (
        pod(ENTRY, {"name": "b", "resourceClaimName": "x"}, {"name": "a", "resourceClaimTemplateName": "t"}),
        "spec.resourceClaims[2].name",
        'entry "a": is the name of two entries: ',
    ),
    "an entry without a name": (
        pod({**ENTRY, "name": ""}),
        "spec.resourceClaims[0].name",
        'entry "": is no name: ',
    ),
    "an entry in capitals": (
        pod({**ENTRY, "name": "A"}),
        "spec.resourceClaims[0].name",
        'entry "A": is no name: ',
    ),
    "an entry with a dot": (
        pod({**ENTRY, "name": "a.b"}),
        "spec.resourceClaims[0].name",
        'entry "a.b": is no name: ',
    ),
    "an entry with a long name": (
        pod({**ENTRY, "name": "a" * 64}),
        "spec.resourceClaims[0].name",
        f'entry "{"a" * 64}": is no name: ',
    ),
}
"""A pod, the field that is wrong, and how the line about the entry begins."""
RIGHT_PODS = {
    "two entries of one claim": pod(ENTRY, {**ENTRY, "name": "b"}),
    "the longest name": pod({**ENTRY, "name": "a" * 63}),
}
"""Pods that are right."""
