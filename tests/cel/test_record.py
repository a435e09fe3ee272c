"""Records: classes that only hold fields."""

import pytest

from dra_operator.cel.record import Record, replaced


class Point(Record):
    """A record with a default."""

    x: int
    y: int = 2


def test_a_record_is_made_of_its_fields():
    """By position and by name, with defaults."""
    point = Point(1)

    assert (point.x, point.y, Point(y=3, x=4).y) == (1, 2, 3)
    assert repr(point) == "Point(x=1, y=2)"


def test_a_record_has_no_other_fields():
    """It has slots."""
    with pytest.raises(AttributeError):
        Point(1).z = 3
    with pytest.raises(TypeError):
        Point()


def test_a_record_is_matched_by_its_fields():
    """In the order in which they are declared."""
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)


def test_replaced_changes_some_fields():
    """And leaves the record itself as it is."""
    point = Point(1)

    assert repr(replaced(point, y=7)) == "Point(x=1, y=7)"
    assert point.y == 2
