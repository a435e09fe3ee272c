"""Who holds what, and how much is used and free, read from objects as on the wire by plain loops, without the package.

It knows no more of CEL than the classes of `clean_worlds`, and of quantities those that are written there.
"""

from collections import Counter
from typing import Any

import clean_worlds as worlds

Body = dict[str, Any]
DeviceKey = tuple[str, str, str]
_CLASSES = {
    "gpu": lambda key, _: key[0] == worlds.GPU,
    "nic": lambda key, _: key[0] == worlds.NIC,
    "large": lambda key, device: (
        key[0] == worlds.GPU and _amount(device["capacity"]["memory"]["value"]) >= 20 << 30
    ),
}


def _amount(text: str) -> int:
    return int(text[:-2]) << 30 if text.endswith("Gi") else int(text)


class Reader:
    """The objects of a world, by kind."""

    def __init__(self, bodies: list[Body]) -> None:
        self.claims = [body for body in bodies if body["kind"] == "ResourceClaim"]
        self.slices = [body for body in bodies if body["kind"] == "ResourceSlice"]
        self.rules = [body for body in bodies if body["kind"] == "DeviceTaintRule"]
        self.nodes = {body["metadata"]["name"]: body for body in bodies if body["kind"] == "Node"}
        self.pods = {
            (body["metadata"]["namespace"], body["metadata"]["uid"]): body
            for body in bodies
            if body["kind"] == "Pod"
        }
        self.devices = dict(self._devices())
        self.uses: dict[DeviceKey, list[tuple[Body, Body]]] = {}
        for claim in self.claims:
            for item in results(claim):
                if not item.get("adminAccess"):
                    self.uses.setdefault(key_of(item), []).append((claim, item))

    def _devices(self) -> Any:
        """Yield the devices of newest generations, each with its slice."""
        newest: dict[tuple[str, str], int] = {}
        for body in self.slices:
            place = body["spec"]["driver"], body["spec"]["pool"]["name"]
            newest[place] = max(newest.get(place, 0), body["spec"]["pool"]["generation"])
        for body in self.slices:
            spec = body["spec"]
            if spec["pool"]["generation"] == newest[spec["driver"], spec["pool"]["name"]]:
                for device in spec.get("devices", ()):
                    yield (spec["driver"], spec["pool"]["name"], device["name"]), (body, device)

    def node(self, key: DeviceKey, claim: Body | None = None) -> str:
        """Return the node that a device is on, or that the allocation of its claim is pinned to."""
        if key in self.devices and (name := self.devices[key][0]["spec"].get("nodeName")):
            return str(name)
        terms = claim["status"]["allocation"].get("nodeSelector") if claim is not None else None
        return terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0] if terms else ""

    def holders(
        self, *, node: str = "", pool: str = "", device_class: str = ""
    ) -> dict[tuple[str, str], Any]:
        """Return the claims that hold something of a subject: which devices, and whether the claim is idle."""
        found: dict[tuple[str, str], Any] = {}
        for key, uses in self.uses.items():
            for claim, item in uses:
                if node and self.node(key, claim) != node:
                    continue
                if pool and key[1] != pool:
                    continue
                if device_class and not self.is_in_class(device_class, key, claim, item):
                    continue
                name = claim["metadata"]["namespace"], claim["metadata"]["name"]
                devices, _ = found.get(name, ((), None))
                found[name] = (*devices, "/".join(key)), self.is_idle(claim)
        return {name: (sorted(devices), idle) for name, (devices, idle) in found.items()}

    def is_in_class(self, name: str, key: DeviceKey, claim: Body, item: Body) -> bool:
        """Return whether a device is in a class; of one that is not published the request says it."""
        if key in self.devices:
            return bool(_CLASSES[name](key, self.devices[key][1]))
        requests = {each["name"]: each["exactly"] for each in claim["spec"]["devices"]["requests"]}
        return bool(requests[item["request"]]["deviceClassName"] == name)

    def is_idle(self, claim: Body) -> bool:
        """Return whether no pod runs that a claim is reserved for."""
        for entry in claim["status"].get("reservedFor", ()):
            pod = self.pods.get((claim["metadata"]["namespace"], entry["uid"]))
            if (
                pod is not None
                and pod["metadata"]["name"] == entry["name"]
                and pod["status"]["phase"] == "Running"
            ):
                return False
        return True

    def state(self, key: DeviceKey) -> str:
        """Return the state in which a published device counts."""
        body, device = self.devices[key]
        uses = [item for _, item in self.uses.get(key, ())]
        if uses:
            return self._state_in_use(device, uses)
        node = self.nodes.get(body["spec"].get("nodeName", ""))
        if not self._is_complete(body) or self._lacks_counters(key, device):
            return "blocked"
        if body["spec"].get("nodeName") and (node is None or node.get("spec", {}).get("unschedulable")):
            return "blocked"
        effects = {(taint["key"], taint["effect"]) for taint in self.taints(key)}
        return (
            "tainted"
            if any(name != worlds.OWNED and effect != "None" for name, effect in effects)
            else "free"
        )

    def _state_in_use(self, device: Body, uses: list[Body]) -> str:
        if not all(item.get("shareID") for item in uses) or not device.get("allowMultipleAllocations"):
            return "used"
        used = Counter[str]()
        for item in uses:
            for name, amount in item["consumedCapacity"].items():
                used[name] += _amount(amount)
        full = any(used[name] >= _amount(each["value"]) for name, each in device["capacity"].items())
        return "used" if full else "shared"

    def left(self, key: DeviceKey) -> int:
        """Return how much memory a device has left."""
        memory = _amount(self.devices[key][1]["capacity"]["memory"]["value"])
        shares = [item for _, item in self.uses.get(key, ()) if item.get("shareID")]
        return memory - sum(_amount(item["consumedCapacity"]["memory"]) for item in shares)

    def taints(self, key: DeviceKey) -> list[Body]:
        """Return the taints of a device, those of rules included."""
        found = list(self.devices[key][1].get("taints", ()))
        for rule in self.rules:
            chosen = rule["spec"].get("deviceSelector")
            wanted = zip(("driver", "pool", "device"), key, strict=True)
            if chosen is not None and all(chosen.get(field) in (None, value) for field, value in wanted):
                found.append(rule["spec"]["taint"])
        return found

    def is_owned(self, key: DeviceKey) -> bool:
        """Return whether the operator owns a device."""
        return any(
            (taint["key"], taint["effect"]) == (worlds.OWNED, "NoSchedule") for taint in self.taints(key)
        )

    def _is_complete(self, body: Body) -> bool:
        place = body["spec"]["pool"]
        alike = [
            each
            for each in self.slices
            if each["spec"]["driver"] == body["spec"]["driver"]
            and each["spec"]["pool"]["name"] == place["name"]
            and each["spec"]["pool"]["generation"] == place["generation"]
        ]
        names = [device["name"] for each in alike for device in each["spec"].get("devices", ())]
        return len(alike) == place["resourceSliceCount"] and len(names) == len(set(names))

    def _lacks_counters(self, key: DeviceKey, device: Body) -> bool:
        """Return whether too little is left of a counter that a device draws on, or less than nothing of any."""
        if not device.get("consumesCounters"):
            return False
        left = Counter[str]()
        for body in self.slices:
            if (body["spec"]["driver"], body["spec"]["pool"]["name"]) == key[:2]:
                for each in body["spec"].get("sharedCounters", ()):
                    left[each["name"]] += _amount(each["counters"]["slots"]["value"])
        for other, (_, each) in self.devices.items():
            if other[:2] == key[:2] and other in self.uses:
                for use in each.get("consumesCounters", ()):
                    left[use["counterSet"]] -= _amount(use["counters"]["slots"]["value"])
        drawn = {
            use["counterSet"]: _amount(use["counters"]["slots"]["value"])
            for use in device["consumesCounters"]
        }
        return min(left.values()) < 0 or any(left[name] < amount for name, amount in drawn.items())

    def rows(self, grouping: str) -> dict[str, dict[str, Any]]:
        """Return the counts of each row that has devices, and of each class."""
        groups: dict[str, list[DeviceKey]] = {name: [] for name in _CLASSES if grouping == "class"}
        for key in self.devices:
            if grouping == "node":
                names = [self.node(key)]
            elif grouping == "pool":
                names = ["/".join(key[:2])]
            else:
                names = [name for name, test in _CLASSES.items() if test(key, self.devices[key][1])]
            for name in names:
                groups.setdefault(name, []).append(key)
        return {name: self._row(keys) for name, keys in groups.items()}

    def _row(self, keys: list[DeviceKey]) -> dict[str, Any]:
        states = Counter(self.state(key) for key in keys)
        holders = {key: [claim for claim, _ in self.uses.get(key, ())] for key in keys}
        roomy = [key for key in keys if self.state(key) in ("free", "shared")]
        with_memory = [key for key in roomy if "memory" in self.devices[key][1].get("capacity", {})]
        names = {
            (claim["metadata"]["namespace"], claim["metadata"]["name"])
            for each in holders.values()
            for claim in each
        }
        return {
            "total": len(keys),
            **{name: states[name] for name in ("used", "shared", "free", "tainted", "blocked")},
            "idle": sum(bool(each) and all(map(self.is_idle, each)) for each in holders.values()),
            "claims": len(names),
            "owned": sum(map(self.is_owned, keys)),
            "largest": max(map(self.left, with_memory), default=None),
        }


def results(claim: Body) -> list[Body]:
    """Return the results of the allocation of a claim."""
    return (claim.get("status", {}).get("allocation") or {}).get("devices", {}).get("results", [])


def key_of(item: Body) -> DeviceKey:
    """Return the device of a result."""
    return item["driver"], item["pool"], item["device"]
