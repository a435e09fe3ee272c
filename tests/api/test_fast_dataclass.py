"""Dataclasses that type checkers alone keep from being changed."""

from dra_operator.api.fast_dataclass import fast_dataclass


@fast_dataclass
class Pair:
    """Two values, the second with a default."""

    first: int
    second: tuple[str, ...] = ()


def test_equal_instances_have_equal_hashes() -> None:
    """So that they are one key of a map, as frozen dataclasses are."""
    assert {Pair(1, ("a",)): "found"}[Pair(1, ("a",))] == "found"
    assert Pair(1) != Pair(2)


def test_there_is_nothing_beside_the_fields() -> None:
    """They are slotted."""
    assert not hasattr(Pair(1), "__dict__")
