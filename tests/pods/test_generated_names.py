"""Names made of a `generateName`."""

from simulation import CLASS, claim, devices, states


def generating(prefix, **metadata):
    """A claim without a name."""
    body = claim("", **metadata)
    body["metadata"] = {"generateName": prefix, **metadata}
    return body


def test_objects_get_the_names_that_they_leave_open(simulate):
    """Each another one, and the same each time."""
    bodies = [
        CLASS,
        devices("a", "b", "c"),
        *[generating("train-")] * 2,
        generating("train-", namespace="team"),
    ]
    result = simulate(*bodies)

    names = list(states(result))
    assert len(names) == 3
    assert [name[:-5] for name in names] == ["default/train-", "default/train-", "team/train-"]
    assert result.exit_code == 0
    assert states(simulate(*bodies)) == states(result)


def test_a_name_of_another_type_is_refused(simulate):
    """And not replaced by one that is made up, as if nothing stood there."""
    result = simulate(CLASS, devices("a"), claim(0, generateName="train-"))

    assert (result.exit_code, states(result)) == (2, {})
    assert "metadata.name: 0 is not text" in result.stderr
