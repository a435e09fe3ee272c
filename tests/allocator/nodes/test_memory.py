"""What nodes have said is kept until something comes back there, or too much else is asked."""

import pytest

from dra_operator.allocator.nodes.memory import Memory
from dra_operator.ledger import Log


@pytest.fixture
def memory() -> Memory:
    """CacheLimit for four questions."""
    return Memory(Log(), maximum=4)


def test_nodes_are_asked_again_once_something_came_back(memory: Memory) -> None:
    """By each question from where it was asked last; what came before it was first asked is of no interest."""
    memory.log.append(0b1)
    memory.get("a").maybe = 0
    memory.log.append(0b10)
    memory.get("b").maybe = 0
    memory.log.append(0b100)

    assert [memory.get(question).maybe for question in "aab"] == [0b110, 0b110, 0b100]


def test_questions_not_asked_for_longest_are_forgotten(memory: Memory) -> None:
    """One that everybody asks stays, whatever others come and go."""
    common = memory.get("common")
    for number in range(20):
        memory.get(number)

        assert memory.get("common") is common
        assert len(memory._known) <= 4
