"""Sequences of requests for the conformance test of the in-memory API server.

`NAMESPACE` stands for the test's namespace, `${name.field}` for a field of an answer that a step remembered.
"""

from dataclasses import dataclass
from typing import Any

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/namespaces/NAMESPACE/resourceclaims"
TEMPLATES = f"{DRA}/namespaces/NAMESPACE/resourceclaimtemplates"
CLASSES = f"{DRA}/deviceclasses"
SLICES = f"{DRA}/resourceslices"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
PODS = "/api/v1/namespaces/NAMESPACE/pods"
EVENTS = "/api/v1/namespaces/NAMESPACE/events"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases"


@dataclass(frozen=True, slots=True)
class Step:
    """One request; `remember` names its answer for later steps."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    remember: str = ""


def request(name: str = "gpu", **fields: Any) -> dict[str, Any]:
    """Return a device request for class c."""
    return {"name": name, "exactly": {"deviceClassName": "c", **fields}}


def claim(name: str, *requests: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a claim with one request, or those given."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": list(requests) or [request()]}},
    }


def create(body: Any, path: str = CLAIMS, **options: Any) -> Step:
    """Return the creation of an object."""
    return Step("POST", path, body, **options)


def get(path: str, **options: Any) -> Step:
    """Return a read."""
    return Step("GET", path, **options)


def put(path: str, body: Any) -> Step:
    """Return a replacement."""
    return Step("PUT", path, body)


def merge(path: str, body: Any) -> Step:
    """Return a merge-patch."""
    return Step("PATCH", path, body, MERGE)


def delete(path: str, body: Any = None) -> Step:
    """Return a deletion."""
    return Step("DELETE", path, body)


def allocation(device: str = "gpu-0", of: str = "gpu") -> dict[str, Any]:
    """Return an allocation of one device."""
    result = {"request": of, "driver": "gpu.example.com", "pool": "node-1", "device": device}
    return {"devices": {"results": [result]}}


def resource_slice(name: str, **spec: Any) -> dict[str, Any]:
    """Return a slice of one device on node-1; `spec` replaces fields, None leaves them out."""
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    fields = {
        "driver": "gpu.example.com",
        "pool": pool,
        "nodeName": "node-1",
        "devices": [{"name": "gpu-0"}],
        **spec,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {field: value for field, value in fields.items() if value is not None},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod with one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


FINALIZER = "resource.kubernetes.io/delete-protection"

SCENARIOS: dict[str, tuple[Step, ...]] = {
    "a claim is created, read, listed": (
        create(claim("a", labels={"team": "x"}, annotations={"n": "1"})),
        get(f"{CLAIMS}/a"),
        get(CLAIMS),
        get(f"{CLAIMS}/a", accept=TABLE),
        get(CLAIMS, accept=TABLE),
        get(f"{DRA}/resourceclaims?fieldSelector=metadata.namespace%3DNAMESPACE"),
        get(CLAIMS, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        get(f"{CLAIMS}/a", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        get(CLAIMS, accept="text/html"),
    ),
    "names": (
        create(claim("a")),
        create(claim("a")),
        create(claim("A_")),
        create(claim("")),
        create(claim("", generateName="made-")),
        create({**claim("x"), "metadata": {"name": "x", "namespace": "elsewhere"}}),
        create(claim("r", resourceVersion="7")),
        create(claim("l", labels={"a b": "c"})),
        create(claim("f", finalizers=["no/such/finalizer"])),
        create(claim("f", finalizers=["a b/c"])),
    ),
    "bodies that are not understood": (
        create("{garbage"),
        create(""),
        create({"kind": "Foo", "apiVersion": "v1"}),
        create({**claim("v"), "apiVersion": "resource.k8s.io/v1beta1", "spec": {"devices": {}}}),
        create({"metadata": {"name": "kindless"}}),
        create("a: b", content_type="text/plain"),
        create(
            "kind: ResourceClaim\napiVersion: resource.k8s.io/v1\nmetadata: {name: yaml}\n",
            content_type="application/yaml",
        ),
        create({**claim("b"), "spec": {"devices": {"requests": {}}}}),
        create(claim("b", request(count="two"))),
        create(claim("b", request(count=1.5))),
        create({**claim("b"), "metadata": {"name": 5}}),
        create({**claim("b"), "metadata": {"name": "b", "labels": {"a": 1}}}),
        create(claim("b", request(adminAccess="yes"))),
    ),
    "unknown fields": (
        create({**claim("a", request(bogus=1)), "extra": True}),
        create({**claim("b", request(bogus=1)), "extra": True}, f"{CLAIMS}?fieldValidation=Strict"),
        create({**claim("c", request(bogus=1)), "extra": True}, f"{CLAIMS}?fieldValidation=Ignore"),
        create(claim("d"), f"{CLAIMS}?fieldValidation=Sometimes"),
        merge(f"{CLAIMS}/a", {"spec": {"bogus": 1}}),
    ),
    "null and empty are absent": (
        create(
            {**claim("a"), "metadata": {"name": "a", "labels": {}, "annotations": None, "finalizers": []}}
        ),
        create(claim("b", request(selectors=[], count=None, tolerations=None))),
        create({"metadata": {"name": "c"}, "spec": {"devices": {}}}),
        create(
            {
                "metadata": {"name": "d"},
                "spec": {"devices": {"requests": [], "constraints": [], "config": None}},
            }
        ),
    ),
    "requests that are refused": (
        create(claim("b", request("A_", deviceClassName=""))),
        create(claim("b", {"name": "gpu"})),
        create(claim("b", {**request(), "firstAvailable": [{"name": "x", "deviceClassName": "c"}]})),
        create(claim("b", {"name": "gpu", "firstAvailable": []})),
        create(claim("b", request(count=2, allocationMode="All"))),
        create(claim("b", request(count=-2))),
        create(claim("b", request(allocationMode="Some"))),
        create(claim("b", request(), request())),
        create(claim("b", {"name": "gpu", "firstAvailable": [{"name": "x", "deviceClassName": ""}]})),
        create(claim("b", request(deviceClassName="C_"))),
        create(claim("b", request(adminAccess=True))),
    ),
    "defaults of requests": (
        create(
            claim(
                "a",
                request(count=0, tolerations=[{"key": "k", "effect": "NoSchedule"}, {"operator": "Exists"}]),
            )
        ),
        create(claim("b", request(allocationMode="All"))),
        create(claim("c", {"name": "gpu", "firstAvailable": [{"name": "x", "deviceClassName": "c"}]})),
    ),
    "a claim's spec is immutable": (
        create(claim("a"), remember="a"),
        merge(f"{CLAIMS}/a", {"spec": {"devices": {"requests": []}}}),
        put(f"{CLAIMS}/a", claim("a", request(count=3))),
        put(f"{CLAIMS}/a", claim("a", labels={"x": "y"})),
        put(f"{CLAIMS}/a", claim("a", labels={"x": "z"}, uid="${a.metadata.uid}")),
        put(f"{CLAIMS}/a", claim("a", resourceVersion="${a.metadata.resourceVersion}")),
        put(f"{CLAIMS}/a", claim("b")),
        put(f"{CLAIMS}/none", claim("none")),
        put(f"{CLAIMS}/a", claim("a", uid="another")),
        get(f"{CLAIMS}/a"),
    ),
    "merge patches": (
        create(claim("a"), remember="a"),
        merge(f"{CLAIMS}/a", {"metadata": {"labels": {"x": "1", "y": "2"}}}),
        merge(f"{CLAIMS}/a", {"metadata": {"labels": {"x": None}}}),
        merge(f"{CLAIMS}/a", {"metadata": {"labels": {"y": "2"}}}),
        merge(
            f"{CLAIMS}/a",
            {"metadata": {"resourceVersion": "${a.metadata.resourceVersion}", "labels": {"y": "3"}}},
        ),
        merge(f"{CLAIMS}/a", {"metadata": {"uid": "another", "labels": {"y": "3"}}}),
        merge(f"{CLAIMS}/a", {"metadata": {"name": "other"}}),
        merge(f"{CLAIMS}/a", {"metadata": {"namespace": "other"}}),
        merge(f"{CLAIMS}/a", {"metadata": {"creationTimestamp": None, "generation": 7, "uid": None}}),
        merge(f"{CLAIMS}/a", []),
        merge(f"{CLAIMS}/a", "{garbage"),
        merge(f"{CLAIMS}/none", {}),
        merge(f"{CLAIMS}/a", {}),
        Step("PATCH", f"{CLAIMS}/a", {}, "application/json"),
        merge(f"{CLAIMS}/a", {"metadata": {"finalizers": ["a b/c"]}}),
        merge(f"{CLAIMS}/a", {"metadata": {"labels": {"a b": "c"}}}),
        merge(f"{CLAIMS}/a", {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}),
        get(f"{CLAIMS}/a"),
    ),
    "JSON patches": (
        create(claim("a", labels={"x": "1"})),
        Step("PATCH", f"{CLAIMS}/a", [{"op": "add", "path": "/metadata/labels/y", "value": "2"}], JSON_PATCH),
        Step(
            "PATCH", f"{CLAIMS}/a", [{"op": "test", "path": "/metadata/labels/y", "value": "3"}], JSON_PATCH
        ),
        Step(
            "PATCH", f"{CLAIMS}/a", [{"op": "replace", "path": "/metadata/none/x", "value": "3"}], JSON_PATCH
        ),
        Step("PATCH", f"{CLAIMS}/a", [{"op": "remove", "path": "/metadata/labels/x"}], JSON_PATCH),
        Step("PATCH", f"{CLAIMS}/a", {"op": "remove"}, JSON_PATCH),
        Step(
            "PATCH",
            f"{CLAIMS}/a",
            [{"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]}],
            JSON_PATCH,
        ),
        Step(
            "PATCH",
            f"{CLAIMS}/a",
            [
                {"op": "test", "path": "/metadata/finalizers/0", "value": "a/b"},
                {"op": "remove", "path": "/metadata/finalizers/0"},
            ],
            JSON_PATCH,
        ),
    ),
    "strategic merge patches": (
        create(claim("a", finalizers=["a/b"])),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"finalizers": ["c/d"]}}, STRATEGIC),
        Step(
            "PATCH", f"{CLAIMS}/a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}}, STRATEGIC
        ),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"labels": {"v": "w"}}}, STRATEGIC),
        Step("PATCH", f"{CLAIMS}/a", {"metadata": {"labels": {"x": "y", "$patch": "replace"}}}, STRATEGIC),
        create(resource_slice("s", devices=[{"name": "gpu-0"}, {"name": "gpu-1"}]), SLICES),
        Step("PATCH", f"{SLICES}/s", {"spec": {"devices": [{"name": "gpu-1", "allNodes": None}]}}, STRATEGIC),
        create(
            {
                "metadata": {"name": "n"},
                "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]},
            },
            NODES,
        ),
        Step(
            "PATCH",
            f"{NODES}/n/status",
            {"status": {"conditions": [{"type": "B", "status": "False"}]}},
            STRATEGIC,
        ),
        Step(
            "PATCH",
            f"{NODES}/n/status",
            {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}},
            STRATEGIC,
        ),
        Step(
            "PATCH",
            f"{NODES}/n/status",
            {
                "status": {
                    "$setElementOrder/conditions": [{"type": "C"}, {"type": "B"}],
                    "conditions": [{"type": "C", "status": "True"}],
                }
            },
            STRATEGIC,
        ),
        create(pod("p"), PODS),
        Step("PATCH", f"{PODS}/p", {"spec": {"containers": [{"name": "c", "image": "j:2"}]}}, STRATEGIC),
        delete(f"{PODS}/p"),
    ),
    "the status of a claim": (
        create({**claim("a"), "status": {"allocation": allocation()}}),
        merge(f"{CLAIMS}/a", {"status": {"allocation": allocation()}}),
        merge(
            f"{CLAIMS}/a/status",
            {
                "metadata": {"labels": {"x": "y"}, "finalizers": ["a/b"]},
                "spec": None,
                "status": {"allocation": allocation()},
            },
        ),
        get(f"{CLAIMS}/a/status"),
        merge(f"{CLAIMS}/a/status", {"status": {"allocation": allocation("gpu-1")}}),
        merge(
            f"{CLAIMS}/a/status", {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}}
        ),
        merge(f"{CLAIMS}/a/status", {"status": {"allocation": None}}),
        merge(
            f"{CLAIMS}/a/status",
            {"status": {"devices": [{"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}]}},
        ),
        merge(f"{CLAIMS}/a/status", {"status": {"allocation": None, "reservedFor": None}}),
        merge(
            f"{CLAIMS}/a/status", {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}}
        ),
        merge(f"{CLAIMS}/a/status", {"status": {"allocation": allocation(of="other")}}),
        merge(
            f"{CLAIMS}/a/status",
            {"metadata": {"resourceVersion": "1"}, "status": {"allocation": allocation()}},
        ),
        merge(f"{CLAIMS}/a/status", {"metadata": {"uid": "another"}, "status": {"allocation": allocation()}}),
        Step("PUT", f"{CLAIMS}/a/status", {**claim("a"), "status": {"allocation": allocation("gpu-2")}}),
        delete(f"{CLAIMS}/a/status"),
        get(f"{CLAIMS}/a/binding"),
        get(f"{TEMPLATES}/a/status"),
    ),
    "deletion waits for finalizers": (
        create(claim("a", finalizers=[FINALIZER]), remember="a"),
        delete(f"{CLAIMS}/a", {"preconditions": {"uid": "another"}}),
        delete(f"{CLAIMS}/a", {"preconditions": {"resourceVersion": "1"}}),
        delete(f"{CLAIMS}/a?dryRun=All"),
        delete(
            f"{CLAIMS}/a", {"propagationPolicy": "Background", "preconditions": {"uid": "${a.metadata.uid}"}}
        ),
        delete(f"{CLAIMS}/a"),
        merge(f"{CLAIMS}/a", {"metadata": {"finalizers": [FINALIZER, "c/d"]}}),
        merge(f"{CLAIMS}/a/status", {"status": {"allocation": allocation()}}),
        merge(
            f"{CLAIMS}/a/status", {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}}
        ),
        get(CLAIMS, accept=TABLE),
        merge(f"{CLAIMS}/a/status", {"status": {"allocation": None}}),
        merge(f"{CLAIMS}/a", {"metadata": {"finalizers": None}}),
        get(f"{CLAIMS}/a"),
        create(claim("b")),
        delete(f"{CLAIMS}/b"),
        delete(f"{CLAIMS}/b"),
        create(claim("c", labels={"x": "y"})),
        create(claim("d")),
        delete(f"{CLAIMS}?labelSelector=x%3Dy"),
        get(CLAIMS),
        delete(CLAIMS),
    ),
    "what does not exist": (
        get(f"{CLAIMS}/none"),
        delete(f"{CLAIMS}/none"),
        get(f"{DRA}/namespaces/no-such/resourceclaims"),
        create(claim("a"), f"{DRA}/namespaces/no-such/resourceclaims"),
        get(f"{DRA}/nothings"),
        get("/apis/resource.k8s.io/v9/things"),
        get("/apis/no.such.group"),
        get("/no/such/path"),
        put(CLAIMS, claim("a")),
        create(claim("a"), f"{CLAIMS}/a"),
        Step("POST", f"{DRA}/resourceclaims", claim("a")),
        Step("OPTIONS", CLAIMS),
    ),
    "dry runs": (
        create(claim("a"), f"{CLAIMS}?dryRun=All"),
        get(f"{CLAIMS}/a"),
        create(claim("a")),
        create(claim("a"), f"{CLAIMS}?dryRun=All"),
        merge(f"{CLAIMS}/a?dryRun=All", {"metadata": {"labels": {"x": "y"}}}),
        get(f"{CLAIMS}/a"),
        create(claim("b"), f"{CLAIMS}?dryRun=Some"),
    ),
    "lists": (
        create(claim("c", labels={"n": "3"})),
        create(claim("a", labels={"n": "1", "odd": "yes"})),
        create(claim("b", labels={"n": "2"})),
        get(CLAIMS),
        get(f"{CLAIMS}?limit=2", remember="page"),
        get(f"{CLAIMS}?limit=2&continue=${{page.metadata.continue}}"),
        get(f"{CLAIMS}?limit=1&resourceVersion=0"),
        get(f"{CLAIMS}?limit=3"),
        get(f"{CLAIMS}?limit=1&labelSelector=n%3D2"),
        get(f"{CLAIMS}?labelSelector=odd"),
        get(f"{CLAIMS}?labelSelector=!odd"),
        get(f"{CLAIMS}?labelSelector=n%20in%20(1,3)"),
        get(f"{CLAIMS}?labelSelector=n%20notin%20(1,3),n"),
        get(f"{CLAIMS}?labelSelector=n%21%3D1"),
        get(f"{CLAIMS}?labelSelector=n%3E1"),
        get(f"{CLAIMS}?fieldSelector=metadata.name%3Da"),
        get(f"{CLAIMS}?fieldSelector=metadata.name%21%3Da"),
        get(f"{CLAIMS}?fieldSelector=spec.foo%3Da"),
        get(f"{CLAIMS}?fieldSelector=spec"),
        get(f"{CLAIMS}?limit=many"),
        get(f"{CLAIMS}?resourceVersion=abc"),
        get(f"{CLAIMS}?resourceVersion=999999999"),
        get(f"{CLAIMS}/a?resourceVersion=999999999"),
        get(f"{CLAIMS}?resourceVersionMatch=Exact"),
    ),
    "watches": (
        create(claim("a", labels={"x": "y"}), remember="a"),
        create(claim("b")),
        merge(f"{CLAIMS}/a", {"metadata": {"labels": {"x": "z"}}}),
        merge(f"{CLAIMS}/b", {"metadata": {"labels": {"x": "y"}}}),
        delete(f"{CLAIMS}/b"),
        get(f"{CLAIMS}?watch=true&timeoutSeconds=1"),
        get(f"{CLAIMS}?watch=true&timeoutSeconds=1&resourceVersion=${{a.metadata.resourceVersion}}"),
        get(
            f"{CLAIMS}?watch=true&timeoutSeconds=1&resourceVersion=${{a.metadata.resourceVersion}}&labelSelector=x%3Dy"
        ),
        get(
            f"{CLAIMS}?watch=true&timeoutSeconds=1&resourceVersion=${{a.metadata.resourceVersion}}&fieldSelector=metadata.name%3Db"
        ),
        get(f"{DRA}/watch/namespaces/NAMESPACE/resourceclaims/a?timeoutSeconds=1"),
        get(f"{CLAIMS}/a?watch=true&timeoutSeconds=1"),
        get(f"{CLAIMS}?watch=true&timeoutSeconds=1&resourceVersion=abc"),
        get(f"{CLAIMS}?watch=true&timeoutSeconds=1&sendInitialEvents=true"),
        get(
            f"{CLAIMS}?watch=true&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        ),
        get(f"{CLAIMS}?watch=true&timeoutSeconds=1&resourceVersionMatch=NotOlderThan&resourceVersion=0"),
        get(f"{CLAIMS}?watch=true&timeoutSeconds=1", accept=TABLE),
    ),
    "versions of one object": (
        create(claim("a", request(count=2, adminAccess=False))),
        get("/apis/resource.k8s.io/v1beta2/namespaces/NAMESPACE/resourceclaims/a"),
        get("/apis/resource.k8s.io/v1beta1/namespaces/NAMESPACE/resourceclaims/a"),
        get("/apis/resource.k8s.io/v1beta1/namespaces/NAMESPACE/resourceclaims"),
        create(
            {
                "metadata": {"name": "b"},
                "spec": {
                    "devices": {
                        "requests": [
                            {"name": "gpu", "deviceClassName": "c"},
                            {"name": "any", "firstAvailable": [{"name": "x", "deviceClassName": "c"}]},
                        ]
                    }
                },
            },
            "/apis/resource.k8s.io/v1beta1/namespaces/NAMESPACE/resourceclaims",
        ),
        get(f"{CLAIMS}/b"),
        merge(
            "/apis/resource.k8s.io/v1beta1/namespaces/NAMESPACE/resourceclaims/b/status",
            {"status": {"allocation": allocation()}},
        ),
        get(f"{CLAIMS}/b"),
        create(
            {
                "metadata": {"name": "s"},
                "spec": {
                    "driver": "d.example.com",
                    "nodeName": "n",
                    "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                    "devices": [
                        {
                            "name": "d",
                            "basic": {
                                "attributes": {"a": {"bool": False}},
                                "capacity": {"m": {"value": "1024Mi"}},
                            },
                        }
                    ],
                },
            },
            "/apis/resource.k8s.io/v1beta1/resourceslices",
        ),
        get(f"{SLICES}/s"),
        get("/apis/resource.k8s.io/v1beta2/resourceslices/s"),
    ),
    "slices": (
        create(
            resource_slice(
                "a",
                devices=[
                    {
                        "name": "gpu-0",
                        "attributes": {"type": {"string": "gpu"}, "zero": {"int": 0}},
                        "capacity": {"memory": {"value": "0.5Gi"}},
                        "taints": [{"key": "k", "effect": "NoSchedule"}],
                    }
                ],
            ),
            SLICES,
        ),
        create(resource_slice("b", nodeName="node-2"), SLICES),
        get(f"{SLICES}?fieldSelector=spec.nodeName%3Dnode-2"),
        get(f"{SLICES}?fieldSelector=spec.driver%3Dgpu.example.com,spec.nodeName%21%3Dnode-2"),
        get(SLICES, accept=TABLE),
        merge(f"{SLICES}/a", {"spec": {"pool": {"generation": 2}}}),
        merge(f"{SLICES}/a", {"metadata": {"labels": {"x": "y"}}}),
        merge(f"{SLICES}/a", {"spec": {"nodeName": "node-9"}}),
        merge(f"{SLICES}/a", {"spec": {"driver": "other.example.com"}}),
        merge(f"{SLICES}/a", {"spec": {"pool": {"name": "other"}}}),
        create(resource_slice("c", nodeName=None), SLICES),
        create(resource_slice("c", allNodes=True), SLICES),
        create(resource_slice("c", devices=[{"name": "D_"}]), SLICES),
        create(resource_slice("c", devices=[{"name": "d"}, {"name": "d"}]), SLICES),
        create(resource_slice("c", pool={"name": "p", "generation": -1, "resourceSliceCount": 0}), SLICES),
        create(resource_slice("c", driver=""), SLICES),
        create(resource_slice("c", devices=[{"name": "d", "capacity": {"m": {"value": "12 GB"}}}]), SLICES),
        create(resource_slice("c", devices=[{"name": "d", "capacity": {"m": {"value": 1024}}}]), SLICES),
    ),
    "classes and templates": (
        create(
            {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}, CLASSES
        ),
        merge(f"{CLASSES}/c", {"spec": {"selectors": []}}),
        merge(f"{CLASSES}/c", {"metadata": {"labels": {"x": "y"}}}),
        create({"metadata": {"name": "d"}, "spec": {"selectors": [{}]}}, CLASSES),
        create({"metadata": {"name": "d"}}, CLASSES),
        get(CLASSES, accept=TABLE),
        create(
            {
                "metadata": {"name": "t"},
                "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [request()]}}},
            },
            TEMPLATES,
        ),
        create(
            {"metadata": {"name": "u"}, "spec": {"spec": {"devices": {"requests": [request()]}}}}, TEMPLATES
        ),
        merge(f"{TEMPLATES}/t", {"spec": {"spec": {"devices": {"requests": []}}}}),
        delete(f"{TEMPLATES}/t"),
        delete(f"{CLASSES}/c"),
    ),
    "taint rules": (
        create(
            {
                "metadata": {"name": "r"},
                "spec": {
                    "deviceSelector": {"driver": "d.example.com"},
                    "taint": {"key": "k", "effect": "NoSchedule"},
                },
                "status": {"conditions": []},
            },
            RULES,
        ),
        get(RULES, accept=TABLE),
        get("/apis/resource.k8s.io/v1alpha3/devicetaintrules/r"),
        merge(f"{RULES}/r", {"spec": {"taint": {"value": "v"}}}),
        merge(f"{RULES}/r", {"spec": {"taint": {"effect": "NoExecute"}}}),
        merge(
            f"{RULES}/r/status",
            {
                "spec": {"taint": {"value": "w"}},
                "status": {
                    "conditions": [
                        {
                            "type": "T",
                            "status": "True",
                            "reason": "R",
                            "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ]
                },
            },
        ),
        merge(f"{RULES}/r", {"status": None}),
        create({"metadata": {"name": "q"}, "spec": {"taint": {"key": "k"}}}, RULES),
        create({"metadata": {"name": "q"}, "spec": {"taint": {"key": "k", "effect": "Sometimes"}}}, RULES),
        delete(f"{RULES}/r"),
    ),
    "nodes": (
        create(
            {
                "metadata": {"name": "n1"},
                "spec": {"unschedulable": True},
                "status": {
                    "capacity": {"cpu": "4000m", "memory": "1024Mi"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
            NODES,
        ),
        merge(
            f"{NODES}/n1/status",
            {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"unschedulable": None},
                "status": {"capacity": {"cpu": 2}},
            },
        ),
        merge(f"{NODES}/n1", {"spec": {"unschedulable": None}, "status": {"capacity": {"cpu": 3}}}),
        get(f"{NODES}?fieldSelector=spec.unschedulable%3Dfalse"),
        get(NODES, accept=TABLE),
        delete(f"{NODES}/n1"),
    ),
    "pods": (
        create(pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "c"}]), PODS),
        merge(
            f"{PODS}/p/status",
            {
                "metadata": {"labels": {"a": "c"}},
                "status": {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "c"}]},
            },
        ),
        merge(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}),
        get(f"{PODS}?fieldSelector=status.phase%3DSucceeded"),
        get(PODS, accept=TABLE),
        delete(f"{PODS}/p"),
        create(pod("q", nodeName="n1"), PODS),
        get(f"{PODS}?fieldSelector=spec.nodeName%3Dn1"),
        delete(f"{PODS}/q"),
        get(PODS, accept=TABLE),
        delete(f"{PODS}/q?gracePeriodSeconds=0"),
        get(f"{PODS}/q"),
        create({"metadata": {"name": "r"}, "spec": {}}, PODS),
    ),
    "events": (
        create(
            {
                "metadata": {"name": "e"},
                "involvedObject": {
                    "kind": "ResourceClaim",
                    "namespace": "NAMESPACE",
                    "name": "c",
                    "uid": "u",
                },
                "reason": "Pending",
                "message": "m",
                "type": "Warning",
                "count": 2,
                "source": {"component": "dra-operator"},
                "firstTimestamp": "2026-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:00:00Z",
            },
            EVENTS,
        ),
        get("/apis/events.k8s.io/v1/namespaces/NAMESPACE/events/e"),
        get(
            f"{EVENTS}?fieldSelector=involvedObject.name%3Dc,involvedObject.kind%3DResourceClaim,involvedObject.uid%3Du"
        ),
        get(f"{EVENTS}?fieldSelector=involvedObject.name%3Dd"),
        get(f"{EVENTS}?fieldSelector=reason%3DPending,type%3DWarning"),
        get(EVENTS, accept=TABLE),
        merge(f"{EVENTS}/e", {"count": 3}),
        create({"metadata": {"name": "f"}, "involvedObject": {"namespace": "other"}}, EVENTS),
        create({"metadata": {"generateName": "g."}, "involvedObject": {"namespace": "NAMESPACE"}}, EVENTS),
        delete(f"{EVENTS}/e"),
    ),
    "leases and other kinds": (
        put(
            f"{LEASES}/l",
            {
                "metadata": {"name": "l"},
                "spec": {
                    "holderIdentity": "x",
                    "leaseDurationSeconds": 15,
                    "renewTime": "2026-01-01T00:00:00.000000Z",
                },
            },
        ),
        put(f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "y"}}),
        put(
            f"{LEASES}/l",
            {"metadata": {"name": "l", "resourceVersion": "1"}, "spec": {"holderIdentity": "y"}},
        ),
        merge(f"{LEASES}/l", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
        get(LEASES, accept=TABLE),
        delete(f"{LEASES}/l"),
        create({"metadata": {"name": "m"}, "data": {"a": "b"}}, "/api/v1/namespaces/NAMESPACE/configmaps"),
        get("/api/v1/namespaces/NAMESPACE/configmaps?fieldSelector=metadata.name%3Dm", accept=TABLE),
        delete("/api/v1/namespaces/NAMESPACE/configmaps/m"),
        create({"metadata": {"name": "sa"}}, "/api/v1/namespaces/NAMESPACE/serviceaccounts"),
        get("/api/v1/namespaces/NAMESPACE/serviceaccounts/sa", accept=TABLE),
        delete("/api/v1/namespaces/NAMESPACE/serviceaccounts/sa"),
    ),
    "namespaces": (
        get("/api/v1/namespaces/NAMESPACE"),
        get("/api/v1/namespaces/NAMESPACE", accept=TABLE),
        merge(
            "/api/v1/namespaces/NAMESPACE",
            {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}},
        ),
        create(claim("admin", request(adminAccess=True))),
        merge("/api/v1/namespaces/NAMESPACE", {"spec": {"finalizers": []}, "status": {"phase": "Other"}}),
        delete("/api/v1/namespaces/default"),
        delete("/api/v1/namespaces"),
        create({"metadata": {"name": "N_"}}, "/api/v1/namespaces"),
    ),
}
"""Every scenario by its name."""
