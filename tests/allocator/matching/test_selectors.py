"""What selectors say of devices together, against asking each device one selector after the other."""

from itertools import count, product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.api.read import read_object
from dra_operator.cel.device import prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_selector
from dra_operator.cel.types.environment import STORED
from dra_operator.inventory import Slice
from dra_operator.inventory.slices import Columns, read_slice

MODEL = 'device.attributes["d"].model'
EXPRESSIONS = (
    'device.driver == "d"',
    'device.driver != "d"',
    '[device.driver][size(device.driver)] == "d"',
    f'{MODEL} == "a"',
    f'{MODEL} != "a"',
    'device.attributes["d"].size > 1',
    f'device.driver == "d" && {MODEL} == "a"',
    f'{MODEL} == "a" && device.driver == "d"',
    f'device.driver == "d" || {MODEL} == "a"',
    'device.driver == "d" && !("size" in device.attributes["d"])',
    '!device.allowMultipleAllocations && device.driver == "d"',
    f'device.driver == "d" ? {MODEL} == "a" : device.attributes["d"].size > 1',
    'device.attributes["d"].?model.orValue("b") == "b" || device.driver == "d"',
    "device.",
)
DEVICES: tuple[dict[str, Any], ...] = (
    *(
        {"model": {"string": model}, "size": {"int": number}}
        for model, number in product(("a", "b"), (1, 2, 3))
    ),
    {"model": {"string": "a"}},
    {"size": {"int": 2}},
    # What cannot be read.
    {"model": {"string": "a"}, "size": {"int": 2}, "v": {"version": "one"}},
)


def slice_of(devices: list[dict[str, Any]], driver: str) -> Slice:
    """Return a slice of devices with these attributes."""
    spec = {
        "driver": driver,
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [{"name": f"d{number}", "attributes": item} for number, item in enumerate(devices)],
    }
    return read_slice(read_object({"metadata": {"name": "s"}, "spec": spec}, "ResourceSlice"), Columns())


def says(expressions: tuple[str, ...], content: Slice, index: int) -> str:
    """Return what selectors say of a device: the first that is false or fails is the end."""
    try:
        for expression in expressions:
            program = compile_selector(expression, STORED)
            if not program.match(prepare_device(content.driver, content.device(index))):
                return "no"
    except CelError:
        return "error"
    return "yes"


# Alike in what the class reads, unlike in what the request reads.
@example((EXPRESSIONS[3],), (EXPRESSIONS[5],), list(DEVICES[:2]), "d", [1, 2])
# And the other way round.
@example((EXPRESSIONS[5],), (EXPRESSIONS[3],), list(DEVICES[1:3]), "d", [1, 2])
@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(EXPRESSIONS), max_size=2).map(tuple),
    st.lists(st.sampled_from(EXPRESSIONS), max_size=2).map(tuple),
    st.lists(st.sampled_from(DEVICES), min_size=1, max_size=6),
    st.sampled_from(["d", "e"]),
    st.lists(st.integers(1, 63), min_size=1, max_size=3),
)
def test_selectors_of_class_and_request_say_what_they_say_one_after_the_other(
    of_class: tuple[str, ...],
    of_request: tuple[str, ...],
    devices: list[dict[str, Any]],
    driver: str,
    asked: list[int],
) -> None:
    """Of the devices asked about and of all that are known beside them, however often it is asked."""
    content = slice_of(devices, driver)
    expected = [says(of_class + of_request, content, index) for index in range(len(devices))]
    selection = SelectorCache(STORED).together(of_class, of_request)
    for number in asked:
        wanted = number & content.every
        known, selected, failed = selection.answer(content, wanted, Budget(Limits(), lambda: 0.0))

        assert not (wanted | selected | failed) & ~known
        for index, answer in enumerate(expected):
            if known >> index & 1:
                assert (selected >> index & 1, failed >> index & 1) == (answer == "yes", answer == "error")


def test_time_is_looked_at_before_each_device_that_may_take_long() -> None:
    """A slice may have 128 devices and a request 32 selectors; what was found out is kept."""
    slow = f"lists.range(99).all(a, lists.range(99).all(b, {MODEL} != string(a)))"
    selection = SelectorCache(STORED).together((), (slow,))
    content = slice_of([{"model": {"string": f"m{number}"}} for number in range(9)], "d")
    times = count()
    with pytest.raises(AbortedError, match="5 s"):
        selection.answer(content, content.every, Budget(Limits(seconds=5.0), lambda: next(times)))

    known, _, _ = selection.answer(content, 1, Budget(Limits(seconds=5.0), lambda: 0.0))
    assert known.bit_count() == 5
