"""What a claim asks for, as a key: claims that ask for the same in the same words have equal plans.

Most claims of a cluster are made from a few templates. Their plans differ in nothing but the claim, and making a plan
takes several times as long as finding one that was made.
"""

from typing import TypeAlias

from dra_operator.api.types import DeviceClaim, DeviceSubRequest, DeviceToleration, ExactDeviceRequest

Part: TypeAlias = ExactDeviceRequest | DeviceSubRequest
"""What one alternative asks for."""
Wanted: TypeAlias = tuple[
    str, tuple[str | None, ...], tuple[DeviceToleration, ...], tuple[tuple[str, int, str], ...] | None
]
"""Which devices a part is after: class, selectors, tolerations and amounts. Each claim has some: a plain tuple."""


def asked_by(devices: DeviceClaim) -> tuple[object, list[Wanted]]:
    """Return something hashable that is equal for claims with equal plans, and what each part of it is after.

    It is all of the claim but configuration.
    """
    wanted: list[Wanted] = []
    # One flat tuple. Wherever it is not known how many things follow, their number stands before them.
    asked: list[object] = [len(devices.requests)]
    for request in devices.requests:
        parts: tuple[Part, ...]
        if request.exactly is not None:
            parts = (request.exactly,)
            asked += (request.name, None, request.exactly.admin_access)
        else:
            parts = request.first_available
            asked += (request.name, len(parts))
            for subrequest in request.first_available:
                asked.append(subrequest.name)
        for part in parts:
            expressions: list[str | None] = []
            for selector in part.selectors:
                cel = selector.cel
                expressions.append(None if cel is None else cel.expression)
            capacity, derived = part.capacity, part.derived_attributes
            amounts = None
            if capacity is not None:
                # In the order in which they are written: results have it, too.
                amounts = tuple(
                    [(name, amount.nano, amount.text) for name, amount in capacity.requests.items()]
                )
            after = (part.device_class_name, tuple(expressions), part.tolerations, amounts)
            wanted.append(after)
            asked += (
                after,
                part.allocation_mode,
                part.count,
                tuple([(item.name, item.expression) for item in derived]) if derived else (),
            )
    for constraint in devices.constraints:
        asked += (constraint.requests, constraint.match_attribute, constraint.distinct_attribute)
    return tuple(asked), wanted
