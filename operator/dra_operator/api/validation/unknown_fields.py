"""Unknown fields: those that objects do not have, so that a misspelt one is named.

The reader ignores them, as it must: a newer API server may have more. In a file that nobody has checked it is a
mistake, and kubectl refuses it as well (strict field validation). `api.fields` says which fields there are, version by
version; of a version that is not in it, as v1alpha3 of Kubernetes 1.31, the next one that is, with what it had besides.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Final

from dra_operator.api.convert import FLAT_VERSIONS, Body, version_of
from dra_operator.api.fields import element, split_type, types
from dra_operator.api.kinds import KINDS, RESOURCE_GROUP, SCHEDULING_GROUP

_FORMERLY: Final[Mapping[str, Mapping[str, str]]] = {
    "ResourceClaimSpec": {"controller": "string"},
    "ResourceClaimStatus": {"deallocationRequested": "bool"},
    "AllocationResult": {"controller": "string"},
    "DeviceTaintSelector": {"deviceClassName": "string", "selectors": "[]resource/v1.DeviceSelector"},
}
"""Fields that v1alpha3 had, and no version has today."""

_ADVICE: Final[Mapping[tuple[str, str], str]] = {
    ("DeviceRequest", "exactly"): (
        "write apiVersion: resource.k8s.io/v1, or move its fields up, next to the name"
    ),
    ("Device", "basic"): "that is v1beta1: in this version its fields are next to the name",
    ("ResourceClaimSpec", "resourceClassName"): "a request in spec.devices.requests names a class",
    ("ResourceClaimSpec", "spec"): "only a ResourceClaimTemplate has it",
    ("ResourceClaimTemplateSpec", "devices"): (
        "write spec.spec.devices: a template has the spec of a claim below its own"
    ),
    ("DeviceSubRequest", "exactly"): "move its fields up, next to the name",
    ("DeviceSubRequest", "adminAccess"): "only a request without alternatives has it, in exactly",
    **dict.fromkeys(
        (("ResourceClaimSpec", name) for name in ("nodeName", "nodeSelector", "affinity")),
        "a claim is where its devices are: select those by their attributes, or the nodes of the pods that use it",
    ),
    **dict.fromkeys(
        (("DeviceTaintSelector", name) for name in _FORMERLY["DeviceTaintSelector"]),
        "since Kubernetes 1.35 only driver, pool and device select",
    ),
    ("PodResourceClaim", "source"): "since Kubernetes 1.31 its fields are next to the name",
    ("PodResourceClaim", "resourceClaim"): "write resourceClaimName, or resourceClaimTemplateName",
    ("Container", "resourceClaims"): "write resources.claims, of entries in spec.resourceClaims",
    ("PodSpec", "template"): "a Pod has the fields of its template in spec",
}
"""What to do about fields that belong elsewhere or to another version, by the struct that they were given to."""
_ADVICE_OF_ALL: Final = {"CapacityRequirements": "amounts are in requests, by the name of the capacity"}
"""The same, whatever field it is."""

_ABOVE_REQUESTS: Final = {
    "ResourceClaimTemplateSpec": "spec.devices.",
    "ResourceClaimSpec": "devices.",
    "DeviceClaim": "",
}
"""The objects around requests, and the way from them to these."""
_GROUPS: Final = {RESOURCE_GROUP: "resource", SCHEDULING_GROUP: "scheduling"}
_OF_EVERY_OBJECT: Final = ("apiVersion", "kind")


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that its type does not have: its path, as written, and the known one it may stand for, or advice."""

    path: str
    meant: str = ""
    advice: str = ""

    @property
    def message(self) -> str:
        """What is wrong, for people."""
        return f"unknown field{self.hint}"

    @property
    def hint(self) -> str:
        """The known field that it may stand for, or advice, for people; empty if there is neither."""
        if self.advice:
            return f"; {self.advice}"
        return f"; did you mean {json.dumps(self.meant)}?" if self.meant else ""


_Path = tuple[Any, ...]
"""Where a value stands: where its owner stands, and its name or number there; keys of maps have a third part."""


@dataclass(frozen=True, slots=True)
class _Slip:
    """A field that the struct of its owner, a mapping, does not have, and its path."""

    owner: Any
    struct: str
    name: str
    path: _Path


def find_unknown_fields(body: Body) -> Iterator[UnknownField]:
    """Yield the fields of an object, in any served version, that its kind does not have; none of unknown kinds.

    What has not the shape it should have is passed over: the reader names it.
    """
    for slip in _slips(body):
        path = _text(slip.path)
        advice = _advice(slip, path)
        yield UnknownField(path, "" if advice else _meant(slip), advice)


