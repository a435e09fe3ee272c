"""Environments: what an expression may use, by Kubernetes version, by purpose and by feature gate.

The API server admits new expressions with fewer things than it evaluates stored ones with, so that a cluster
can be downgraded. The operator evaluates what is stored, always with the newest rules: `STORED`.
Source: k8s.io/dynamic-resource-allocation `cel/compile.go`, k8s.io/apiserver `pkg/cel/environment/base.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias, get_args

from dra_operator.cel import declarations
from dra_operator.cel.declarations import Overload
from dra_operator.cel.types import ANY, BOOL, DYN, QUANTITY, STRING, Kind, Type, map_of

Version: TypeAlias = Literal["1.36", "1.37"]
VERSIONS: Final[tuple[Version, ...]] = get_args(Version)
"""The versions of Kubernetes whose rules are known, the oldest first."""
NEWEST: Final = VERSIONS[-1]
Expressions: TypeAlias = Literal["stored", "new"]

DEVICE = Type(Kind.STRUCT, "kubernetes.DRADevice")


@dataclass(frozen=True, slots=True)
class Environment:
    """A set of rules. The two switches are the gates DRAConsumableCapacity and DRAListTypeAttributes."""

    kubernetes: Version = NEWEST
    expressions: Expressions = "stored"
    consumable_capacity: bool = True
    list_type_attributes: bool = True

    @property
    def attribute_type(self) -> Type:
        """The static type of an attribute: dyn where it may be a list, else any."""
        listed = self.list_type_attributes or (self.kubernetes >= "1.37" and self.expressions == "stored")
        return DYN if listed else ANY

    @property
    def device_fields(self) -> dict[str, Type]:
        """The fields of the `device` variable."""
        return _device_fields(self)

    @property
    def quoted_fields(self) -> bool:
        """Whether a field name may be written in back quotes."""
        return self.kubernetes >= "1.37"

    @property
    def functions(self) -> Mapping[str, tuple[Overload, ...]]:
        """The overloads of each function there is."""
        return _functions(self)

    def function_names(self) -> tuple[str, ...]:
        """Return the names of all functions that can be written."""
        return tuple(name for name in _functions(self) if name[0].isalpha() and "@" not in name)


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


@cache
def _functions(environment: Environment) -> Mapping[str, tuple[Overload, ...]]:
    functions = {**declarations.functions()}
    if environment.expressions == "new" and not environment.list_type_attributes:
        del functions["includes"]
    if environment.kubernetes < "1.37":
        older = declarations.older_functions()
        if "includes" in functions:
            functions["includes"] = (older["includes"],)
        same, *others = functions["duration"]
        functions["duration"] = (same, older["duration"], *others)
    return functions


STORED = Environment()
"""How the operator evaluates everything: what is stored, by the newest rules."""
