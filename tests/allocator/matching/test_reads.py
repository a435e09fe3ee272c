"""What a selector reads of a slice."""

from collections.abc import Iterator
from typing import Any

import pytest

from dra_operator.allocator.matching import reads as reads_module
from dra_operator.allocator.matching.kinds import Kinds
from dra_operator.allocator.matching.reads import Reads
from dra_operator.cel import CelError, PreparedDevice, Selector, compile_selector, prepare_device
from dra_operator.inventory import Slice
from recordings import recorded


def reads_of(expression: str) -> Reads:
    """Return what a selector reads."""
    return Reads.of(compile_selector(expression).reads)


def shown(expression: str, content: Slice) -> PreparedDevice:
    """Return the only device of a slice as a selector is shown it."""
    reads = reads_of(expression)
    ((device, _),) = Kinds().of(reads, content, reads.key(content), 1)
    return device


DEVICE = {
    "attributes": {
        "model": {"string": "a"},
        "d.example/model": {"string": "b"},
        "other.example/model": {"string": "c"},
        "index": {"int": 1},
    },
    "capacity": {"memory": {"value": "1Gi"}, "cores": {"value": "4"}},
}
MODEL = 'device.attributes["d.example"].model == "a"'


def test_a_device_is_shown_with_what_is_read(slice_with) -> None:
    """An attribute of the driver's domain may be written with or without the domain, and both are shown."""
    device = shown(MODEL, slice_with(DEVICE))

    assert device.attributes == {"d.example/model": "a"}
    assert device.capacity == {}


def test_a_bare_name_is_not_of_another_drivers_domain(slice_with) -> None:
    """It belongs to the driver that publishes it."""
    device = shown(MODEL, slice_with(DEVICE, driver="other.example"))

    assert device.attributes == {"d.example/model": "b"}


def test_a_selector_that_looks_through_a_map_reads_everything(slice_with) -> None:
    """Which attributes it meets follows from the device."""
    expression = 'device.attributes["d.example"].exists(name, name == "x")'
    device = shown(expression, slice_with(DEVICE))

    assert set(device.attributes) == {"d.example/index", "d.example/model", "other.example/model"}
    assert set(device.capacity) == {"d.example/memory", "d.example/cores"}


def test_slices_that_differ_in_what_is_not_read_are_alike(slice_with) -> None:
    """One answer serves both."""
    other = {**DEVICE, "attributes": {**DEVICE["attributes"], "index": {"int": 2}}}
    reads = reads_of(MODEL)

    assert reads.key(slice_with(DEVICE)) == reads.key(slice_with(other))


def test_slices_that_differ_in_names_that_are_not_read_are_alike(slice_with) -> None:
    """A driver that renames an attribute leaves the answers of all who do not read it as they are."""
    renamed = {**DEVICE, "attributes": {**DEVICE["attributes"], "number": {"int": 1}}}
    del renamed["attributes"]["index"]
    reads = reads_of(MODEL)
    before, after, larger = slice_with(DEVICE), slice_with(renamed), slice_with(DEVICE, DEVICE)

    assert reads.key(before) == reads.key(after)
    assert reads.key(before) != reads.key(larger)


def test_names_that_change_leave_little_behind(slice_with, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often; and the answers of slices that are there stay."""
    monkeypatch.setattr(reads_module, "_MAX_SCHEMAS", 4)
    monkeypatch.setattr(reads_module, "_MAX_LOOKS", 2)
    reads = reads_of(MODEL)
    there = slice_with(DEVICE)
    first = reads.key(there)
    for number in range(20):
        renamed = {**DEVICE, "attributes": {**DEVICE["attributes"], f"x{number}": {"int": 1}}}
        assert reads.key(slice_with(renamed)) == first
    assert reads.key(there) == first
    for number in range(1, 20):
        reads.key(slice_with(*([DEVICE] * number)))

    assert len(reads._projections) <= 4
    assert len(reads._looks) <= 6


@pytest.mark.parametrize(
    ("expression", "attributes"),
    [
        pytest.param(MODEL, {"model": {"string": "z"}}, id="another value"),
        pytest.param(MODEL, {"d.example/model": {"string": "a"}}, id="the same value under another name"),
        pytest.param(f'device.driver == "d.example" && {MODEL}', {"model": {"int": 1}}, id="another type"),
    ],
)
def test_slices_that_differ_in_what_is_read_are_told_apart(
    slice_with, expression: str, attributes: dict[str, Any]
) -> None:
    """Each gets an answer of its own."""
    reads = reads_of(expression)
    first = slice_with({"attributes": {"model": {"string": "a"}}})

    assert reads.key(first) != reads.key(slice_with({"attributes": attributes}))


def test_one_and_true_are_told_apart(slice_with) -> None:
    """They are equal in Python."""
    reads = reads_of(MODEL)
    number, flag = (slice_with({"attributes": {"model": value}}) for value in ({"int": 1}, {"bool": True}))

    assert reads.key(number) != reads.key(flag)


def test_the_part_that_is_read_decides(slice_with) -> None:
    """Every recorded selector says the same of the part as of the whole device."""
    narrowed = 0
    for expression, driver, device in selectors():
        try:
            program = compile_selector(expression)
            content = slice_with(device, driver=driver)
        except (CelError, ValueError):
            continue
        if content.unreadable:
            continue
        part, whole = shown(expression, content), prepare_device(content.driver, content.device(0))
        narrowed += part.attributes != whole.attributes
        assert said(program, part) == said(program, whole), expression
    assert narrowed > 100


def selectors() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield recorded selectors, each with the driver and the device it was asked about."""
    for row in recorded("cel_selectors"):
        device = dict(row["device"])
        yield row["expression"], device.pop("driver", ""), device


def said(program: Selector, device: PreparedDevice) -> object:
    """Return what a selector says of a device, an error included."""
    try:
        return program.match(device)
    except CelError as error:
        return str(error)


def test_schemas_are_not_remembered_without_end(slice_with) -> None:
    """Drivers may publish ever new names; what was forgotten is found out again, and is the same."""
    reads = reads_of(MODEL)
    first = slice_with(DEVICE)
    key = reads.key(first)
    for number in range(1100):
        reads.key(slice_with({"attributes": {f"a{number}": {"int": number}}}))

    assert reads.key(first) == key
    assert len(reads._projections) <= 1024
