"""Derived attributes of claims, and selectors, as a hand gets them wrong.

For the tests of what `simulate` says of them, and for the one that asks the real API server.
"""

from typing import Any

from too_long import claim, request

NUMA = "team.io/numa"
EXPRESSION = 'device.attributes["a.io"].socket'
COSTLY = '["a"].join()'
DEAR = "device.attributes.all(d, device.attributes[d].all(e, device.attributes.all(f, d + e > f)))"
"""It is admitted once."""
AT = "spec.devices.requests[0].exactly.derivedAttributes"


def derived(name: str = NUMA, expression: str = EXPRESSION) -> dict[str, Any]:
    """A derived attribute."""
    return {"name": name, "expression": expression}


def deriving(*attributes: dict[str, Any], asked: str = NUMA, of: tuple[str, ...] = ()) -> dict[str, Any]:
    """A claim whose first request derives attributes, and with a constraint on some requests."""
    constraint = {"matchAttribute": asked, **({"requests": list(of)} if of else {})}
    requests = [request(derivedAttributes=list(attributes)), request("other")]
    return claim(requests=requests, constraints=[constraint])


def choosing(*of: str) -> dict[str, Any]:
    """A claim whose first alternative derives an attribute, and with a constraint on some requests."""
    alternatives = [
        {"name": "first", "deviceClassName": "c", "derivedAttributes": [derived()]},
        {"name": "second", "deviceClassName": "c"},
    ]
    constraint = {"matchAttribute": NUMA, "requests": list(of)}
    return claim(requests=[{"name": "r", "firstAvailable": alternatives}], constraints=[constraint])


def many(expression: str, count: int) -> dict[str, Any]:
    """A claim that derives some attributes in the same way."""
    names = [f"team.io/a{number}" for number in range(count)]
    return claim(
        requests=[request(derivedAttributes=[derived(name, expression) for name in names])],
        constraints=[{"matchAttribute": name} for name in names],
    )


def selecting(expression: str) -> dict[str, Any]:
    """A class with a selector."""
    return {"kind": "DeviceClass", "spec": {"selectors": [{"cel": {"expression": expression}}]}}


NAMES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a derived attribute without a domain": (
        deriving(derived("numa")),
        f"{AT}[0].name",
        '"numa" is no name of an attribute: ',
    ),
    "a derived attribute without a name": (
        deriving(derived("")),
        f"{AT}[0].name",
        '"" is no name of an attribute: ',
    ),
    "a derived attribute that no constraint asks for": (
        deriving(derived(), asked="team.io/socket"),
        f"{AT}[0].name",
        f'"{NUMA}" is asked for by no constraint of this request: ',
    ),
    "a derived attribute that a constraint of another request asks for": (
        deriving(derived(), of=("other",)),
        f"{AT}[0].name",
        f'"{NUMA}" is asked for by no constraint of this request: ',
    ),
    "a derived attribute that a constraint of another alternative asks for": (
        choosing("r/second"),
        "spec.devices.requests[0].firstAvailable[0].derivedAttributes[0].name",
        f'"{NUMA}" is asked for by no constraint of this request: ',
    ),
    "an attribute that is derived twice": (
        deriving(derived(), derived(expression="1")),
        f"{AT}[1].name",
        f'"{NUMA}" is derived twice: ',
    ),
    "a derived attribute without an expression": (
        deriving(derived(expression="")),
        f"{AT}[0].expression",
        "is missing: ",
    ),
}
"""A claim, the field that is wrong, and how the message about it begins."""
EXPRESSIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a derived attribute that does not compile": (
        deriving(derived(expression="device.name")),
        f"{AT}[0].expression",
        'does not compile at column 7: device has no field "name"',
    ),
    "a derived attribute of a type that none has": (
        deriving(derived(expression="1.5")),
        f"{AT}[0].expression",
        "does not compile: must evaluate to a primitive scalar",
    ),
    "a derived attribute that can cost too much": (
        deriving(derived(expression=COSTLY)),
        f"{AT}[0].expression",
        "can cost more than the 1,000,000 that are admitted: ",
    ),
    "derived attributes that together can cost too much": (
        many(DEAR, 2),
        "spec.devices",
        "derived attributes can cost more than 1,000,000 together: ",
    ),
    "a selector that can cost too much": (
        selecting(f"{COSTLY} == 'a'"),
        "spec.selectors[0].cel.expression",
        "can cost more than the 1,000,000 that are admitted: ",
    ),
}
"""The same, of which only the expression is wrong."""
RIGHT: dict[str, dict[str, Any]] = {
    "a derived attribute for a constraint of its request": deriving(derived(), of=("r",)),
    "one for a constraint of every request": deriving(derived()),
    "one for a constraint of its alternative": choosing("r/first"),
    "one for a constraint of its prioritized list": choosing("r"),
    "a derived list": deriving(derived(expression="[1, 2]")),
    "a derived version": deriving(derived(expression='semver("1.0.0")')),
    "a derived attribute that costs much": many(DEAR, 1),
}
"""Claims that are right, each close to one that is not."""
