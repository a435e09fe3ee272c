"""Environments: what an expression may use, by Kubernetes version, by purpose and by feature gate.

The API server admits new expressions with fewer things than it evaluates stored ones with, so that a cluster
can be downgraded. The operator evaluates what is stored, always with the newest rules: `STORED_137`.
Source: k8s.io/dynamic-resource-allocation `cel/compile.go`, k8s.io/apiserver `pkg/cel/environment/base.go`.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from dra_operator.cel import declarations
from dra_operator.cel.declarations import Overload
from dra_operator.cel.types import ANY, BOOL, DYN, QUANTITY, STRING, Kind, Type, map_of

Version: TypeAlias = Literal["1.36", "1.37"]
Expressions: TypeAlias = Literal["stored", "new"]

DEVICE = Type(Kind.STRUCT, "kubernetes.DRADevice")
_INCLUDES_136 = "dra_includes_dyn_dyn: dyn.(dyn) -> bool"
_DURATION_136 = "int64_to_duration: (int) -> google.protobuf.Duration"


@dataclass(frozen=True, slots=True)
class Environment:
    """A set of rules. The two switches are the gates DRAConsumableCapacity and DRAListTypeAttributes."""

    kubernetes: Version = "1.37"
    expressions: Expressions = "stored"
    consumable_capacity: bool = True
    list_type_attributes: bool = True

    @property
    def attribute_type(self) -> Type:
        """The static type of an attribute: dyn where it may be a list, else any."""
        listed = self.list_type_attributes or (self.kubernetes == "1.37" and self.expressions == "stored")
        return DYN if listed else ANY

    @property
    def device_fields(self) -> dict[str, Type]:
        """The fields of the `device` variable."""
        return _device_fields(self)

    @property
    def quoted_fields(self) -> bool:
        """Whether a field name may be written in back quotes."""
        return self.kubernetes == "1.37"

    @property
    def functions(self) -> "Functions":
        """The functions there are."""
        return _functions(self)

    def overloads(self, function: str) -> tuple[Overload, ...] | None:
        """Return the overloads of a function, or None if there is no such function."""
        return _functions(self).overloads(function)

    def function_names(self) -> tuple[str, ...]:
        """Return the names of all functions that can be written."""
        return tuple(name for name in _functions(self).lines if name[0].isalpha() and "@" not in name)


@cache
def _device_fields(environment: Environment) -> dict[str, Type]:
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, environment.attribute_type)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    if environment.consumable_capacity or environment.expressions == "stored":
        fields["allowMultipleAllocations"] = BOOL
    return fields


class Functions:
    """The functions of an environment, each read when it is first asked for."""

    __slots__ = ("_read", "lines", "resolved")

    def __init__(self, lines: dict[str, tuple[str, ...]]) -> None:
        self.lines = lines
        self._read: dict[str, tuple[Overload, ...]] = {}
        self.resolved: dict[tuple[object, ...], tuple[tuple[str, ...], Type]] = {}
        """What calls came to, as the checker remembers it."""

    def overloads(self, function: str) -> tuple[Overload, ...] | None:
        """Return the overloads of a function, or None if there is no such function."""
        read = self._read.get(function)
        if read is None and function in self.lines:
            read = self._read[function] = tuple(map(declarations.read_overload, self.lines[function]))
        return read


@cache
def _functions(environment: Environment) -> Functions:
    lines = dict(declarations.lines())
    if environment.expressions == "new" and not environment.list_type_attributes:
        del lines["includes"]
    if environment.kubernetes == "1.36":
        if "includes" in lines:
            lines["includes"] = (_INCLUDES_136,)
        same, *others = lines["duration"]
        lines["duration"] = (same, _DURATION_136, *others)
    return Functions(lines)


STORED_137 = Environment()
"""How the operator evaluates everything."""
