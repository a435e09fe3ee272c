"""Unknown fields: those that objects of resource.k8s.io do not have, so that a misspelt one is named.

The reader ignores them, as it must: a newer API server may have more. In a file that nobody has checked it is a
mistake, and kubectl refuses it as well (strict field validation). The dataclasses say which fields there are.
Source: k8s.io/api/resource/v1 of Kubernetes 1.37, and `ObjectMeta` of k8s.io/apimachinery.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias, get_args, get_origin

from dra_operator.api import types
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.convert import FLAT_VERSIONS, Body, to_v1, version_of
from dra_operator.api.core import Metadata, OwnerReference
from dra_operator.api.wire import plain, wire_fields

_ALSO: dict[type[Any], tuple[str, ...]] = {
    Metadata: ("generateName", "selfLink", "deletionGracePeriodSeconds", "managedFields"),
    OwnerReference: ("apiVersion", "blockOwnerDeletion"),
    types.ResourceSliceSpec: ("partitionTypeAttribute",),
    types.DeviceTaintRule: ("status",),
    AttributeValue: ("bool", "int", "string", "version", "bools", "ints", "strings", "versions"),
}
"""Fields of the API that our types leave out. What is below them is not looked at."""

_FORMERLY: dict[type[Any], tuple[str, ...]] = {
    types.ResourceClaimSpec: ("controller",),
    types.ResourceClaimStatus: ("deallocationRequested",),
    types.AllocationResult: ("controller",),
}
"""Fields that v1alpha3 had, and no version has today: what is asked for is the same without them."""

_ONLY_FORMERLY: dict[type[Any], tuple[str, ...]] = {
    types.DeviceTaintSelector: ("deviceClassName", "selectors")
}
"""Fields that our types have, and of the API only v1alpha3, in Kubernetes 1.33 and 1.34."""

_ADVICE: dict[tuple[type[Any], str], str] = {
    (
        types.DeviceRequest,
        "exactly",
    ): "write apiVersion: resource.k8s.io/v1, or move its fields up, next to the name",
    (types.Device, "basic"): "that is v1beta1: in this version its fields are next to the name",
    (types.ResourceClaimSpec, "resourceClassName"): "a request in spec.devices.requests names a class",
    (types.ResourceClaimSpec, "spec"): "only a ResourceClaimTemplate has it",
    (
        types.ResourceClaimTemplateSpec,
        "devices",
    ): "write spec.spec.devices: a template has the spec of a claim below its own",
    (types.DeviceSubRequest, "exactly"): "move its fields up, next to the name",
    (types.DeviceSubRequest, "adminAccess"): "only a request without alternatives has it, in exactly",
    **dict.fromkeys(
        ((types.ResourceClaimSpec, name) for name in ("nodeName", "nodeSelector", "affinity")),
        "a claim is where its devices are: select those by their attributes, or the nodes of the pods that use it",
    ),
    **dict.fromkeys(
        ((types.DeviceTaintSelector, "deviceClassName"), (types.DeviceTaintSelector, "selectors")),
        "since Kubernetes 1.35 only driver, pool and device select",
    ),
}
"""What to do about fields that belong elsewhere or to another version, by the type that they were given to."""
_ADVICE_OF_ALL: dict[type[Any], str] = {
    types.CapacityRequirements: "amounts are in requests, by the name of the capacity",
}
"""The same, whatever field it is."""

_ABOVE_REQUESTS: dict[type[Any], str] = {
    types.ResourceClaimTemplateSpec: "spec.devices.",
    types.ResourceClaimSpec: "devices.",
    types.DeviceClaim: "",
}
"""The objects around requests, and the way from them to these."""

_OF_EVERY_OBJECT = ("apiVersion", "kind")
"""Fields that say which dataclass an object is read as, and are in none."""


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


def find_unknown_fields(body: Body, kind: type[Any]) -> Iterator[UnknownField]:
    """Yield the fields of an object of resource.k8s.io that `kind`, its dataclass, does not have.

    The body may be in any served version. What has not the shape it should have is passed over: the reader names it.
    """
    version = version_of(body)
    walk = _Walk(version)
    yield from walk.lost_in_conversion(body, kind)
    for slip in walk.slips(to_v1(body, kind=kind.__name__, version=version), kind):
        advice = (
            _ADVICE.get((slip.type, slip.name)) or _ADVICE_OF_ALL.get(slip.type) or walk.further_down(slip)
        )
        yield UnknownField(slip.path, "" if advice else walk.meant(slip), advice)


def without_unknown_fields(body: Body, kind: type[Any]) -> Body:
    """Return an object of resource.k8s.io without the fields that `kind`, its dataclass, does not have.

    What is written in v1beta1 is returned as it is: a server that serves nothing newer has no newer fields.
    """
    version = version_of(body)
    if version in FLAT_VERSIONS:
        return body
    known = deepcopy(dict(body))
    for slip in tuple(_Walk(version).slips(known, kind)):
        del slip.owner[slip.name]
    return known


@dataclass(frozen=True, slots=True)
class _Slip:
    """A field that the type of its owner, a mapping, does not have, and its path, as written."""

    owner: Any
    type: Any
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk through an object of a version."""

    version: str

    def slips(self, body: Body, kind: Any) -> Iterator[_Slip]:
        """Yield the fields of an object that its dataclass, or a type below it, does not have."""
        found: list[_Slip] = []
        self._collect(body, _object_shape(kind), None, found)
        return (slip for slip in found if slip.path not in _OF_EVERY_OBJECT)

    def _collect(self, value: Any, shape: "_Shape", path: "_Path", found: list[_Slip]) -> None:
        """Add the unknown fields of a value of a shape, and below it."""
        if shape.fields is not None:
            if type(value) is dict or isinstance(value, Mapping):
                self._collect_fields(value, shape, path, found)
        elif (item := shape.item) is None:
            return
        elif shape.is_list:
            for index, each in enumerate(value if isinstance(value, list | tuple) else ()):
                self._collect(each, item, (path, index), found)
        elif isinstance(value, Mapping):
            for key, each in value.items():
                self._collect(each, item, (path, _OF_MAP, key), found)

    def _collect_fields(self, value: Body, shape: "_Shape", path: "_Path", found: list[_Slip]) -> None:
        known, expected = shape.fields or {}, shape.type
        is_former = self.version == "v1alpha3"
        former = _FORMERLY.get(expected, ()) if is_former else ()
        gone = () if is_former else _ONLY_FORMERLY.get(expected, ())
        for name, item in value.items():
            if name in known and name not in gone:
                if (below := known[name]) is not None:
                    flat = (
                        expected is types.DeviceRequest
                        and name == "exactly"
                        and self.version in FLAT_VERSIONS
                    )
                    self._collect(item, below, path if flat else (path, name), found)
            elif name not in former:
                found.append(_Slip(value, expected, name, _joined(_path_text(path), name)))

    def further_down(self, slip: _Slip) -> str:
        """Return where a field of a request, a constraint or a configuration belongs that stands above these."""
        way = _ABOVE_REQUESTS.get(slip.type)
        if way is None or slip.name in _fields(slip.type):
            return ""
        request = "requests[]" if self.version in FLAT_VERSIONS else "requests[].exactly"
        places = (
            (request, types.ExactDeviceRequest),
            ("requests[]", types.DeviceRequest),
            ("constraints[]", types.DeviceConstraint),
            ("config[]", types.DeviceConfiguration),
        )
        for place, kind in places:
            # Two of them have requests, and so has the object that has them all.
            if slip.name in _fields(kind) and slip.name != "requests":
                above = slip.path.removesuffix(slip.name)
                return f"write {above}{way}{place}.{slip.name}"
        return ""

    def meant(self, slip: _Slip) -> str:
        """Return the known field that is closest, or the one that has this name or is a map one step below."""
        name, expected = str(slip.name), slip.type
        known = _fields(expected)
        if expected is types.DeviceRequest and self.version in FLAT_VERSIONS:
            known = {name: None for name in (*known, *_fields(types.ExactDeviceRequest)) if name != "exactly"}
        if close := _closest(name, tuple(known)):
            return close
        for outer, hint in known.items():
            inner = plain(hint)
            if _is_object(inner) and name in _fields(inner):
                return f"{outer}.{name}"
        return ""

    def lost_in_conversion(self, body: Body, kind: type[Any]) -> Iterator[UnknownField]:
        """Yield what an older version does not have, and the conversion to v1 would drop or let pass."""
        if self.version not in FLAT_VERSIONS:
            return
        if kind is types.ResourceSlice:
            devices = enumerate(_items(body, "spec", "devices"))
            flat = (
                (index, name) for index, device in devices if isinstance(device, Mapping) for name in device
            )
            for index, name in flat:
                if name not in ("name", "basic"):
                    meant = _closest(str(name), ("name", "basic")) or f"basic.{name}"
                    yield UnknownField(f"spec.devices[{index}].{name}", meant)
        elif kind in (types.ResourceClaim, types.ResourceClaimTemplate):
            spec = ("spec",) if kind is types.ResourceClaim else ("spec", "spec")
            for index, request in enumerate(_items(body, *spec, "devices", "requests")):
                if isinstance(request, Mapping) and "exactly" in request:
                    path = f"{'.'.join(spec)}.devices.requests[{index}].exactly"
                    yield UnknownField(path, advice=_ADVICE[types.DeviceRequest, "exactly"])


