"""DeviceTaintRules and AllocationPolicies that make devices the operator's, and which they are, read anew."""

from collections.abc import Iterable

from live.objects import API, Body

from coexistence.reader import DeviceId

KEY = "dra-operator.io/owned"
RULES = f"{API}/devicetaintrules"
POLICIES = "/apis/dra-operator.io/v1alpha1/allocationpolicies"


def rule(name: str, **selector: str) -> Body:
    """Return the rule that makes the devices of a selector the operator's."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": KEY, "effect": "NoSchedule"}},
    }


def policy(name: str, **selector: str) -> Body:
    """Return the AllocationPolicy by which the operator makes such a rule."""
    return {
        "apiVersion": "dra-operator.io/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": name},
        "spec": {"devices": [selector]},
    }


def selected(rules: Iterable[Body], devices: Iterable[DeviceId]) -> set[DeviceId]:
    """Return the devices that rules make the operator's."""
    selectors = [body["spec"]["deviceSelector"] for body in rules if body["spec"]["taint"]["key"] == KEY]
    return {
        device
        for device in devices
        for selector in selectors
        if selector.get("driver", device.driver) == device.driver
        and selector.get("pool", device.pool) == device.pool
        and selector.get("device", device.name) == device.name
    }
