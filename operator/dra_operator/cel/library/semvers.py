"""Versions in expressions. Source: k8s.io/apiserver/pkg/cel/library/semverlib.go."""

from collections.abc import Callable
from typing import Any, Final

from dra_operator.api.semver import Semver
from dra_operator.api.semver import parse_semver as parse_version
from dra_operator.api.semver import parse_semver_normalizing as parse_version_normalizing
from dra_operator.cel.errors import runtime_error, succeeds
from dra_operator.cel.values import INT_MAX


def parse_semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 - the function of CEL has it
    """Return the version that `text` stands for. Raises CelError if it is none."""
    try:
        return parse_version_normalizing(text) if normalize else parse_version(text)
    except ValueError as error:
        raise runtime_error(str(error)) from None


def _signed(number: int) -> int:
    # Upstream turns the unsigned number into an int without a look at its size.
    return number if number <= INT_MAX else number - 2**64


OVERLOADS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_semver": parse_semver,
    "string_bool_to_semver": parse_semver,
    "is_semver_string": succeeds(parse_semver),
    "is_semver_string_bool": succeeds(parse_semver),
    "semver_compare_to": lambda left, right: (left.key > right.key) - (left.key < right.key),
    "semver_is_greater_than": lambda left, right: left.key > right.key,
    "semver_is_less_than": lambda left, right: left.key < right.key,
    "semver_major": lambda version: _signed(version.major),
    "semver_minor": lambda version: _signed(version.minor),
    "semver_patch": lambda version: _signed(version.patch),
}
