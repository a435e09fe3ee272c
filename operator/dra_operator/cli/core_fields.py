"""Fields of pods, nodes and namespaces, so that a misspelt one is told: `resourceclaims` names no claim.

kubectl refuses it (strict field validation). Of these kinds only what allocation looks at is typed, so the fields are
those of the published types that the API server in memory decodes into.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from dra_operator.api.known_fields import UnknownField
from dra_operator.sim.schema import element, types

_PACKAGE: Final = "core/v1."
_KINDS: Final = frozenset(("Pod", "Node", "Namespace"))
_ADVICE: Final = {
    (f"{_PACKAGE}PodResourceClaim", "source"): "since Kubernetes 1.31 its fields are next to the name",
    (f"{_PACKAGE}PodResourceClaim", "resourceClaim"): "write resourceClaimName, or resourceClaimTemplateName",
    (f"{_PACKAGE}Container", "resourceClaims"): "write resources.claims, of entries in spec.resourceClaims",
    (f"{_PACKAGE}PodSpec", "template"): "a Pod has the fields of its template in spec",
}
"""What to do about fields that belong elsewhere or to another version, by the struct that they were given to."""


def find_unknown_core_fields(body: Mapping[str, Any], kind: str) -> Iterator[UnknownField]:
    """Yield the fields of an object of the core group that its kind does not have; none of other kinds.

    What has not the shape it should have is passed over: the reader names what matters of it.
    """
    if kind in _KINDS:
        yield from _below(body, f"{_PACKAGE}{kind}", "")


def _below(value: Any, type_: str, path: str) -> Iterator[UnknownField]:
    type_ = type_.removeprefix("*")
    if isinstance(value, list):
        if type_.startswith("[]") and element(type_) in types():
            for index, item in enumerate(value):
                yield from _below(item, type_[2:], f"{path}[{index}]")
    elif isinstance(value, Mapping) and (fields := types().get(type_)) is not None:
        for name, item in value.items():
            at = f"{path}.{name}" if path else str(name)
            if name in fields:
                yield from _below(item, fields[name][0], at)
            else:
                advice = _ADVICE.get((type_, str(name)), "")
                close = () if advice else get_close_matches(str(name), fields, 1)
                yield UnknownField(at, next(iter(close), ""), advice)
