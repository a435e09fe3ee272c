"""Versions in expressions. Source: k8s.io/apiserver/pkg/cel/library/semverlib.go."""

from typing import Final

from dra_operator.api.semver import Semver
from dra_operator.api.semver import parse_semver as parse_version
from dra_operator.api.semver import parse_semver_normalizing as parse_version_normalizing
from dra_operator.cel.costs.prices import READING, Implementation, Row
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


def _compare(left: Semver, right: Semver) -> int:
    return (left.key > right.key) - (left.key < right.key)


def _is_greater(left: Semver, right: Semver) -> bool:
    return left.key > right.key


def _is_less(left: Semver, right: Semver) -> bool:
    return left.key < right.key


FUNCTIONS: Final[dict[str, Row]] = {
    "semver string_to_semver: (string) -> kubernetes.Semver": Implementation(parse_semver, READING),
    "semver string_bool_to_semver: (string, bool) -> kubernetes.Semver": Implementation(
        parse_semver, READING
    ),
    "isSemver is_semver_string: (string) -> bool": Implementation(succeeds(parse_semver), READING),
    "isSemver is_semver_string_bool: (string, bool) -> bool": Implementation(succeeds(parse_semver), READING),
    "compareTo semver_compare_to: kubernetes.Semver.(kubernetes.Semver) -> int": _compare,
    "isGreaterThan semver_is_greater_than: kubernetes.Semver.(kubernetes.Semver) -> bool": _is_greater,
    "isLessThan semver_is_less_than: kubernetes.Semver.(kubernetes.Semver) -> bool": _is_less,
    "major semver_major: kubernetes.Semver.() -> int": lambda version: _signed(version.major),
    "minor semver_minor: kubernetes.Semver.() -> int": lambda version: _signed(version.minor),
    "patch semver_patch: kubernetes.Semver.() -> int": lambda version: _signed(version.patch),
}
