"""Requests: classes, claims, what they ask for and how the devices have to fit together."""

from typing import Any

from conformance.generate.chance import Chance
from conformance.generate.devices import Wire
from conformance.generate.style import Style
from conformance.generate.words import (
    CAPACITIES,
    DRIVERS,
    EFFECTS,
    GPU,
    NIC,
    ROOT,
    TAINT_KEYS,
    TAINT_VALUES,
    amount,
    family_of,
)
from factories import manifest

_SELECTORS = (
    f'device.driver == "{GPU}"',
    f'device.attributes["{GPU}"].?model.orValue("") == "h100"',
    f'has(device.attributes["{GPU}"].numa) && device.attributes["{GPU}"].numa == 1',
    f'"model" in device.attributes["{NIC}"]',
    f'device.attributes["{GPU}"].?index.orValue(0) in [0, 1, 2]',
    f'device.capacity["{GPU}"].?memory.orValue(quantity("1Gi")).compareTo(quantity("2Gi")) >= 0',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("pci0").includes("pci0")',
    "true",
    f'device.attributes["{GPU}"].exists(k, k == "healthy")',
    f'!has(device.attributes["{GPU}"].driverVersion) || dyn(device.attributes["{GPU}"].driverVersion) != dyn(1)',
    'device.driver.endsWith("example.com")',
    f'device.attributes["{GPU}"].?numa.orValue(0) == 0',
    f'"roots" in device.attributes["{GPU}"] && "pci1" in device.attributes["{GPU}"].roots',
    f'!has(device.attributes["{GPU}"].roots) || device.attributes["{GPU}"].roots.includes("pci0")',
    'device.attributes["vendor.example.com"].?tier.orValue("none") == "gold"',
)
# Errors on devices that lack the attribute, or have it with another type.
_RISKY = (
    f'device.attributes["{GPU}"].model == "h100"',
    f'device.attributes["{GPU}"].index % 2 == 1',
    f'device.attributes["{GPU}"].driverVersion.isGreaterThan(semver("1.5.0"))',
    f'device.capacity["{NIC}"].memory.isGreaterThan(quantity("1Gi"))',
    f'device.attributes["{GPU}"].healthy',
    f'device.attributes["{GPU}"].index',
    f'device.attributes["{GPU}"].index % 2 == 0 ? true : device.attributes["{GPU}"].model in ["a100", "h100"]',
    f'cel.bind(m, device.attributes["{GPU}"].model, m == "a100" || m == "h100")',
    f'device.attributes["{GPU}"].model.matches("^[ah]100$")',
    f'["a100", "l4"].exists(m, m == device.attributes["{GPU}"].model)',
    f'!device.attributes["{GPU}"].model.startsWith("l")',
    f'device.attributes["{GPU}"].model.lowerAscii() == "h100" ? true : device.attributes["{GPU}"].index >= 2',
    f'isQuantity("1Gi") && device.capacity["{GPU}"].memory.isGreaterThan(quantity("1Gi"))',
    f'device.capacity["{NIC}"].memory.compareTo(quantity("2Gi")) >= 0',
)
_BROKEN = ("device.name == 'x'", "1 +", '"text"', "device.attributes.", "undeclared")
_DERIVED = (
    f'device.attributes["{GPU}"].?numa.orValue(7)',
    f'device.attributes["{GPU}"].numa',
    '"same"',
    "1",
    "true",
    "device.driver",
    'semver("1.2.3+a")',
    f'device.attributes["{GPU}"].?driverVersion.orValue(semver("1.2.3"))',
    '["pci0", "pci1"]',
    "[1, 2]",
    '[semver("1.0.0"), semver("1.2.3+a")]',
    f'device.attributes["{GPU}"].?roots.orValue(["pci0"])',
    'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("pci1")',
    f'device.attributes["{GPU}"].?index.orValue(0) / 2',
    f'device.attributes["{GPU}"].index / 2',
    f'[device.attributes["{GPU}"].model, "l4"]',
    f'device.attributes["{GPU}"].?roots.orValue("pci0")',
    f'device.attributes["{GPU}"].driverVersion',
    'quantity("2Gi")',
    "dyn([])",
    'dyn([1, "a"])',
    "dyn(1.5)",
    "dyn(null)",
    "1.5",
    "{1: 2}",
    "[[1]]",
    "[true, false]",
    "device.allowMultipleAllocations",
)
_ATTRIBUTES = (
    f"{GPU}/numa",
    f"{GPU}/model",
    f"{NIC}/model",
    ROOT,
    f"{GPU}/roots",
    f"{GPU}/index",
    f"{GPU}/healthy",
)
_RARE_ATTRIBUTES = (
    f"{GPU}/driverVersion",
    "vendor.example.com/tier",
    f"{NIC}/roots",
    "example.com/derived",
    "example.com/other",
    f"{GPU}/missing",
)
_COUNTS = (1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6)
_STRANGE_COUNTS = (32, 33, 33, 31, 9223372036854775807, 4294967297)
_STRANGE = 0.01


