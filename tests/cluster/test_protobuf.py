"""The metadata of an object changed in protobuf: exactly that, and nothing else."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cluster.delivery import MalformedError, identity_of, patched

from .protobuf import MAGIC, annotation, encoded_claim, enveloped, field

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
numbers = st.integers(1, 2**29 - 1)
values = st.one_of(
    st.tuples(st.just(2), st.binary(max_size=300)),
    st.tuples(st.just(0), st.integers(0, 2**64 - 1)),
    st.tuples(st.just(1), st.binary(min_size=8, max_size=8)),
    st.tuples(st.just(5), st.binary(min_size=4, max_size=4)),
)


def others(*known):
    """Fields of any kind, none of which has one of these numbers."""
    pairs = st.tuples(numbers.filter(lambda number: number not in known), values)
    return st.lists(pairs.map(lambda pair: field(pair[0], pair[1][1], pair[1][0])), max_size=4)


@st.composite
def claims(draw):
    """Draw the parts of a claim: around the object, around its metadata, and the fields of its metadata.

    Of each of the latter it says what it is: the key of an annotation, FINALIZERS, or None.
    """
    around = draw(others(2)), draw(others(2))
    beside = draw(others(1)), draw(others(1))
    parts = [(None, part) for part in draw(others(5, 6, 12, 14))]
    parts += [(None, field(5, "u")), (None, field(6, "7"))]
    parts += [
        (key, annotation(key, draw(texts))) for key in draw(st.lists(texts | st.just("ours"), max_size=4))
    ]
    parts += [(FINALIZERS, field(14, draw(texts))) for _ in range(draw(st.integers(0, 3)))]
    return around, beside, draw(st.permutations(parts))


FINALIZERS = 14
patches = st.fixed_dictionaries(
    {},
    optional={
        "finalizers": st.lists(texts, max_size=3),
        "annotations": st.dictionaries(st.just("ours") | texts, st.none() | texts, max_size=2),
    },
)


def built(around, beside, metadata):
    """Return a claim of these parts."""
    inner = b"".join((*beside[0], field(1, b"".join(metadata)), *beside[1]))
    return MAGIC + b"".join((*around[0], field(2, inner), *around[1]))


@given(claims(), patches)
def test_a_patch_changes_what_it_names_and_no_other_byte(parts, patch):
    """Finalizers and annotations that it names are replaced; all fields that are not known stay, in their order."""
    around, beside, metadata = parts
    annotations = patch.get("annotations", {})
    kept = [
        content
        for what, content in metadata
        if not (what in annotations if isinstance(what, str) else what and "finalizers" in patch)
    ]
    added = [annotation(key, text) for key, text in annotations.items() if text is not None]
    added += [field(14, name) for name in patch.get("finalizers", ())]

    result = patched(built(around, beside, [content for _, content in metadata]), patch)

    assert result == built(around, beside, kept + added)


@given(claims())
def test_a_claim_is_known_by_uid_and_version(parts):
    """Wherever they stand among the other fields."""
    around, beside, metadata = parts

    assert identity_of(built(around, beside, [content for _, content in metadata])) == ("u", "7")


@given(st.binary(max_size=60), st.booleans(), patches)
def test_any_bytes_are_an_object_or_malformed(content, begins, patch):
    """Nothing that a server may answer raises any other error."""
    encoded = MAGIC + content if begins else content
    for read in (identity_of, lambda encoded: patched(encoded, patch)):
        with contextlib.suppress(MalformedError):
            read(encoded)


MALFORMED = {
    "JSON": b'{"kind": "ResourceClaim"}',
    "another beginning": b"k8s1" + encoded_claim().removeprefix(MAGIC),
    "no object": MAGIC + field(1, "v1"),
    "two objects": encoded_claim() + field(2, b""),
    "no metadata": MAGIC + field(2, field(2, "spec")),
    "metadata that is a number": MAGIC + field(2, field(1, 7, kind=0)),
    "no uid": enveloped(field(6, "5")),
    "two versions": enveloped(field(5, "u") + field(6, "5") + field(6, "6")),
    "a group": enveloped(field(5, "u") + field(6, "5") + b"\x1b"),
    "an endless number": enveloped(field(5, "u") + field(6, "5") + b"\x18" + b"\xff" * 10),
}


@pytest.mark.parametrize("encoded", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_object_is_malformed(encoded):
    """It is never guessed at."""
    with pytest.raises(MalformedError):
        identity_of(encoded)
