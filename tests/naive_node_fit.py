"""Whether a node suits a pod, told from the whole bodies, each time anew: what the package is compared with.

Written from kube-scheduler's plugins, as plainly as it goes, and of nothing that the package has.
"""

from fractions import Fraction
from math import ceil

_SUFFIXES = {
    "m": Fraction(1, 1000),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
}
_ANY = "0.0.0.0"  # noqa: S104 - stands for all addresses
_ORDER = ("cpu", "memory", "ephemeral-storage")


def amount(text):
    """Return what a quantity stands for."""
    number = text.rstrip("mkMGTiK")
    return Fraction(number) * _SUFFIXES.get(text[len(number) :], 1)


def in_units(resource, total):
    """Return an amount as kube-scheduler counts it."""
    return ceil(total * 1000) if resource == "cpu" else ceil(total)


def containers(pod, field):
    """Return containers with what they request."""
    for container in pod["spec"].get(field, []):
        resources = container.get("resources", {})
        requests = {**resources.get("limits", {}), **resources.get("requests", {})}
        yield container, {name: amount(text) for name, text in requests.items()}


def requests(pod):
    """Return what a pod requests, resource by resource."""
    names = {
        name
        for field in ("containers", "initContainers")
        for _, asked in containers(pod, field)
        for name in asked
    }
    found = {}
    for name in names:
        running = sum(asked.get(name, 0) for _, asked in containers(pod, "containers"))
        sidecars = largest = Fraction(0)
        for container, asked in containers(pod, "initContainers"):
            if container.get("restartPolicy") == "Always":
                sidecars += asked.get(name, 0)
                largest = max(largest, sidecars)
            else:
                largest = max(largest, sidecars + asked.get(name, 0))
        found[name] = max(running + sidecars, largest)
    whole = pod["spec"].get("resources", {})
    for name, text in whole.get("limits", {}).items():
        found.setdefault(name, amount(text))
    found |= {name: amount(text) for name, text in whole.get("requests", {}).items()}
    for name, text in pod["spec"].get("overhead", {}).items():
        found[name] = found.get(name, 0) + amount(text)
    return {name: in_units(name, total) for name, total in found.items() if total}


def ports(pod):
    """Return address, protocol and number of the ports of the node that a pod uses."""
    spec = pod["spec"]
    lasting = [item for item in spec.get("initContainers", []) if item.get("restartPolicy") == "Always"]
    return {
        (port.get("hostIP") or _ANY, port.get("protocol") or "TCP", port["hostPort"])
        for container in [*spec["containers"], *lasting]
        for port in container.get("ports", [])
        if port.get("hostPort")
    }


def tolerates(pod, taint):
    """Return whether any toleration is for the taint."""
    return any(
        item.get("effect") in (None, taint["effect"])
        and item.get("key") in (None, taint["key"])
        and (item.get("operator") == "Exists" or item.get("value", "") == taint.get("value", ""))
        for item in pod["spec"].get("tolerations", [])
    )


def holds(expression, labels):
    """Return whether a node with these labels is as an expression says."""
    value, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(values[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(values[0])


def selects(selector, node):
    """Return whether one of the terms is met."""
    labels, name = node["metadata"]["labels"], {"metadata.name": node["metadata"]["name"]}
    return any(
        all(holds(item, labels) for item in term.get("matchExpressions", []))
        and all(holds(item, name) for item in term.get("matchFields", []))
        for term in selector["nodeSelectorTerms"]
    )


def features(pod):
    """Return the features that a node must declare."""
    rules = [rule for item in pod["spec"]["containers"] for rule in item.get("restartPolicyRules", [])]
    return {"RestartAllContainersOnContainerExits"} if rules else set()


def find_condition(pod, node, pods, claims=(), volumes=()):
    """Return the first condition of a node that is against a pod, or None. `pods` are all, with their nodes."""
    spec, labels = pod["spec"], node["metadata"]["labels"]
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    (required,) = affinity.values() or (None,)
    if required and all("matchFields" in term for term in required["nodeSelectorTerms"]):
        named = [item["values"] for term in required["nodeSelectorTerms"] for item in term["matchFields"]]
        if [node["metadata"]["name"]] not in named:
            return "affinity"
    unschedulable = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node["spec"].get("unschedulable") and not tolerates(pod, unschedulable):
        return "unschedulable"
    taints = [item for item in node["spec"].get("taints", []) if item["effect"] != "PreferNoSchedule"]
    if not all(tolerates(pod, taint) for taint in taints):
        return "taint"
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return "nodeSelector"
    if required and not selects(required, node):
        return "affinity"
    there = [item for item in pods if item["spec"].get("nodeName") == node["metadata"]["name"]]
    there = [item for item in there if item["status"]["phase"] not in ("Succeeded", "Failed")]
    for address, protocol, number in ports(pod):
        for other in there:
            for its_address, *rest in ports(other):
                if rest == [protocol, number] and (address == its_address or _ANY in (address, its_address)):
                    return "ports"
    return (
        find_shortage(pod, node, there) or find_volume(pod, node, claims, volumes) or find_feature(pod, node)
    )


def find_shortage(pod, node, there):
    """Return the first resource of which too little is left."""
    allocatable = {name: in_units(name, amount(text)) for name, text in node["status"]["allocatable"].items()}
    if len(there) + 1 > allocatable.get("pods", 0):
        return "pods"
    asked = requests(pod)
    others = sorted(asked.keys() - _ORDER)
    for name in [*_ORDER, *others]:
        used = sum(requests(item).get(name, 0) for item in there)
        if asked.get(name, 0) and asked[name] > allocatable.get(name, 0) - used:
            return name
    return None


def find_volume(pod, node, claims, volumes):
    """Return "volume" if a volume cannot be used on the node."""
    labels = node["metadata"]["labels"]
    for used in pod["spec"].get("volumes", []):
        name = used["persistentVolumeClaim"]["claimName"]
        (claim,) = [item for item in claims if item["metadata"]["name"] == name]
        (volume,) = [item for item in volumes if item["metadata"]["name"] == claim["spec"]["volumeName"]]
        required = volume["spec"].get("nodeAffinity", {}).get("required")
        if required and not selects(required, node):
            return "volume"
        zones = volume["metadata"].get("labels", {}).get("topology.kubernetes.io/zone")
        zone = labels.get("topology.kubernetes.io/zone")
        if zones and zone and zone not in zones.split("__"):
            return "volume"
    return None


def find_feature(pod, node):
    """Return "features" if the node does not declare all that the pod needs."""
    return None if features(pod) <= set(node["status"].get("declaredFeatures", [])) else "features"
