"""Claims at random, alone or several of a kind, for what slices of `content` have."""

from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

from stepfuzz.content import IDENTITIES, SELECTORS, TEAMS, Body, Style, read, sometimes

DERIVED = (
    'device.attributes["d"].?rail.orValue(2)',
    'device.attributes["d"].?rail.orValue(1) + 0',
    'device.attributes["other.io"].?root.orValue("a")',
    "device.driver",
    "1",
)
DERIVED_LISTS = (
    'device.attributes["d"].?links.orValue(["b", "c"])',
    '[device.attributes["d"].?rail.orValue(0), 2]',
    '["a", device.attributes["other.io"].?root.orValue("b")]',
)
DERIVED_ODDLY = (
    'device.attributes["d"].rail',
    'device.attributes["d"].?kind.orValue("x")',
    'lists.range(device.attributes["d"].?rail.orValue(0) + 1)',
    'device.attributes["d"].no',
)
"""Those that fail, or give lists, on some devices or on all."""
FAILING = 'device.attributes["d"].kind == "x"'
"""A selector that fails on devices which lack the attribute, or have it with another type."""
_NUMBER_OF_CONSTRAINTS = {
    (False, False): (0, 0, 1, 1, 2),
    (False, True): (1, 1, 2, 3),
    (True, False): (0, 0, 0, 1),
    (True, True): (0, 1, 1),
}
"""By whether a cluster is wide, and whether devices have lists."""


def some_tolerations(random: Random, style: Style) -> list[Body]:
    """Return what a request tolerates; where devices are kept for teams it is hardly ever what another one does."""
    if not style.parting:
        return [random.choice([{"operator": "Exists"}, {"key": "k2", "operator": "Equal", "value": "v"}])]
    tolerations: list[Body] = [{"key": "own", "operator": "Equal", "value": str(random.randrange(1000))}]
    for _ in range(random.choice([0, 1, 1, 2])):
        key, value = random.choice(["team", "team", "k", ""]), random.choice(TEAMS)
        exists = not key or sometimes(random, 0.2)
        item = {"key": key, **({"operator": "Exists"} if exists else {"operator": "Equal", "value": value})}
        tolerations.append({**item, "effect": random.choice(["", "", "NoSchedule", "NoExecute"])})
    return random.sample(tolerations, len(tolerations))


def a_request(random: Random, style: Style, name: str) -> Body:
    """Return a request of the API."""
    few = (style.parting or style.wide) and sometimes(random, 0.8)

    def alternative() -> Body:
        # Few selectors, where it is about what those with the same tolerate.
        expressions = random.sample(SELECTORS, random.choice([0, 0, 1, 1, 2])) if not few else []
        expressions += [FAILING] if style.odd and sometimes(random, 0.2) else []
        fields: Body = {
            "deviceClassName": "c" if sometimes(random, 0.9) else "e",
            "count": random.choice([1, 1, 1, 2, 2, 3]),
            "selectors": [{"cel": {"expression": item}} for item in expressions],
        }
        if not few and sometimes(random, 0.3):
            # No range can be computed with an amount as fine as the last one.
            amounts = {"memory": random.choice(["1", "2", "3", *style.odd * ["1500500u"]])}
            if sometimes(random, 0.15):
                # Some devices lack these, or all.
                amounts[random.choice(["band", "no", "d/memory"])] = random.choice(["1", "500m", "0"])
            fields["capacity"] = {"requests": amounts}
        if sometimes(random, 0.1):
            del fields["count"]
            fields["allocationMode"] = "All"
        if sometimes(random, 0.9 if style.parting else 0.4):
            fields["tolerations"] = some_tolerations(random, style)
        return fields

    if sometimes(random, 0.25):
        options = [{"name": f"s{number}", **alternative()} for number in range(random.randint(1, 3))]
        return {"name": name, "firstAvailable": options}
    fields = alternative()
    if sometimes(random, style.admin):
        fields["adminAccess"] = True
    return {"name": name, "exactly": fields}


