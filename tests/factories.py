"""Objects of the API as manifests have them: what a test does not care about has a default, the rest is an argument."""

V1 = "resource.k8s.io/v1"
GPU = "gpu.example.com"
_OTHERS = {
    **dict.fromkeys(("Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod"), "v1"),
    **dict.fromkeys(("DaemonSet", "Deployment"), "apps/v1"),
    "Job": "batch/v1",
}


def manifest(kind, name, spec=None, *, version=None, status=None, **metadata):
    """An object of resource.k8s.io, in v1 or another version, or of a group of others."""
    api_version = _OTHERS.get(kind, f"resource.k8s.io/{version or 'v1'}")
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}
    return body | ({} if spec is None else {"spec": spec}) | ({} if status is None else {"status": status})


def selectors(*expressions):
    """Selectors, of an expression each."""
    return [{"cel": {"expression": text}} for text in expressions]


def device_class(name="gpu", *expressions):
    """A class, by default of all devices of the driver of GPUs."""
    chosen = selectors(*(expressions or [f'device.driver == "{GPU}"']))
    return manifest("DeviceClass", name, {"selectors": chosen})


def request(name="gpu", device_class="gpu", *expressions, **exactly):
    """A request for a device of a class for which some expressions are true."""
    chosen = {"selectors": selectors(*expressions)} if expressions else {}
    return {"name": name, "exactly": {"deviceClassName": device_class, **chosen, **exactly}}


def claim(name="claim", *requests, status=None, constraints=(), **metadata):
    """A claim with some requests, or one for a GPU."""
    devices = {"requests": list(requests) or [request()]}
    if constraints:
        devices["constraints"] = list(constraints)
    return manifest("ResourceClaim", name, {"devices": devices}, status=status, **metadata)


def result(device="gpu-0", pool="node-1", request="gpu", driver=GPU, **fields):
    """A result: a device that an allocation gives to a request."""
    return {"request": request, "driver": driver, "pool": pool, "device": device, **fields}


def allocation(*results, node="node-1", **fields):
    """An allocation of some devices that are on a node."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {
        "devices": {"results": list(results)},
        "nodeSelector": {"nodeSelectorTerms": terms},
        **fields,
    }


def resource_slice(name, devices, *, driver=GPU, pool="node-1", generation=1, count=1, **where):
    """A slice of a pool on the node of its name, or elsewhere."""
    place = {"name": pool, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": driver, "pool": place, "devices": devices, **(where or {"nodeName": pool})}
    return manifest("ResourceSlice", name, spec)


def taint_rule(name, selector=None, *, key="broken", effect="NoSchedule", version=None, **metadata):
    """A DeviceTaintRule, which selects nothing where it has no selector."""
    chosen = {} if selector is None else {"deviceSelector": selector}
    spec = {"taint": {"key": key, "effect": effect}, **chosen}
    return manifest("DeviceTaintRule", name, spec, version=version, **metadata)


def pod(name="pod", *entries, **metadata):
    """A pod with some entries in its list of claims."""
    containers = [{"name": "main", "image": "none"}]
    return manifest("Pod", name, {"containers": containers, "resourceClaims": list(entries)}, **metadata)
