"""Sequences of requests about versions and about the other kinds."""

from .steps import (
    CLAIMS,
    CLASSES,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    RULES,
    SLICES,
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

KIND_SCENARIOS: dict[str, tuple[Step, ...]] = {
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
        merge(f"{SLICES}/a", {"spec": {"pool": {"generation": 2}}}),
        merge(f"{SLICES}/a", {"metadata": {"labels": {"x": "y"}}}),
        merge(f"{SLICES}/a", {"spec": {"nodeName": "node-9"}}),
        merge(f"{SLICES}/a", {"spec": {"driver": "other.example.com"}}),
        merge(f"{SLICES}/a", {"spec": {"pool": {"name": "other"}}}),
        create(resource_slice("c", devices=[{"name": "d", "capacity": {"m": {"value": "12 GB"}}}]), SLICES),
        create(resource_slice("c", devices=[{"name": "d", "capacity": {"m": {"value": 1024}}}]), SLICES),
    ),
    "quantities": (
        create(
            resource_slice(
                "a",
                devices=[
                    {"name": f"d-{number}", "capacity": {"m": {"value": value}}}
                    for number, value in enumerate(
                        [
                            "0.5",
                            3,
                            "1000",
                            "1E3",
                            "+12",
                            "+1e3",
                            "0012",
                            "1.",
                            "8Gi",
                            "9Gi",
                            "1.953125Ki",
                            "1000Mi",
                        ]
                    )
                ],
            ),
            SLICES,
        ),
        get(f"{SLICES}/a"),
    ),
    "classes and templates": (
        create(
            {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}, CLASSES
        ),
        merge(f"{CLASSES}/c", {"spec": {"selectors": []}}),
        merge(f"{CLASSES}/c", {"metadata": {"labels": {"x": "y"}}}),
        create({"metadata": {"name": "d"}}, CLASSES),
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
        delete(f"{PODS}/p"),
        create(pod("q", nodeName="n1"), PODS),
        get(f"{PODS}?fieldSelector=spec.nodeName%3Dn1"),
        get(f"{PODS}?fieldSelector=spec.colour%3Dred"),
        delete(f"{PODS}/q"),
        delete(f"{PODS}/q?gracePeriodSeconds=0"),
        get(f"{PODS}/q"),
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
        merge(f"{EVENTS}/e", {"count": 3}),
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
        delete(f"{LEASES}/l"),
        create({"metadata": {"name": "m"}, "data": {"a": "b"}}, "/api/v1/namespaces/NAMESPACE/configmaps"),
        delete("/api/v1/namespaces/NAMESPACE/configmaps/m?dryRun=All"),
        delete("/api/v1/namespaces/NAMESPACE/configmaps/m?dryRun=x", {"dryRun": ["All"]}),
        delete("/api/v1/namespaces/NAMESPACE/configmaps/m", {"preconditions": 5}),
        delete("/api/v1/namespaces/NAMESPACE/configmaps/m", ["a"]),
        delete("/api/v1/namespaces/NAMESPACE/configmaps/m"),
        create({"metadata": {"name": "sa"}}, "/api/v1/namespaces/NAMESPACE/serviceaccounts"),
        delete("/api/v1/namespaces/NAMESPACE/serviceaccounts/sa"),
    ),
    "namespaces": (
        get("/api/v1/namespaces/NAMESPACE"),
        merge(
            "/api/v1/namespaces/NAMESPACE",
            {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}},
        ),
        create(claim("admin", request(adminAccess=True))),
        merge("/api/v1/namespaces/NAMESPACE", {"spec": {"finalizers": []}, "status": {"phase": "Other"}}),
        delete("/api/v1/namespaces"),
    ),
}