def make_classes(chance: Chance, style: Style) -> list[Wire]:
    """Return the device classes: one for every device, one a driver, and special ones."""
    return [
        _class("any"),
        *(_class(driver, f'device.driver == "{driver}"') for driver in DRIVERS),
        _class("special", *_of_driver(chance, style), config=chance.maybe(0.5)),
        _class("configured", config=True),
    ]


def _of_driver(chance: Chance, style: Style) -> list[str]:
    """Return what asks for a driver and for more, in one expression or in two."""
    driver, rest = f'device.driver == "{chance.pick(GPU, GPU, NIC)}"', _selector(chance, style)
    return chance.pick(
        [driver, rest], [f"{driver} && ({rest})"], [f"({rest}) && {driver}"], [f"{driver} || ({rest})"]
    )


def _class(name: str, *expressions: str, config: bool = False) -> Wire:
    spec: Wire = {}
    if expressions:
        spec["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if config:
        spec["config"] = [{"opaque": {"driver": GPU, "parameters": {"from": name}}}]
    return manifest("DeviceClass", name, spec)


def _selector(chance: Chance, style: Style) -> str:
    if chance.maybe(style.broken):
        return chance.pick(*_BROKEN)
    if chance.maybe(style.selectors / 4):
        return chance.pick(*_RISKY)
    return chance.pick(*_SELECTORS)


def make_claim(chance: Chance, style: Style, number: int) -> Wire:
    """Return a claim to be allocated."""
    name = f"claim-{number}"
    derived = chance.some((*_ATTRIBUTES, "example.com/derived", "example.com/other"), 1, 2)
    requests = [
        _request(chance, style, f"r{place}", derived) for place in range(chance.pick(1, 1, 1, 1, 2, 2, 3))
    ]
    if chance.maybe(style.broken / 3):
        requests = []
    references = [item["name"] for item in requests]
    references += [
        f"{item['name']}/{sub['name']}" for item in requests for sub in item.get("firstAvailable", ())
    ]
    devices: Wire = {"requests": requests}
    if constraints := _constraints(chance, style, references, derived):
        devices["constraints"] = constraints
    if chance.maybe(style.config):
        devices["config"] = [_config(chance, references, place) for place in range(chance.pick(1, 2))]
    return manifest("ResourceClaim", name, {"devices": devices}, namespace="default", uid=f"uid-{name}")


def _request(chance: Chance, style: Style, name: str, derived: list[str]) -> Wire:
    if chance.maybe(style.prioritized):
        alternatives = range(chance.pick(1, 2, 2, 3))
        return {
            "name": name,
            "firstAvailable": [
                {"name": f"s{place}", **_asked(chance, style, derived)} for place in alternatives
            ],
        }
    exactly = _asked(chance, style, derived)
    if chance.maybe(style.admin):
        exactly["adminAccess"] = chance.maybe(0.85)
    return {"name": name, "exactly": exactly}


def _asked(chance: Chance, style: Style, derived: list[str]) -> Wire:
    """Return what an exact request and an alternative have in common."""
    asked: Wire = {
        "deviceClassName": chance.pick(
            *("any",) * 8, GPU, GPU, NIC, "special", "special", "configured", "configured"
        )
    }
    if chance.maybe(style.broken):
        asked["deviceClassName"] = chance.pick("missing", "")
    if chance.maybe(style.all_mode):
        asked["allocationMode"] = "All"
    else:
        asked["allocationMode"] = "ExactCount"
        asked["count"] = chance.pick(*_COUNTS)
        if chance.maybe(max(style.broken, _STRANGE)):
            asked["count"] = chance.pick(*_STRANGE_COUNTS)
    if chance.maybe(style.broken / 3):
        asked["allocationMode"] = "Most"
    if chance.maybe(0.1):
        # The API server's defaults stand in.
        asked.pop("count", None)
        if asked["allocationMode"] == "ExactCount":
            del asked["allocationMode"]
    if chance.maybe(style.selectors):
        asked["selectors"] = [
            {"cel": {"expression": _selector(chance, style)}} for _ in range(chance.pick(1, 1, 2))
        ]
    if chance.maybe(style.taints + style.rules):
        asked["tolerations"] = [_toleration(chance, style) for _ in range(chance.pick(1, 1, 2))]
    if chance.maybe(style.capacity_requests):
        names = chance.some(CAPACITIES[:2] if chance.maybe(0.7) else CAPACITIES, 1, 2)
        asked["capacity"] = {"requests": {name: amount(chance, style, family_of(name)) for name in names}}
        if chance.maybe(0.04):
            asked["capacity"] = {}
    if chance.maybe(style.derived):
        asked["derivedAttributes"] = [
            {"name": chance.pick(*derived), "expression": chance.pick(*_DERIVED, *_BROKEN[:1])}
            for _ in range(chance.pick(1, 1, 2))
        ]
    return asked


def _toleration(chance: Chance, style: Style) -> Wire:
    toleration: Wire = {}
    if chance.maybe(0.8):
        toleration["key"] = chance.pick(*TAINT_KEYS)
    if chance.maybe(0.8):
        toleration["operator"] = chance.pick("Equal", "Exists", "Exists")
    if toleration.get("operator") != "Exists" and (value := chance.pick(*TAINT_VALUES)):
        toleration["value"] = value
    if chance.maybe(0.4):
        toleration["effect"] = chance.pick(*EFFECTS)
    if chance.maybe(0.1):
        toleration["tolerationSeconds"] = 30
    if chance.maybe(style.broken):
        toleration["operator"] = "Near"
    return toleration


def _constraints(chance: Chance, style: Style, references: list[str], derived: list[str]) -> list[Wire]:
    made: list[Wire] = []
    for _ in range(chance.pick(1, 1, 2) if chance.maybe(0.7 * style.constraints + style.derived / 2) else 0):
        attribute = chance.pick(*_ATTRIBUTES) if chance.maybe(0.7) else chance.pick(*_RARE_ATTRIBUTES)
        if style.derived and chance.maybe(0.4):
            attribute = chance.pick(*derived)
        constraint: Wire = {chance.pick("matchAttribute", "matchAttribute", "distinctAttribute"): attribute}
        if chance.maybe(style.broken):
            constraint = chance.pick({}, {"matchAttribute": attribute, "distinctAttribute": attribute})
        if references and chance.maybe(0.5):
            constraint["requests"] = chance.some(references, 1, 3)
        made.append(constraint)
    return made


def _config(chance: Chance, references: list[str], number: int) -> Wire:
    config: dict[str, Any] = {"opaque": {"driver": chance.pick(GPU, NIC), "parameters": {"number": number}}}
    if references and chance.maybe(0.7):
        config["requests"] = chance.some(references, 1, 3)
    return config
