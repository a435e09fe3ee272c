"""What calls have cost."""

from dra_operator.cel.cost.prices import traversal_cost


def test_a_list_that_stands_in_another_many_times_is_passed_over_once():
    """It costs as much as if it were passed over each time, and an evaluation cannot take minutes to learn that."""
    numbers = (1,) * 100_000
    mixed = ("a", *numbers)

    assert traversal_cost((numbers,) * 100_000) == 10**10
    assert traversal_cost((mixed,) * 100_000) == 100_000 * traversal_cost(mixed)
