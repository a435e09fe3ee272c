"""Named formats."""

import pytest

from dra_operator.cel.library.named_formats import FORMATS, validate


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        ("uuid", "x", ["does not match the UUID format"]),
        ("byte", "aGVsbG8", ["invalid base64"]),
        ("byte", "", ["invalid base64"]),
        ("byte", "aGVs\nbG8=", ["invalid base64"]),
        ("dns1123Label", "a.b", ["must not contain dots"]),
        ("dns1035Label", "a" * 64, ["must be no more than 63 characters"]),
        ("datetime", "2020-01-01T24:00:00Z", ["invalid datetime"]),
        ("date", "2021-02-29", ["invalid date"]),
        ("date", "2020-01-01T00:00:00Z", ["invalid date"]),
        ("datetime", "2020-01-01", ["invalid datetime"]),
        ("uri", "x", ['parse "x": invalid URI for request']),
        ("dns1123Label", "a" * 64, ["must be no more than 63 characters"]),
        ("dns1123Subdomain", "a" * 254, ["must be no more than 253 characters"]),
        ("labelValue", "a" * 64, ["must be no more than 63 bytes"]),
        ("qualifiedName", "a" * 254 + "/a", ["prefix part must be no more than 253 bytes"]),
        ("qualifiedName", "/a", ["prefix part must be non-empty"]),
    ],
)
def test_a_text_of_another_form_has_problems_in_words(name, text, problems):
    """The problems are those that the API server would tell."""
    assert list(validate(FORMATS[name], text).value) == problems
