"""Rules: what a capacity makes of ordinary amounts, made ready once for all claims that bring one.

Nearly all amounts and policies are ordinary: nothing is negative or too large, and upstream computes in thousandths.
Then no amount is an error, and what is consumed takes a few operations on ints, while `capacity` first has to find out
how upstream would represent each number. If anything is not ordinary, there is no rule and `capacity` is asked.
Source: docs/dra-semantics 4.4; ResourceSlice v1, `devices[].capacity[].requestPolicy`.
"""

from collections.abc import Iterable, Mapping, Sequence

from dra_operator.allocator.matching.capacity import CapacityError, Consumed, consume, is_in_milli, unasked
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.quantity import Family, Quantity, family, is_ordinary
from dra_operator.api.types import CapacityRequestPolicy, DeviceCapacity


@fast_dataclass
class CapacityRule:
    """What a share consumes of one capacity, of which the device has `value`; all numbers are in nano-units.

    `unasked` is what a request consumes that names no amount, or None if the device is unfit for it. An amount becomes
    at least `least`, if there is one, and then a number of steps more, `written` in a family; or the first of `values`
    that is large enough, if there are any. It may be `most`.
    """

    name: str
    value: int
    unasked: Quantity | None
    least: Quantity | None
    step: int
    written: Family
    values: tuple[Quantity, ...]
    most: int


def rules_of(capacity: Mapping[str, DeviceCapacity], *, fractional: bool) -> tuple[CapacityRule, ...] | None:
    """Return the rules of a device's capacities, or None if one of them is out of the ordinary.

    `fractional` is the feature FractionalCapacityRange.
    """
    rules: tuple[CapacityRule, ...] = ()
    for name in sorted(capacity):
        rule = _rule(name, capacity[name], fractional=fractional)
        if rule is None:
            return None
        rules += (rule,)
    return rules


def consume_by(rules: Iterable[CapacityRule], requests: Mapping[str, Quantity]) -> Consumed | None:
    """Return what a request for ordinary amounts consumes of a device that nobody uses yet, or None if it is unfit."""
    amounts: tuple[tuple[str, int, int], ...] = ()
    written: tuple[Quantity | Family, ...] = ()
    missing = len(requests)
    for rule in rules:
        text: Quantity | Family
        request = requests.get(rule.name)
        if request is None:
            if rule.unasked is None:
                return None
            text = rule.unasked
            amount = text.nano
        else:
            missing -= 1
            text, amount = request, request.nano
            least = rule.least
            if least is not None:
                if amount < least.nano:
                    text, amount = least, least.nano
                elif rule.step:
                    text, amount = rule.written, amount + (least.nano - amount) % rule.step
            elif rule.values:
                for value in rule.values:
                    if value.nano >= amount:
                        text, amount = value, value.nano
                        break
                else:
                    return None
            if amount > rule.most:
                return None
        amounts += ((rule.name, amount, rule.value),)
        written += (text,)
    # Otherwise one is asked for that the device lacks.
    return None if missing else Consumed(amounts, written)


def _rule(name: str, capacity: DeviceCapacity, *, fractional: bool) -> CapacityRule | None:
    policy, value = capacity.request_policy, capacity.value.nano
    try:
        fits = consume({}, {name: capacity}, fractional=fractional) is not None
    except CapacityError:
        return None
    quantity = unasked(capacity) if fits else None
    if policy is None:
        return CapacityRule(name, value, quantity, None, 0, Family.DECIMAL, (), value)
    span = policy.valid_range
    if span is None:
        values: Sequence[Quantity] = policy.valid_values
        if values and _is_default_beyond(policy, max(values)):
            return None
        return CapacityRule(name, value, quantity, None, 0, Family.DECIMAL, policy.valid_values, value)
    least, most, step = span.min, span.max, span.step
    if least is None or least.nano < 0 or (most is not None and _is_default_beyond(policy, most)):
        return None
    if step is not None and not (is_ordinary(step) and is_in_milli(span, fractional=fractional)):
        return None
    return CapacityRule(
        name,
        value,
        quantity,
        least,
        0 if step is None else step.nano,
        Family.DECIMAL if step is None else family(step),
        (),
        value if most is None else min(value, most.nano),
    )


def _is_default_beyond(policy: CapacityRequestPolicy, most: Quantity) -> bool:
    """True if a policy permits an amount that is too large by its other words, as it is the default."""
    return policy.default is not None and policy.default > most
