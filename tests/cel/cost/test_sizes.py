"""Trails behave like slices of Go, which share what they consist of."""

from dra_operator.cel.cost.sizes import NOWHERE, trail


def test_a_trail_has_its_steps():
    """From the variable on."""
    assert list(trail("device").then("attributes").then("@values")) == ["device", "attributes", "@values"]
    assert trail("device").first == "device"
    assert (NOWHERE.first, len(NOWHERE)) == (None, 0)


def test_two_steps_after_a_full_array_stand_apart():
    """At lengths of a power of two there is no room, so each append has an array of its own."""
    attributes = trail("device").then("attributes")
    keys = attributes.then("@keys")
    attributes.then("@values")

    assert list(keys)[-1] == "@keys"


def test_two_steps_where_there_is_room_land_on_the_same_place():
    """The first ends with the second's step from then on, as in upstream."""
    values = trail("device").then("attributes").then("@values")
    keys = values.then("@keys")
    values.then("s")

    assert list(keys)[-1] == "s"


def test_a_step_taken_alone_changes_no_other():
    """It is a copy."""
    values = trail("device").then("attributes").then("@values")
    keys = values.then("@keys")

    assert list(values.alone("@items"))[-1] == "@items"
    assert list(keys)[-1] == "@keys"