@lru_cache(maxsize=256)
def _closest(name: str, known: tuple[str, ...]) -> str:
    """Return the known name closest to a name, or "". Slow, and asked once a device for a field of a newer API."""
    return next(iter(get_close_matches(name, known, n=1)), "")


def _items(value: Any, *names: str) -> list[Any]:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, list) else []


def _joined(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def _is_object(expected: Any) -> bool:
    return expected is AttributeValue or (isinstance(expected, type) and is_dataclass(expected))


_OF_MAP: Final = object()
_Path: TypeAlias = Any
"""Where a value stands: None at the top, else where its owner stands, and its name or number there."""


def _path_text(path: _Path) -> str:
    if path is None:
        return ""
    owner, *_, step = path
    if len(path) == 3:
        return f"{_path_text(owner)}[{json.dumps(str(step))}]"
    return f"{_path_text(owner)}[{step}]" if isinstance(step, int) else _joined(_path_text(owner), step)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What can be below a value: the fields of an object, or the items of a list or of a map.

    A field or an item without a shape has no object below it whose fields are known.
    """

    type: Any
    fields: Mapping[str, "_Shape | None"] | None = None
    item: "_Shape | None" = None
    is_list: bool = False


def _shape(expected: Any) -> _Shape | None:
    expected = plain(expected)
    if _is_object(expected):
        return _object_shape(expected)
    arguments = get_args(expected)
    if get_origin(expected) is tuple:
        item = _shape(arguments[0])
        return None if item is None else _Shape(expected, item=item, is_list=True)
    item = _shape(arguments[-1]) if arguments else None
    return None if item is None else _Shape(expected, item=item)


@cache
def _object_shape(expected: Any) -> _Shape:
    """Return the shape of an object. To find out about types takes longer than to walk through a value."""
    return _Shape(expected, {name: _shape(hint) for name, hint in _fields(expected).items()})


@cache
def _fields(expected: Any) -> Mapping[str, Any]:
    """Return the fields of a type as the wire names them, each with its type; None is not looked into."""
    also = dict.fromkeys(_ALSO.get(expected, ()))
    if expected is AttributeValue:
        return also
    return wire_fields(expected) | also
