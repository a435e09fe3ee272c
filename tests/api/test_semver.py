"""Versions: parsing as upstream does, and a total order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.semver import Semver, parse_semver, parse_semver_normalizing

numbers = st.integers(min_value=0, max_value=2**64 - 1)
identifiers = st.one_of(numbers.map(str), st.from_regex(r"[0-9]*[a-zA-Z-][0-9a-zA-Z-]{0,5}", fullmatch=True))
builds = st.from_regex(r"[0-9a-zA-Z-]{1,6}", fullmatch=True)
versions = st.builds(
    Semver,
    numbers,
    numbers,
    numbers,
    st.lists(identifiers, max_size=4).map(tuple),
    st.lists(builds, max_size=3).map(tuple),
)


@given(versions)
def test_a_version_reads_as_it_is_written(version):
    """Writing a version and reading it again gives all its parts back."""
    again = parse_semver(version.text)

    assert (again, again.prerelease, again.build) == (version, version.prerelease, version.build)


@given(versions, versions, versions)
def test_the_order_is_total_and_transitive(a, b, c):
    """Exactly one of less, equal and greater holds, and the order carries over."""
    assert (a < b) + (a == b) + (a > b) == 1
    assert not (a <= b <= c) or a <= c


def test_build_metadata_takes_no_part_in_comparison():
    """Versions that differ in build metadata alone are equal, also as keys."""
    one, other = parse_semver("1.2.3+a"), parse_semver("1.2.3+b.1")

    assert one == other
    assert hash(one) == hash(other)
    assert not one < other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Version string empty"),
        ("1.0", "No Major.Minor.Patch elements found"),
        ("v1.0.0", 'Invalid character(s) found in major number "v1"'),
        ("01.0.0", 'Major number must not contain leading zeroes "01"'),
        ("1.02.0", 'Minor number must not contain leading zeroes "02"'),
        ("1.0.03", 'Patch number must not contain leading zeroes "03"'),
        ("1.0.0.0", 'Invalid character(s) found in patch number "0.0"'),
        ("1..0", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("18446744073709551616.0.0", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        ("1.0.0-", "Prerelease is empty"),
        ("1.0.0-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.0.0-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.0.0+", "Build meta data is empty"),
        ("1.0.0+a!", 'Invalid character(s) found in build meta data "a!"'),
        ("1.2.3\n", r'Invalid character(s) found in patch number "3\n"'),
        ("\u0661.0.0", 'Invalid character(s) found in major number "\u0661"'),
    ],
)
def test_what_is_no_version_is_refused_in_upstreams_words(text, message):
    """The parser says what upstream's says."""
    with pytest.raises(ValueError) as caught:
        parse_semver(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1", "1.0.0"),
        ("1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("v01.2", "1.2.0"),
        ("v01.02.03-rc.1+b", "1.2.3-rc.1+b"),
        ("00.00.00", "0.0.0"),
    ],
)
def test_normalising_drops_what_people_add(text, version):
    """A leading v, leading zeros and missing parts are put right."""
    assert parse_semver_normalizing(text).text == version


@pytest.mark.parametrize("text", ["vv1", "V1", "1-rc", "1.2+b", "", "v"])
def test_normalising_has_limits(text):
    """Two v's, or a short version with a suffix, are no versions."""
    with pytest.raises(ValueError):
        parse_semver_normalizing(text)


def test_a_version_as_long_as_an_expression_is_refused():
    """Comparing stays cheap whatever a selector builds."""
    with pytest.raises(ValueError, match="longer than"):
        parse_semver("1.0.0-" + "1." * 5000 + "1")
