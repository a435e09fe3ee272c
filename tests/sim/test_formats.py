"""The formats take what upstream's take."""

import pytest

from dra_operator.sim.validation import FORMATS

QUALIFIED = "k8s-resource-fully-qualified-name"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("k8s-short-name", "a-1"),
        ("k8s-long-name", "a.b-1"),
        ("k8s-long-name-caseless", "A.b"),
        ("k8s-label-key", "A.b_C"),
        ("k8s-uuid", "01234567-89ab-cdef-0123-456789abcdef"),
        ("k8s-extended-resource-name", "example.com/gpu"),
        ("k8s-resource-pool-name", "a.b/c"),
        (QUALIFIED, "a.b/C_1"),
        pytest.param(QUALIFIED, "A_/-/ ", id="of two slashes, which upstream lets pass"),
    ],
)
def test_a_text_of_the_format_is_not_refused(name: str, text: str) -> None:
    """Each format takes a text that is like those in upstream's documentation."""
    assert list(FORMATS[name]("f", text)) == []


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        ("k8s-short-name", "a.b", 1),
        ("k8s-long-name", "A.b", 1),
        ("k8s-long-name-caseless", "A_", 1),
        ("k8s-label-key", "/a", 1),
        ("k8s-uuid", "01234567-89AB-cdef-0123-456789abcdef", 1),
        ("k8s-extended-resource-name", "gpu", 1),
        ("k8s-extended-resource-name", "kubernetes.io/gpu", 1),
        ("k8s-extended-resource-name", "requests.a/b/c", 2),
        pytest.param("k8s-resource-pool-name", f"{'a' * 250}/b//C", 3, id="a pool in three ways"),
        (QUALIFIED, "numa", 1),
        (QUALIFIED, "A.b/numa", 1),
        (QUALIFIED, "/", 2),
        pytest.param(QUALIFIED, f"{'a' * 64}/{'b' * 33}", 2, id="a name with both parts too long"),
        pytest.param(QUALIFIED, "1-", 2, id="a bare name that is no identifier"),
    ],
)
def test_other_texts_are_refused(name: str, text: str, problems: int) -> None:
    """Each thing that is wrong is said once."""
    found = list(FORMATS[name]("f", text))

    assert len(found) == problems
    assert {error.field for error in found} == {"f"}
