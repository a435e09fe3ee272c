"""Spellings: what a scenario says, in words that mean something else to one version of Kubernetes than to another.

Names with the driver's domain and without, or both; versions with build metadata; values of unknown types; amounts
below zero. They are for versions from 1.38 on: before, the order of Go's maps decides what an expression sees.
"""

from collections.abc import Iterator
from copy import deepcopy

from conformance.generate.chance import Chance
from conformance.generate.devices import VALUES, Wire
from conformance.generate.words import DRIVERS, GPU

_ODD: tuple[Wire, ...] = ({}, {"version": "1.x"}, {"versions": ["1.2.3", "1.x"]}, {"futureType": "x"})
_SAME_VERSIONS = ("1.2.3", "1.2.3+a", "1.2.3+b", "2.0.0-rc.1+c", "2.0.0-rc.1")


def respelled(scenario: Wire) -> Wire:
    """Return a scenario with some of it written otherwise; its name decides what."""
    chance = Chance(f"spellings {scenario['name']}")
    if chance.maybe(0.4):
        return scenario
    scenario = deepcopy(scenario)
    often, odd = chance.pick(0.05, 0.2, 0.5), chance.pick(0, 0, 0.02, 0.1)
    for item in scenario["resourceSlices"]:
        driver = item["spec"]["driver"]
        for device in item["spec"].get("devices", ()):
            for field in device.keys() & {"attributes", "capacity"}:
                device[field] = _names(chance, often, driver, device[field])
            _values(chance, often, odd, device["attributes"])
    for driver, owner, field in _amounts_in_use(scenario):
        owner[field] = _names(chance, often, driver, owner[field])
    for claim in scenario["claims"]:
        _claim(chance, often, claim["spec"]["devices"])
    return scenario


def _names(chance: Chance, often: float, driver: str, table: Wire) -> Wire:
    """Return a table with some names of the driver's domain in their other spelling, or in both."""
    written: Wire = {}
    for name, item in table.items():
        other = name.removeprefix(f"{driver}/") if "/" in name else f"{driver}/{name}"
        kept = [name] if other == name or not chance.maybe(often) else chance.pick([other], [name, other])
        for each in kept:
            written[each] = item if each == name else chance.pick(item, item, *table.values())
    return dict(chance.sample(list(written.items()), len(written)))


def _values(chance: Chance, often: float, odd: float, attributes: Wire) -> None:
    for name, value in attributes.items():
        if chance.maybe(odd):
            attributes[name] = chance.pick(*_ODD)
        elif "version" in value and chance.maybe(often):
            attributes[name] = {"version": chance.pick(*_SAME_VERSIONS)}
        elif "versions" in value and chance.maybe(often):
            attributes[name] = {"versions": chance.some(_SAME_VERSIONS, 1, 3)}


def _amounts_in_use(scenario: Wire) -> Iterator[tuple[str, Wire, str]]:
    """Yield the driver of each share, and where its amounts stand."""
    for claim in scenario["allocated"]:
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if "consumedCapacity" in result:
                yield result["driver"], result, "consumedCapacity"
    for entry in scenario.get("allocatedState", {}).get("consumedCapacity", ()):
        yield entry["driver"], entry, "capacity"


def _claim(chance: Chance, often: float, devices: Wire) -> None:
    asked = [item["exactly"] for item in devices["requests"] if "exactly" in item]
    asked += [part for item in devices["requests"] for part in item.get("firstAvailable", ())]
    for part in asked:
        if requests := part.get("capacity", {}).get("requests"):
            requests = _names(chance, often, chance.pick(*DRIVERS), requests)
            if chance.maybe(often / 5):
                requests[chance.pick(*requests)] = chance.pick("-1", "-1Gi", "-500m")
            part["capacity"]["requests"] = requests
    for constraint in devices.get("constraints", ()):
        for kind in constraint.keys() - {"requests"}:
            if chance.maybe(often):
                name = chance.pick("driverVersion", "driverVersion", *VALUES)
                constraint[kind] = name if "/" in name else f"{GPU}/{name}"