def a_claim(random: Random, style: Style, name: str) -> Any:
    """Return a claim of the API."""
    return read("ResourceClaim", _claim(random, style, name))


def some_claims_of_a_kind(random: Random, style: Style, names: Sequence[str]) -> list[Any]:
    """Return claims that ask for the same but for tolerations, amounts or selectors, of which each brings its own."""
    pattern = _claim(random, style, "")
    own = random.sample(("tolerations", "amounts", "selectors"), random.choice([1, 1, 1, 2, 3]))
    # What a class reads as well matters where claims have a selector in common.
    common = random.sample(SELECTORS[1:3], 1) if sometimes(random, 0.3) else []
    claims: list[Any] = []
    for name in names:
        body = deepcopy(pattern)
        body["metadata"]["name"] = name
        for part in _parts(body):
            part["selectors"] += [{"cel": {"expression": expression}} for expression in common]
            if "tolerations" in own:
                part["tolerations"] = some_tolerations(random, style)
            if "amounts" in own:
                part["capacity"] = {"requests": _own_amounts(random, style)}
            if "selectors" in own:
                number = random.randrange(IDENTITIES)
                expression = f'device.attributes["d"].?uuid.orValue({number}) == {number}'
                part["selectors"].append({"cel": {"expression": expression}})
        claims.append(read("ResourceClaim", body))
    return claims


def _own_amounts(random: Random, style: Style) -> Body:
    # The search for a device may leave more out where amounts are whole thousandths.
    unit = "500u" if style.odd and sometimes(random, 0.1) else "m"
    names = random.choice([("memory",), ("memory",), ("band",), ("memory", "band")])
    return {name: f"{random.randint(1, 48) * 100 + random.randrange(3)}{unit}" for name in names}


def _parts(claim: Body) -> list[Body]:
    """Return what says what a request or a subrequest is for, of all of a claim's."""
    requests = claim["spec"]["devices"]["requests"]
    return [part for item in requests for part in item.get("firstAvailable", [item.get("exactly")])]


def _claim(random: Random, style: Style, name: str) -> Body:
    requests = [
        a_request(random, style, f"r{number}")
        for number in range(random.choice([1, 1, 1, 2] if style.wide else [1, 1, 1, 1, 2, 2, 3, 4]))
    ]
    if "exactly" in requests[0] and sometimes(random, style.admin / 3):
        # The same devices, for admin access and not.
        exactly = requests[0]["exactly"]
        requests.append(
            {"name": "twin", "exactly": {**exactly, "adminAccess": not exactly.get("adminAccess")}}
        )
    names = [item["name"] for item in requests]
    parts = [
        f"{item['name']}/{part['name']}" for item in requests for part in item.get("firstAvailable", ())
    ] or names
    constraints = [
        {
            random.choice(["matchAttribute", "distinctAttribute"]): random.choice(
                ["d/links"] * 3 + ["other.io/ports", "d/derived"]
                if style.listing
                else ["d/kind", "d/rail", "other.io/root", *(["d/derived"] if style.deriving else [])]
            ),
            "requests": random.choice([[], [], names[:2], names[-1:], random.sample(parts, 1)]),
        }
        for _ in range(random.choice(_NUMBER_OF_CONSTRAINTS[style.wide, style.listing]))
    ]
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    metadata = {"name": name, "namespace": random.choice(["ns", "ns", "other"])}
    body = {"metadata": metadata, "spec": spec}
    if style.deriving:
        for part in _parts(body):
            _derive(random, style, part)
    return body


def _derive(random: Random, style: Style, part: Body) -> None:
    """Let a request or a subrequest derive attributes, mostly."""
    choice = ("d/derived", "d/links" if style.listing else "d/rail", "d/kind")
    names = [name for name in choice if sometimes(random, 0.5)]
    expressions = DERIVED + (DERIVED_LISTS if style.listing else ()) + (DERIVED_ODDLY if style.odd else ())
    part["derivedAttributes"] = [{"name": name, "expression": random.choice(expressions)} for name in names]
