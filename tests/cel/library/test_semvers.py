"""Versions in expressions."""

import pytest

from dra_operator.cel.library.quantities import parse_semver


@pytest.mark.parametrize(
    ("left", "right", "expected"), [("1.2.3", "1.2.3+b", 0), ("1.2.3-a", "1.2.3", -1), ("1.10.0", "1.9.0", 1)]
)
def test_versions_compare_by_precedence(call, left, right, expected):
    """Numbers compare by value, pre-releases come first, build metadata does not count."""
    one, other = parse_semver(left), parse_semver(right)

    assert call("semver_compare_to", one, other) == expected
    assert call("semver_is_less_than", one, other) is (expected < 0)
    assert call("semver_is_greater_than", one, other) is (expected > 0)


def test_a_number_beyond_int_wraps_as_upstream_has_it(call):
    """The parts are unsigned; their accessors are not."""
    version = parse_semver("18446744073709551615.9223372036854775807.1")

    assert [call(f"semver_{part}", version) for part in ("major", "minor", "patch")] == [-1, 2**63 - 1, 1]


def test_normalising_is_asked_for(call, error):
    """Only with `true` are missing and odd parts put right."""
    assert call("string_bool_to_semver", "v1.2", True).text == "1.2.0"
    assert call("is_semver_string_bool", "v1.2", True)
    assert not call("is_semver_string", "v1.2")
    assert error("string_to_semver", "v1.2") == "No Major.Minor.Patch elements found"
