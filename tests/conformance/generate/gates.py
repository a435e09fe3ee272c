"""Gates: what an API server keeps of a scenario with Kubernetes' default feature gates."""

from collections.abc import Iterator
from copy import deepcopy

from conformance.generate.devices import Wire

OFF_BY_DEFAULT = ("CompatibilityGroups", "DerivedAttributes", "ListTypeAttributes", "OptionalNodeOperations")
"""Features off by default in Kubernetes 1.37 and 1.38; without them kube-scheduler takes another allocator."""


def with_default_gates(scenario: Wire) -> Wire:
    """Return a scenario with these features off, and without the fields that are dropped then."""
    scenario = deepcopy(scenario)
    for item in scenario["resourceSlices"]:
        item["spec"].pop("skipNodeOperations", None)
        for device in item["spec"].get("devices", ()):
            for use in device.get("consumesCounters", ()):
                use.pop("compatibilityGroups", None)
            device["attributes"] = {
                name: value
                for name, value in device["attributes"].items()
                if not any(isinstance(each, list) for each in value.values())
            }
    for part in _parts(scenario):
        part.pop("derivedAttributes", None)
    return {**scenario, "features": dict.fromkeys(OFF_BY_DEFAULT, False)}


def _parts(scenario: Wire) -> Iterator[Wire]:
    """Yield what requests ask for, exactly or as an alternative."""
    for claim in scenario["claims"]:
        for request in claim["spec"]["devices"]["requests"]:
            yield from (request[name] for name in ("exactly",) if name in request)
            yield from request.get("firstAvailable", ())
