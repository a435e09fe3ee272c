"""Rules that own devices: which devices they select, and how they are named and made.

Source: docs/operator.md, "Devices that are ours".
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import product

from dra_operator.api import types
from dra_operator.api.read import read_object
from dra_operator.api.text import listed, shown
from dra_operator.api.validation.refusals import find_refusals
from dra_operator.kinds.selector import Selector, from_rule_selector
from dra_operator.questions.raw_devices import DeviceKey

MOST_RULES = 50
"""Rules that own devices, above which `own` warns: each allocation of anybody is judged by each of them."""


def selectors(driver: str, pools: Sequence[str], devices: Sequence[str]) -> list[Selector]:
    """Return what options select: each pool, each device, and with both each of these devices in each pool."""
    wanted = product(dict.fromkeys(pools) or (None,), dict.fromkeys(devices) or (None,))
    return [Selector(driver, pool, device) for pool, device in wanted]


def owning_selectors(rules: Mapping[str, types.DeviceTaintRule]) -> dict[str, Selector]:
    """Return what each of some rules that own devices selects."""
    return {
        name: from_rule_selector(rule.spec.device_selector)
        for name, rule in rules.items()
        if rule.spec.device_selector is not None
    }


def rule_problems(wanted: Iterable[Selector]) -> list[str]:
    """Return a line for each option that can be in no rule; the words are those that `simulate` has for rules."""
    problems = []
    for selector in wanted:
        body = selector.rule("resource.k8s.io/v1")
        for refusal in find_refusals(read_object(body), body):
            option = refusal.path.rpartition(".")[2]
            problems.append(f"--{option}: {shown(refusal.value)}: {refusal.message}")
    return list(dict.fromkeys(problems))


def find_unpublished(wanted: Iterable[Selector], devices: Iterable[DeviceKey]) -> list[str]:
    """Return a line for each selector that selects nothing that is published, with the nearest names there are."""
    known = list(devices)
    lines = [
        _unpublished(selector, known)
        for selector in wanted
        if not any(selector.matches(key) for key in known)
    ]
    return list(dict.fromkeys(lines))


def _unpublished(selector: Selector, devices: Sequence[DeviceKey]) -> str:
    driver, pool, device = selector.driver, selector.pool, selector.device
    here = [key for key in devices if key.driver == driver]
    if not here:
        return f'driver "{driver}" publishes no device{_near(driver, {key.driver for key in devices})}'
    if pool is not None:
        inside = [key for key in here if key.pool == pool]
        if not inside:
            return f'driver "{driver}" has no pool "{pool}"{_near(pool, {key.pool for key in here})}'
        here = inside
    where = f'pool "{pool}"' if pool is not None else "any pool"
    return f'driver "{driver}" has no device "{device}" in {where}{_near(device or "", {key.name for key in here})}'


def _near(name: str, names: Iterable[str]) -> str:
    known = sorted(names)
    if close := get_close_matches(name, known, n=1, cutoff=0.6):
        return f'; did you mean "{close[0]}"?'
    return f"; there is {listed(known)}" if known else ""
