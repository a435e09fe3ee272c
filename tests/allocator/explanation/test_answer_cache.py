"""Answers are kept while what they depend on stays, and no more of them than there is room for."""

import pytest

from dra_operator.allocator.explanation.answer_cache import AnswerCache, never


def test_all_answers_go_when_the_version_changes() -> None:
    """What is made then is kept again."""
    versions = [1]
    cache = AnswerCache[str](8, lambda: versions[0])
    cache.put("a", "old")
    versions[0] = 2

    assert cache.get("a") is None
    assert cache.find("a", lambda: "new") == cache.find("a", lambda: "newer") == "new"


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ({"a": 1, "b": 1, "c": 1}, "abc"),
        ({"a": 2, "b": 2, "c": 2, "d": 2, "e": 1}, "de"),
        ({"a": 1, "b": 100}, "b"),
    ],
    ids=["all while there is room", "the newest, until half is free", "the last one, however large"],
)
def test_what_was_kept_for_longest_goes_first(sizes: dict[str, int], kept: str) -> None:
    """An answer takes the room that it says."""
    cache = AnswerCache[str](8, never)
    for name, size in sizes.items():
        cache.put(name, name, size)

    assert "".join(name for name in sizes if cache.get(name)) == kept


def test_an_answer_takes_the_place_of_the_one_before() -> None:
    """However often: what is kept does not grow by it."""
    cache = AnswerCache[int](4, never)
    cache.put("other", 1)
    for number in range(100):
        cache.put("asked", number)

    assert (cache.get("other"), cache.get("asked")) == (1, 99)
