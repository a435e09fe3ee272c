"""Versions of Kubernetes and their rules."""

import pytest

from dra_operator.api.versions import RELEASED, RULES, VERSIONS, rules_of


@pytest.mark.parametrize(
    ("version", "followed"),
    [
        ("v1.38.0", "1.38"),
        ("v1.38.0-beta.0", "1.38"),
        ("v1.38.4-eks-0f1e2d", "1.38"),
        ("1.38", "1.38"),
        ("v1.37.2", "1.37"),
        ("v1.41.0", VERSIONS[-1]),
        ("v1.36.9", RELEASED),
        ("v1.9.0", RELEASED),
        ("v1.3.8", RELEASED),
        ("v2.0.0", RELEASED),
        ("", RELEASED),
    ],
)
def test_rules_are_those_of_the_minor_version(version: str, followed: str):
    """The minor version alone decides; older servers are followed like the released version, newer like the newest."""
    assert rules_of(version) is RULES[followed]


def test_a_rule_holds_from_its_version_on():
    """A rule of a version holds in it and in all later ones, and in none before."""
    held = [RULES[version].full_names for version in VERSIONS]
    assert held == [False, False, True]
    held = [RULES[version].quoted_fields for version in VERSIONS]
    assert held == [False, True, True]
