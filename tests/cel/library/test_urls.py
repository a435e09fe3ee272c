"""URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import CelError
from dra_operator.cel.library.urls import hostname, parse_url, query


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
