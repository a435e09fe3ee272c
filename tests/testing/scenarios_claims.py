"""Sequences of requests about claims: every way to write, read and refuse one."""

from .steps import (
    CLAIMS,
    DRA,
    FINALIZER,
    JSON_PATCH,
    NODES,
    PODS,
    SLICES,
    STRATEGIC,
    TEMPLATES,
    Step,
    allocation,
    claim,
    create,
    delete,
    get,
    merge,
    pod,
    put,
    request,
    resource_slice,
)

CLAIM_SCENARIOS: dict[str, tuple[Step, ...]] = {
    "a claim is created, read, listed": (
        create(claim("a", labels={"team": "x"}, annotations={"n": "1"})),
        get(f"{CLAIMS}/a"),
        get(CLAIMS),
        get(f"{DRA}/resourceclaims?fieldSelector=metadata.namespace%3DNAMESPACE"),
    ),
    "names": (
        create(claim("a")),
        create(claim("a")),
        create(claim("")),
        create(claim("", generateName="made-")),
        create({**claim("x"), "metadata": {"name": "x", "namespace": "elsewhere"}}),
        create(claim("r", resourceVersion="7")),
    ),
    "bodies that are not understood": (
        create("{garbage"),
        create(""),
        create(["a"]),
        create("5"),
        create({**claim("a"), "kind": ["ResourceClaim"]}),
        create(f"{{{'x' * 70}"),
        create({"kind": "Foo", "apiVersion": "v1"}),
        create({**claim("v"), "apiVersion": "resource.k8s.io/v1beta1", "spec": {"devices": {}}}),
        create({"metadata": {"name": "kindless"}}),
        create("a: b", content_type="text/plain"),
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
        merge(f"{CLAIMS}/a", {"spec": {"bogus": 1}}),
        create({**claim("e"), "größe": 1}),
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
    "requests that are refused": (create(claim("b", request(adminAccess=True))),),
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
        merge(f"{CLAIMS}/a/status", {"status": {"allocation": None}}),
        merge(f"{CLAIMS}/a", {"metadata": {"finalizers": None}}),
        get(f"{CLAIMS}/a"),
        create(claim("b")),
        delete(f"{CLAIMS}/b"),
        delete(f"{CLAIMS}/b"),
        create(claim("c", labels={"x": "y"})),
        create(claim("d")),
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
        get(f"{CLAIMS}/a?watch=true&timeoutSeconds=1"),
        get(
            f"{CLAIMS}?watch=true&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        ),
    ),
}
