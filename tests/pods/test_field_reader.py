"""Fields that are read one by one: what cannot be read is left out and reported."""

import pytest

from dra_operator.pods.field_reader import FieldReader


def reader(body=None):
    """A reader of a pod."""
    return FieldReader("Pod", body or {"metadata": {"name": "p", "namespace": "team"}})


@pytest.mark.parametrize(
    ("read", "owner", "expected", "problem"),
    [
        ("part", {"f": {"a": 1}}, {"a": 1}, ""),
        ("part", {}, {}, ""),
        ("part", {"f": None}, {}, ""),
        ("part", {"f": [1]}, {}, "[1] is not an object"),
        ("text", {"f": "a"}, "a", ""),
        ("text", {"f": None}, "", ""),
        ("text", {"f": 1}, "", "1 is not text: write it in quotes"),
        ("flag", {"f": False}, False, ""),
        ("flag", {}, None, ""),
        ("flag", {"f": "true"}, None, '"true" is not true or false: write it without quotes'),
        ("whole", {"f": 3}, 3, ""),
        ("whole", {"f": True}, None, "true is not a whole number"),
        ("whole", {"f": "3"}, None, '"3" is not a whole number: write it without quotes'),
        ("items", {"f": ["a", "b"]}, ["a", "b"], ""),
        ("items", {}, [], ""),
        ("items", {"f": ["a", 1]}, [], '["a", 1] is not a list of texts'),
        ("amount", {"f": "1500m"}, 1500, ""),
        ("amount", {}, 0, ""),
        ("amount", {"f": "much"}, 0, '"much" is not a quantity such as 16Gi or 500m'),
    ],
)
def test_a_field(read, owner, expected, problem):
    """Absent and null are the same; of another type it counts as absent, and is named."""
    fields = reader()

    assert getattr(fields, read)(owner, "f", "spec") == expected
    assert [str(each) for each in fields.problems] == (
        [f'Pod "team/p": spec.f: {problem}'] if problem else []
    )


def test_parts_of_a_list_have_paths():
    """Those that are no objects are left out."""
    fields = reader()

    assert [*fields.parts({"f": [{"a": 1}, None, 2]}, "f", "")] == [("f[0]", {"a": 1})]
    assert [*fields.parts({"f": {}}, "f", "")] == []
    assert [str(each) for each in fields.problems] == [
        'Pod "team/p": f[2]: 2 is not an object',
        'Pod "team/p": f: {} is not a list',
    ]


def test_maps_lose_what_cannot_be_read():
    """And keep the rest; amounts are thousandths, rounded up."""
    fields = reader()

    assert fields.texts({"f": {"a": "1", "b": 2, "c": None}}, "f", "m") == {"a": "1"}
    assert fields.amounts({"f": {"cpu": "1", "memory": 1, "x": "1n", "y": "-"}}, "f", "m") == {
        "cpu": 1000,
        "memory": 1000,
        "x": 1,
        "y": 0,
    }
    assert fields.amounts({"f": {"cpu": [1]}}, "f", "m") == {}
    assert [each.field for each in fields.problems] == ['m.f["b"]', 'm.f["cpu"]']
