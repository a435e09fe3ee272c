"""Rules for names that files and the in-memory API server share."""

import pytest

from dra_operator.api.validation.checks import LABEL, SUBDOMAIN, VALUE


@pytest.mark.parametrize("rule", [LABEL, SUBDOMAIN, VALUE])
@pytest.mark.parametrize("text", ["\ud800x", "a\ud800", "\udfff", "\ud800" * 300])
def test_half_of_a_surrogate_pair_is_no_name(rule, text):
    """JSON may hold one; it is refused like any other character, and ends nothing."""
    assert not rule.fullmatch(text)
    assert rule.problems(text)[-1] == rule.explained


@pytest.mark.parametrize(("rule", "longest"), [(LABEL, 63), (VALUE, 63), (SUBDOMAIN, 253)])
def test_a_name_has_a_longest_length(rule, longest):
    """One byte more is one too many."""
    assert rule.fullmatch("a" * longest)
    assert not rule.fullmatch("a" * (longest + 1))