def without_unknown_fields(body: Body) -> Body:
    """Return an object without the fields that its kind does not have."""
    known = deepcopy(dict(body))
    for slip in _slips(known):
        del slip.owner[slip.name]
    return known


def _slips(body: Body) -> list[_Slip]:
    found: list[_Slip] = []
    kind, version = KINDS.get(str(body.get("kind"))), version_of(body)
    if kind is not None:
        group = _GROUPS.get(kind.group, "core")
        # v1alpha2 of a PodGroup is not in it, and had other fields than those after it.
        others = () if group == "scheduling" else ("v1beta1", "v1")
        names = (f"{group}/{each}.{kind.kind}" for each in (version, *others))
        struct = next((name for name in names if name in types()), "")
        _collect(body, struct, (), found, is_former=version == "v1alpha3")
    return [slip for slip in found if slip.path[0] or slip.name not in _OF_EVERY_OBJECT]


def _collect(value: Any, type_: str, path: _Path, found: list[_Slip], *, is_former: bool) -> None:
    """Add the unknown fields of a value of a type, and below it."""
    wrapper, inner, fields = _shape(type_)
    if fields is not None and isinstance(value, Mapping):
        former = _FORMERLY.get(_bare(inner), {}) if is_former else {}
        for name, item in value.items():
            if (below := fields.get(name, former.get(name))) is None:
                found.append(_Slip(value, inner, name, (path, name)))
            elif below:
                _collect(item, below, (path, name), found, is_former=is_former)
    elif wrapper == "[]":
        for index, each in enumerate(value if isinstance(value, list | tuple) else ()):
            _collect(each, inner, (path, index), found, is_former=is_former)
    elif wrapper == "{}" and isinstance(value, Mapping):
        for key, each in value.items():
            _collect(each, inner, (path, key, True), found, is_former=is_former)


@cache
def _shape(type_: str) -> tuple[str, str, Mapping[str, str] | None]:
    """Return list or map and what is in it, or a struct and its fields with types; empty where nothing is looked at."""
    wrapper, inner = split_type(type_)
    if wrapper in ("[]", "{}"):
        return wrapper, inner, None
    fields = types().get(inner)
    if fields is None:
        return "", inner, None
    return (
        "",
        inner,
        {name: field[0] if element(field[0]) in types() else "" for name, field in fields.items()},
    )


def _bare(struct: str) -> str:
    return struct.rpartition(".")[2]


def _fields(struct: str) -> Mapping[str, list[str]]:
    return types().get(struct, {})


def _advice(slip: _Slip, path: str) -> str:
    """Return what to do about a field, where that is known."""
    struct = _bare(slip.struct)
    if advice := _ADVICE.get((struct, slip.name)) or _ADVICE_OF_ALL.get(struct):
        return advice
    way = _ABOVE_REQUESTS.get(struct)
    if way is None or slip.name == "requests":
        # Constraints and configuration have requests, and so has the object that has them all.
        return ""
    package = slip.struct.partition(".")[0]
    is_flat = package.rpartition("/")[2] in FLAT_VERSIONS
    for place, owner in (
        ("requests[]", "DeviceRequest") if is_flat else ("requests[].exactly", "ExactDeviceRequest"),
        ("requests[]", "DeviceRequest"),
        ("constraints[]", "DeviceConstraint"),
        ("config[]", "DeviceClaimConfiguration"),
    ):
        if slip.name in _fields(f"{package}.{owner}"):
            return f"write {path.removesuffix(slip.name)}{way}{place}.{slip.name}"
    return ""


@lru_cache(maxsize=256)
def _closest(name: str, known: tuple[str, ...]) -> str:
    """Return the known name closest to a name, or "". Slow, and asked once a device for a field of a newer API."""
    return next(iter(get_close_matches(name, known, n=1)), "")


def _meant(slip: _Slip) -> str:
    """Return the known field that is closest, or the one that has this name one step below."""
    name, known = str(slip.name), _fields(slip.struct)
    if close := _closest(name, tuple(known)):
        return close
    return next(
        (f"{outer}.{name}" for outer, field in known.items() if name in _fields(field[0].removeprefix("*"))),
        "",
    )


def _text(path: _Path) -> str:
    if not path:
        return ""
    owner, step, *is_key = path
    if is_key:
        return f"{_text(owner)}[{json.dumps(str(step))}]"
    above = _text(owner)
    if isinstance(step, int):
        return f"{above}[{step}]"
    return f"{above}.{step}" if above else str(step)
