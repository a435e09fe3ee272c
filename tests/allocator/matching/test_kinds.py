"""Which devices of a slice look the same to a selector."""

from typing import Any

import pytest

from dra_operator.allocator.matching.kinds import Kind, Kinds
from dra_operator.allocator.matching.reads import Reads
from dra_operator.cel import CelError, compile_selector
from dra_operator.inventory import Slice, bits

MODEL = compile_selector('device.attributes["d.example"].model == "a"')
READS = Reads.of(MODEL.reads)


def model(value: Any, **fields: Any) -> dict[str, Any]:
    """Return a device of a model, with an index that no selector here reads."""
    return {"attributes": {"model": value, "index": {"int": id(value) % 100}}, **fields}


def kinds_of(content: Slice, reads: Reads = READS, kinds: Kinds | None = None) -> tuple[Kind, ...]:
    """Return the kinds of devices of a slice, in the order of their first devices."""
    found = (kinds or Kinds()).of(reads, content, reads.key(content), content.every)
    return tuple(sorted(found, key=lambda kind: bits.lowest(kind[1])))


def sets(content: Slice) -> list[int]:
    """Return the sets of devices of each kind."""
    return [those for _, those in kinds_of(content)]


def test_devices_equal_in_what_is_read_are_one_kind(slice_with) -> None:
    """However else they differ."""
    content = slice_with(model({"string": "a"}), model({"string": "b"}), model({"string": "a"}))

    assert sets(content) == [0b101, 0b010]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(model({"int": 1}), model({"bool": True}), id="another type"),
        pytest.param(model({"string": "a"}), {"attributes": {}}, id="missing"),
        pytest.param(
            model({"string": "a"}), model({"string": "a"}, allowMultipleAllocations=True), id="shareable"
        ),
    ],
)
def test_devices_that_can_be_told_apart_are_two_kinds(
    slice_with, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """One and true are equal in Python; sharing is seen by selectors."""
    assert sets(slice_with(first, second)) == [0b01, 0b10]


def test_devices_of_slices_that_are_alike_are_made_ready_once(slice_with) -> None:
    """As far as they are read."""
    kinds = Kinds()
    contents = [slice_with({"attributes": {"model": {"string": "a"}, "index": {"int": i}}}) for i in (1, 2)]
    (first, _), (second, _) = (kinds_of(content, kinds=kinds)[0] for content in contents)

    assert first is second


def test_a_column_under_another_name_is_another_kind(slice_with) -> None:
    """Attributes with equal values share a column, and a selector reads one of them by its name."""
    kinds = Kinds()
    content = slice_with({"attributes": {"model": {"string": "a"}, "brand": {"string": "a"}}})
    for name in ("model", "brand"):
        reads = Reads.of(compile_selector(f'device.attributes["d.example"].{name} == "a"').reads)
        ((device, _),) = kinds_of(content, reads, kinds)
        assert list(device.attributes) == [f"d.example/{name}"]


def test_a_bare_name_is_of_the_domain_of_its_driver(slice_with) -> None:
    """Two drivers may publish the same column; a selector that reads the domain of one is told of that one alone."""
    kinds = Kinds()
    device = {"attributes": {"model": {"string": "a"}}}
    other = Reads.of(compile_selector('device.attributes["other.example"].model == "a"').reads)
    ((ours, _),) = kinds_of(slice_with(device), kinds=kinds)
    ((theirs, _),) = kinds_of(slice_with(device, driver="other.example"), other, kinds)

    assert MODEL.match(ours)
    with pytest.raises(CelError):
        MODEL.match(theirs)


def test_a_device_that_cannot_be_read_fails_whatever_is_read(slice_with) -> None:
    """Its unknown value need not be one that the selector reads."""
    content = slice_with(model({"string": "a"}), model({"string": "a"}))
    broken = slice_with(
        model({"string": "a"}), {"attributes": {"model": {"string": "a"}, "index": {"version": "one"}}}
    )
    found = kinds_of(broken)

    assert sets(content) == [0b11]
    assert sorted(those for _, those in found) == [0b01, 0b10]
    with pytest.raises(CelError):
        MODEL.match(next(device for device, those in found if those == 0b10))


def test_only_devices_that_are_asked_about_are_made_ready(slice_with) -> None:
    """With those that look like them; the rest follows when it is asked about."""
    kinds = Kinds()
    content = slice_with(*(model({"string": text}) for text in "abab"))
    asked = [
        list(kinds.of(READS, content, READS.key(content), wanted)) for wanted in (0b0001, 0b0100, 0b1000)
    ]

    assert [[those for _, those in found] for found in asked] == [[0b0101], [0b0101], [0b0101, 0b1010]]


def test_too_many_kinds_are_forgotten(slice_with) -> None:
    """What is asked for again is made again, and is the same."""
    kinds = Kinds(maximum=1)
    contents = [slice_with(model({"string": text}), model({"string": text + "x"})) for text in "abc"]
    first = [those for _, those in kinds_of(contents[0], kinds=kinds)]
    for content in contents:
        kinds_of(content, kinds=kinds)

    assert [those for _, those in kinds_of(contents[0], kinds=kinds)] == first
    assert len(kinds._known) <= 2


def test_kinds_that_hold_more_values_take_more_room(slice_with) -> None:
    """A selector that reads all of a device keeps fewer of them than one that reads a single attribute."""
    contents = [slice_with(model({"string": text})) for text in "abcdefgh"]
    kept = []
    for reads in (READS, Reads(whole=True)):
        kinds = Kinds(maximum=35)
        for content in contents:
            kinds_of(content, reads, kinds)
        kept.append(len(kinds._known))

    assert kept == [8, 2]
