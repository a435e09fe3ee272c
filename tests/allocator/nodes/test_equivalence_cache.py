"""What nodes have said is kept until something comes back there, or too much else is asked."""

import pytest

from dra_operator.allocator.nodes.equivalence_cache import EquivalenceCache
from dra_operator.ledger import Log


@pytest.fixture
def cache() -> EquivalenceCache:
    """CacheLimit for four questions."""
    return EquivalenceCache(Log(), maximum=4)


def test_nodes_are_asked_again_once_something_came_back(cache: EquivalenceCache) -> None:
    """By each question from where it was asked last; what came before it was first asked is of no interest."""
    cache.log.append(0b1)
    cache.get("a").open_nodes = 0
    cache.log.append(0b10)
    cache.get("b").open_nodes = 0
    cache.log.append(0b100)

    assert [cache.get(question).open_nodes for question in "aab"] == [0b110, 0b110, 0b100]


def test_questions_not_asked_for_longest_are_forgotten(cache: EquivalenceCache) -> None:
    """One that everybody asks stays, whatever others come and go."""
    common = cache.get("common")
    for number in range(20):
        cache.get(number)

        assert cache.get("common") is common
        assert len(cache._known) <= 4
