"""Addresses and networks."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import CelError
from dra_operator.cel.library.network import CIDR, IP, contains_ip, masked, parse_ip

v4 = st.integers(0, 2**32 - 1)
v6 = st.integers(2**33, 2**128 - 1).filter(lambda value: value >> 32 != 0xFFFF)


@given(v4, v6)
def test_an_address_reads_as_it_prints(four, six):
    """Both versions survive being written and read, in short and in long form."""
    assert parse_ip(str(IP(4, four))) == IP(4, four)
    assert parse_ip(str(IP(6, six))) == IP(6, six)
    assert parse_ip(ipaddress.IPv6Address(six).exploded) == IP(6, six)


@given(v4, st.integers(0, 32), v4)
def test_a_network_contains_what_shares_its_prefix(value, length, other):
    """Membership is that of Python's own networks."""
    network = ipaddress.ip_network((value, length), strict=False)

    assert contains_ip(CIDR(IP(4, value), length), IP(4, other)) is (ipaddress.ip_address(other) in network)
    assert masked(CIDR(IP(4, value), length)).address.value == int(network.network_address)


@given(st.text("0123456789abcf:.%/", max_size=20))
def test_any_text_is_an_address_or_an_error(text):
    """What passes here is an address for Python too; nothing but a CelError comes out."""
    try:
        ip = parse_ip(text)
    except CelError:
        return
    assert int(ipaddress.ip_address(text)) == ip.value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.2.3.04", "IPv4 field has octet with leading zero"),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        ("1.2.3.a", 'unexpected character (at "a")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("1:2", "address string too short"),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        ("1:2:", 'colon must be followed by more characters (at ":")'),
        ("1::g", 'each colon-separated field must have at least one digit (at "g")'),
        ("::1%", "zone must be a non-empty string"),
        ("%a", "missing IPv6 address"),
        ("x", "unable to parse IP"),
    ],
)
def test_a_wrong_address_is_refused_in_gos_words(error, text, complaint):
    """The error says what is wrong, and where."""
    assert error("string_to_ip", text) == (
        f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): {complaint}'
    )


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.0",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/+8",
        "10.0.0.0/08",
        "::/129",
        "fe80::1%a/64",
        "::ffff:1.2.3.4/96",
    ],
)
def test_a_wrong_network_is_refused(call, text):
    """A network needs a length that fits, and an address without a zone."""
    assert not call("is_cidr", text)
