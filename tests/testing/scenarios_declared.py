"""Sequences of requests about what the Go structs declare, and about what came with Kubernetes 1.37."""

from typing import Any

from .steps import (
    CLAIMS,
    CLASSES,
    DRA,
    SLICES,
    TEMPLATES,
    Step,
    allocation,
    claim,
    create,
    delete,
    get,
    merge,
    put,
    request,
    resource_slice,
)

RULES = f"{DRA}/devicetaintrules"
OLD_RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
OLD_CLAIMS = "/apis/resource.k8s.io/v1beta1/namespaces/NAMESPACE/resourceclaims"
OLD_SLICES = "/apis/resource.k8s.io/v1beta1/resourceslices"
ATTRIBUTE = "gpu.example.com/numa"
TOLERATIONS = [{"value": "a b"}, {"operator": "Exists", "value": "v"}, {"operator": "Exists"}]
CONDITION = {
    "type": "T",
    "status": "True",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def rule(name: str, effect: str = "NoSchedule", **metadata: Any) -> dict[str, Any]:
    """Return a rule that taints the devices of a driver."""
    spec = {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "k", "effect": effect}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def derived(name: str = ATTRIBUTE, expression: str = "1") -> dict[str, str]:
    """Return an attribute that a request makes."""
    return {"name": name, "expression": expression}


def constrained(name: str, *requests: dict[str, Any], **constraint: Any) -> dict[str, Any]:
    """Return a claim whose devices have the same value of an attribute."""
    body = claim(name, *requests)
    body["spec"]["devices"]["constraints"] = [{"matchAttribute": ATTRIBUTE, **constraint}]
    return body


def device(name: str = "d", **fields: Any) -> dict[str, Any]:
    """Return a device that consumes a counter."""
    consumed = {"counterSet": "s", "counters": {"m": {"value": "1"}}}
    return {"name": name, "consumesCounters": [consumed], **fields}


def consuming(**fields: Any) -> dict[str, Any]:
    """Return a slice with a device that consumes a counter in this way."""
    consumed = {"counterSet": "s", "counters": {"m": {"value": "1"}}, **fields}
    return resource_slice("c", devices=[{"name": "d", "consumesCounters": [consumed]}])


def attribute(**values: Any) -> dict[str, Any]:
    """Return a slice with a device of one attribute."""
    return resource_slice("a", devices=[{"name": "d", "attributes": {"a": values}}])


def result(**fields: Any) -> dict[str, Any]:
    """Return a status with an allocation of one device, with these fields."""
    allocated = allocation()
    allocated["devices"]["results"][0] |= fields
    return {"status": {"allocation": allocated}}


def basic(name: str, **fields: Any) -> dict[str, Any]:
    """Return a slice in v1beta1 with one device."""
    return resource_slice(name, devices=[{"name": "d", "basic": fields}]) | {
        "apiVersion": "resource.k8s.io/v1beta1"
    }


DECLARED_SCENARIOS: dict[str, tuple[Step, ...]] = {
    "taint rules in v1": (
        create(rule("r"), RULES, remember="r"),
        get(f"{OLD_RULES}/r"),
        put(f"{RULES}/r", rule("r", "NoExecute")),
        put(f"{RULES}/r", rule("r", "NoExecute", resourceVersion="${r.metadata.resourceVersion}")),
        put(f"{RULES}/r", rule("r", resourceVersion="${r.metadata.resourceVersion}")),
        put(f"{RULES}/r/status", rule("r")),
        merge(f"{RULES}/r", {"spec": {"taint": {"value": "v"}}}),
        merge(f"{RULES}/r", {"spec": {"taint": {"effect": "Sometimes"}}}),
        merge(f"{RULES}/r/status", {"status": {"conditions": [CONDITION]}}),
        put(f"{OLD_RULES}/r", rule("r")),
        delete(f"{RULES}/r?dryRun=All"),
        delete(f"{RULES}/r"),
        create(rule("s", finalizers=["a/b"]), RULES),
        delete(f"{RULES}/s"),
        merge(f"{RULES}/s", {"metadata": {"finalizers": None}}),
        create(rule("t"), OLD_RULES),
        delete(f"{OLD_RULES}/t"),
        create(rule("u", ""), RULES),
    ),
    "slices of a pool": (
        create(resource_slice("a"), SLICES),
        create(resource_slice("b", pool={"name": "other", "generation": 1, "resourceSliceCount": 1}), SLICES),
        get(f"{SLICES}?fieldSelector=spec.pool.name%3Dother"),
        get(f"{SLICES}?fieldSelector=spec.driver%3Dgpu.example.com,spec.pool.name%21%3Dother"),
        get(f"{OLD_SLICES}?fieldSelector=spec.pool.name%3Dother"),
        get(f"{SLICES}?fieldSelector=spec.pool.generation%3D1"),
        delete(f"{SLICES}?fieldSelector=spec.pool.name%3Dother"),
        get(SLICES),
    ),
    "derived attributes": (
        create(constrained("a", request(derivedAttributes=[derived()]))),
        get(f"{OLD_CLAIMS}/a"),
        create(
            constrained(
                "c",
                {
                    "name": "any",
                    "firstAvailable": [
                        {"name": "x", "deviceClassName": "c", "derivedAttributes": [derived()]}
                    ],
                },
                requests=["any"],
            )
        ),
    ),
    "node operations that are skipped": (
        create(resource_slice("a", skipNodeOperations=["*"]), SLICES),
        create(
            resource_slice("b", skipNodeOperations=["NodeUnprepareResources", "NodeUnprepareResources"]),
            SLICES,
        ),
        create(resource_slice("b", skipNodeOperations=["Sleep", "NodeUnprepareResources"]), SLICES),
        merge(
            f"{SLICES}/a",
            {"spec": {"skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"]}},
        ),
        create(claim("a")),
        merge(f"{CLAIMS}/a/status", result(skipNodeOperations=["Sleep", "Sleep"])),
        merge(f"{CLAIMS}/a/status", result(skipNodeOperations=["*"])),
        get(f"{OLD_CLAIMS}/a"),
    ),
    "compatibility groups": (
        create(consuming(compatibilityGroups=["a", "b"]), SLICES),
        get(f"{OLD_SLICES}/c"),
        create(consuming(compatibilityGroups=["a", "b", "c"]), SLICES),
        create(consuming(counterSet="", counters={}), SLICES),
        create(
            resource_slice("c", devices=[{**device(), "consumesCounters": 3 * device()["consumesCounters"]}]),
            SLICES,
        ),
        create(
            resource_slice("c", devices=[{**device(), "consumesCounters": 2 * device()["consumesCounters"]}]),
            SLICES,
        ),
        merge(
            f"{SLICES}/c", {"spec": {"devices": [{"name": "d", "consumesCounters": [{"counterSet": "s"}]}]}}
        ),
    ),
    "counter sets": (
        create(
            resource_slice(
                "s", devices=None, sharedCounters=[{"name": "s", "counters": {"m": {"value": "1"}}}]
            ),
            SLICES,
        ),
        create(
            resource_slice(
                "t", devices=None, sharedCounters=[{"name": "s", "counters": {"m": {"value": "1000Mi"}}}] * 2
            ),
            SLICES,
        ),
        create(resource_slice("t", devices=None, sharedCounters=[{"name": ""}] * 9), SLICES),
    ),
    "types of partitions": (
        create(
            resource_slice(
                "a",
                partitionTypeAttribute="gpu.example.com/type",
                devices=[device(attributes={"type": {"string": "a"}}), {"name": "whole"}],
            ),
            SLICES,
        ),
    ),
    "resources of nodes, and fractions": (
        create(
            resource_slice(
                "b", devices=[{"name": "d", "nodeAllocatableResources": {"cpu": {"mapping": {}}}}]
            ),
            SLICES,
        ),
        create(
            resource_slice(
                "b",
                devices=[
                    {
                        "name": "d",
                        "allowMultipleAllocations": True,
                        "capacity": {
                            "m": {
                                "value": "4",
                                "requestPolicy": {
                                    "default": "0.5",
                                    "validRange": {"min": "500m", "max": "4", "step": "0.25"},
                                },
                            }
                        },
                    }
                ],
            ),
            SLICES,
        ),
        get(f"{OLD_SLICES}/b"),
    ),
    "letters and labels": (
        create(resource_slice("a", driver="GPU.example.com"), SLICES),
        merge(f"{SLICES}/a", {"metadata": {"labels": {"a": "b"}}}),
    ),
    "values of attributes": (
        create(attribute(int=1, bool=False), SLICES),
        create(attribute(), SLICES),
        create(attribute(strings=["a"], string="a"), SLICES),
        create(attribute(ints=[1, 2]), SLICES),
        create(basic("b", attributes={"a": {}}), OLD_SLICES),
        merge(f"{SLICES}/a", {"spec": {"devices": [{"name": "d", "attributes": {"a": {"bool": True}}}]}}),
    ),
    "constraints and configuration": (
        create(constrained("b", matchAttribute=None, distinctAttribute="a/b/c")),
        create(claim("b", *(request(f"r-{number}") for number in range(33)))),
        create(claim("b", request(), request(selectors=[{"cel": {"expression": "1 < 2 && true"}}]))),
        create({"metadata": {"name": "t"}, "spec": {"spec": claim("t")["spec"]}}, TEMPLATES),
        merge(f"{TEMPLATES}/t", {"spec": {"spec": {"devices": {"requests": [request(), request()]}}}}),
    ),
    "what an allocation says": (
        create(claim("a")),
        merge(f"{CLAIMS}/a/status", result(driver="d" * 64)),
        merge(f"{CLAIMS}/a/status", result(tolerations=[{"key": "k"}])),
        merge(
            f"{CLAIMS}/a/status",
            {
                "status": {
                    "reservedFor": [{"resource": "pods", "name": f"p{n}", "uid": "1"} for n in range(2)]
                }
            },
        ),
        merge(
            f"{CLAIMS}/a/status",
            {"status": {"devices": [{"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}] * 2}},
        ),
        merge(f"{OLD_CLAIMS}/a", {"spec": {"devices": {"requests": []}}}),
        merge(f"{OLD_CLAIMS}/a/status", result(device="gpu-1")),
    ),
    "classes that are refused": (
        create({"metadata": {"name": ""}}, CLASSES),
        create({"metadata": {"name": "c"}, "spec": {"extendedResourceName": "example.com/gpu"}}, CLASSES),
        create(
            {"metadata": {"name": "d"}, "spec": {"selectors": [{"cel": {"expression": "true"}}] * 33}},
            CLASSES,
        ),
    ),
}
