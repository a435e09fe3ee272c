"""Usage: claims that are allocated already, as shares, exclusively, with admin access, or to devices that are gone."""

from conformance.generate.chance import Chance
from conformance.generate.devices import Wire
from conformance.generate.style import Style
from conformance.generate.words import DRIVERS, POOLS, amount, family_of
from factories import manifest


def make_allocated(chance: Chance, style: Style, slices: list[Wire]) -> list[Wire]:
    """Return claims that hold some of the devices of the slices, and perhaps some that no slice publishes."""
    devices = [(item["spec"], device) for item in slices for device in item["spec"].get("devices", ())]
    results = [
        _result(chance, style, spec, device) for spec, device in devices if chance.maybe(style.used / 2)
    ]
    for spec, device in devices:
        # More shares of the same device.
        if device.get("allowMultipleAllocations") and chance.maybe(style.used / 2):
            results.append(_result(chance, style, spec, device))
    if chance.maybe(style.used / 4):
        results.append(
            {
                "driver": chance.pick(*DRIVERS),
                "pool": chance.pick(*POOLS),
                "device": chance.pick("gone", "dev-3"),
            }
        )
    claims = []
    while results:
        taken = results[: chance.pick(1, 1, 2, 3)]
        results = results[len(taken) :]
        claims.append(_claim(f"old-{len(claims)}", taken))
    return claims


def _claim(name: str, results: list[Wire]) -> Wire:
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": len(results)},
    }
    return manifest(
        "ResourceClaim",
        name,
        {"devices": {"requests": [request]}},
        status={"allocation": {"devices": {"results": [{"request": "r", **result} for result in results]}}},
        namespace="default",
        uid=f"uid-{name}",
    )


def _result(chance: Chance, style: Style, spec: Wire, device: Wire) -> Wire:
    result: Wire = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
    if chance.maybe(style.admin / 3):
        result["adminAccess"] = chance.maybe(0.9)
    # The driver may have changed its mind since about whether the device can be shared.
    shared = bool(device.get("allowMultipleAllocations")) != chance.maybe(0.05)
    if not shared:
        return result
    result["shareID"] = f"{chance.getrandbits(32):08x}-0000-4000-8000-{chance.getrandbits(48):012x}"
    consumed = {
        name: amount(chance, style, family_of(name))
        for name in device.get("capacity", {})
        if chance.maybe(0.9)
    }
    if consumed and chance.maybe(0.85):
        result["consumedCapacity"] = consumed
    return result


def make_state(chance: Chance, style: Style, slices: list[Wire]) -> Wire:
    """Return usage without claims, such as a cluster autoscaler has; its three parts need not agree."""
    state: Wire = {}
    for item in slices:
        for device in item["spec"].get("devices", ()):
            if not chance.maybe(style.used / 3):
                continue
            entry = {
                "driver": item["spec"]["driver"],
                "pool": item["spec"]["pool"]["name"],
                "device": device["name"],
            }
            kind = chance.pick("devices", "sharedDevices", "consumedCapacity")
            if kind == "sharedDevices":
                entry["shareID"] = (
                    f"{chance.getrandbits(32):08x}-0000-4000-8000-{chance.getrandbits(48):012x}"
                )
            if kind == "consumedCapacity":
                entry["capacity"] = {
                    name: amount(chance, style, family_of(name)) for name in device.get("capacity", {})
                }
            state.setdefault(kind, []).append(entry)
    return state
