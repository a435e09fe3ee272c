"""What a claim asks for: all that a plan is made of, as a key.

Most claims of a cluster are made from a few templates. Their plans differ only in the claim, and making a plan takes
several times as long as looking one up. A plan depends on nothing but this key and the classes, so claims with equal
keys share a plan until a class changes.
"""

from typing import TypeAlias

from dra_operator.allocator.constraints import DISTINCT, MATCH, ConstraintPlan
from dra_operator.api.types import (
    DeviceClaim,
    DeviceConstraint,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
)
from dra_operator.api.wire import Flag

Expressions: TypeAlias = tuple[str | None, ...]
"""The expressions of selectors in order; None for a selector of an unknown kind."""
AskedAmount: TypeAlias = tuple[str, int, str]
"""An amount of a capacity: its name, nano-units, and how it was written."""
Wanted: TypeAlias = tuple[
    str,
    Expressions,
    str,
    int,
    tuple[DeviceToleration, ...],
    tuple[AskedAmount, ...] | None,
    tuple[tuple[str, str], ...],
    Flag | None,
]
"""What a request or subrequest wants.

Class, selectors, allocation mode, count, tolerations, amounts, derived attributes by name, admin access.
"""
Rule: TypeAlias = tuple[tuple[str, ...], ConstraintPlan | None]
"""A constraint: the requests that it names, and what it asks for; None if its kind is not known."""
_Request: TypeAlias = tuple[str, Wanted | None, tuple[tuple[str, Wanted], ...]]
Asked: TypeAlias = tuple[tuple[_Request, ...], tuple[Rule, ...]]
"""By request its name, what it wants exactly, and its subrequests by name; then the constraints."""


def asked_by(devices: DeviceClaim) -> Asked:
    """Return what a claim asks for: all of it but configuration."""
    # Most claims have one or two of each: adding to a tuple is faster than converting a list.
    requests: tuple[_Request, ...] = ()
    for request in devices.requests:
        exactly = request.exactly
        if exactly is not None:
            requests += ((request.name, _wanted(exactly, exactly.admin_access), ()),)
            continue
        others: tuple[tuple[str, Wanted], ...] = ()
        for item in request.first_available:
            others += ((item.name, _wanted(item, None)),)
        requests += ((request.name, None, others),)
    rules: tuple[Rule, ...] = ()
    for rule in devices.constraints:
        rules += ((rule.requests, _constraint(rule)),)
    return requests, rules


def _constraint(rule: DeviceConstraint) -> ConstraintPlan | None:
    if rule.match_attribute is not None:
        return ConstraintPlan(MATCH, rule.match_attribute)
    if rule.distinct_attribute is not None:
        return ConstraintPlan(DISTINCT, rule.distinct_attribute)
    return None


def _wanted(part: ExactDeviceRequest | DeviceSubRequest, admin_access: Flag | None) -> Wanted:
    expressions: Expressions = ()
    for selector in part.selectors:
        cel = selector.cel
        expressions += (None if cel is None else cel.expression,)
    capacity, derived = part.capacity, part.derived_attributes
    return (
        part.device_class_name,
        expressions,
        part.allocation_mode,
        part.count,
        part.tolerations,
        # In the order written: another order gets a plan of its own, which is equivalent.
        None
        if capacity is None
        else tuple([(name, amount.nano, amount.text) for name, amount in capacity.requests.items()]),
        tuple([(item.name, item.expression) for item in derived]) if derived else (),
        admin_access,
    )
