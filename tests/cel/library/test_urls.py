"""URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import CelError
from dra_operator.cel.library.urls import hostname, parse_url, port, query


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://example.com:80/a%20b?k=v#f", ("https", "example.com:80", "example.com", "80", "/a%20b")),
        ("HTTP://[::1]:80/", ("http", "[::1]:80", "::1", "80", "/")),
        ("https://u:p@h/", ("https", "h", "h", "", "/")),
        ("/path/c d", ("", "", "", "", "/path/c%20d")),
        ("//host/x", ("", "host", "host", "", "/x")),
        ("other://a:b:80/", ("other", "a:b:80", "a:b", "80", "/")),
        ("mailto:a@b", ("mailto", "", "", "", "")),
        ("https://[fe80::1%25en0]/", ("https", "[fe80::1%en0]", "fe80::1%en0", "", "/")),
    ],
)
def test_a_url_has_parts(text, parts):
    """Scheme, host, host without port, port, and the path as it is written."""
    url = parse_url(text)

    assert (url.scheme, url.host, hostname(url), port(url), url.escaped_path) == parts


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", 'parse "": empty url'),
        ("relative", 'parse "relative": invalid URI for request'),
        ("https://a:b:80/", 'parse "https://a:b:80/": invalid port ":b:80" after host'),
        ("http://[1.2.3.4]/", 'parse "http://[1.2.3.4]/": invalid IP-literal'),
        ("http://[1:2]/", 'parse "http://[1:2]/": invalid host: ParseAddr("1:2"): address string too short'),
        ("https://a:b/", 'parse "https://a:b/": invalid port ":b" after host'),
        ("://a", 'parse "://a": missing protocol scheme'),
        ("https://a/%zz", 'parse "https://a/%zz": invalid URL escape "%zz"'),
        ("https://a b/", 'parse "https://a b/": invalid character " " in host name'),
        ("https://[::1/", "parse \"https://[::1/\": missing ']' in host"),
        ("a\x7fb", 'parse "a\\x7fb": net/url: invalid control character in URL'),
    ],
)
def test_what_is_no_url_is_refused_in_gos_words(error, call, text, complaint):
    """The error quotes the text and says what is wrong with it."""
    assert error("string_to_url", text) == f"URL parse error during conversion from string: {complaint}"
    assert not call("is_url_string", text)


def test_parameters_are_lists_by_name():
    """Values are decoded and kept in order; what is not written correctly is left out."""
    found = query(parse_url("https://a/?a=1&a=%41+b&b&c=%zz&d=1;e=2"))

    assert dict(found.items()) == {"a": ("1", "A b"), "b": ("",)}


@given(st.text("ab/:?#[]@%0.", max_size=12))
def test_any_text_is_a_url_or_an_error(text):
    """Nothing but a CelError comes out, and what is a URL can be asked for its parts and equals itself."""
    try:
        url = parse_url(text)
    except CelError:
        return
    assert url.equals(parse_url(text))
    assert hostname(url) in url.host
    query(url)
