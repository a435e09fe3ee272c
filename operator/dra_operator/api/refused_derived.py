"""Refused derived attributes: names that no constraint of the request asks for, that are there twice, or are none.

An attribute that nobody asks for is never computed, so nothing in the decision would show the slip. What is wrong with
an expression is told by `cli/expressions.py`.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateDeviceDerivedAttribute`, and the answers of an API
server of 1.37.
"""

from collections.abc import Iterator, Sequence

from dra_operator.api.patterns import QUALIFIED
from dra_operator.api.refused import Refusal
from dra_operator.api.types import DerivedAttribute, DeviceClaim, DeviceConstraint

_NO_NAME = (
    "is no name of an attribute: write domain/name, the domain in lower case, such as team.example.com/numa"
)
_TWICE = "is derived twice: write one expression for it"
_NOT_ASKED = "is asked for by no constraint of this request: name it in one, or leave it out"
_NO_EXPRESSION = "is missing: write the expression that computes the attribute"


def find_refused_derived(devices: DeviceClaim, path: str) -> Iterator[Refusal]:
    """Yield what is refused of the derived attributes of a claim, their expressions aside."""
    for place, names, attributes in all_derived(devices, path):
        asked = {_attribute(item) for item in devices.constraints if _applies(item, names)}
        seen: set[str] = set()
        for index, item in enumerate(attributes):
            at = f"{place}[{index}]"
            if not QUALIFIED.fullmatch(item.name):
                yield Refusal(f"{at}.name", item.name, _NO_NAME)
            elif item.name in seen:
                yield Refusal(f"{at}.name", item.name, _TWICE)
            elif item.name not in asked:
                yield Refusal(f"{at}.name", item.name, _NOT_ASKED)
            seen.add(item.name)
            if not item.expression:
                yield Refusal(f"{at}.expression", None, _NO_EXPRESSION)


def all_derived(
    devices: DeviceClaim, path: str
) -> Iterator[tuple[str, frozenset[str], Sequence[DerivedAttribute]]]:
    """Yield the derived attributes of each request and alternative: their path, and what constraints call it."""
    for number, request in enumerate(devices.requests):
        at = f"{path}.requests[{number}]"
        if request.exactly is not None:
            names = frozenset([request.name])
            yield f"{at}.exactly.derivedAttributes", names, request.exactly.derived_attributes
        for index, item in enumerate(request.first_available):
            names = frozenset([request.name, f"{request.name}/{item.name}"])
            yield f"{at}.firstAvailable[{index}].derivedAttributes", names, item.derived_attributes


def _applies(constraint: DeviceConstraint, names: frozenset[str]) -> bool:
    return not constraint.requests or not names.isdisjoint(constraint.requests)


def _attribute(constraint: DeviceConstraint) -> str | None:
    """Return the attribute that a constraint is about: of two, the one that devices must share."""
    if constraint.match_attribute is not None:
        return constraint.match_attribute
    return constraint.distinct_attribute
