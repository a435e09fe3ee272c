"""Values of derived attributes, kept by what their expressions read."""

from typing import Any

import pytest

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.matching import derived as derived_module
from dra_operator.allocator.matching.derived import DerivedAttributes, Values
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel import STORED

ROOT = 'device.attributes["d.example"].root'
EVERY = 0b111


def at(root: int, **attributes: Any) -> dict[str, Any]:
    """Return a device at a root."""
    return {"attributes": {"root": {"int": root}, **attributes}}


@pytest.fixture
def derived() -> DerivedAttributes:
    """Values of nothing yet."""
    return DerivedAttributes(SelectorCache(STORED))


@pytest.fixture
def budget() -> Budget:
    """A budget that lasts."""
    return Budget(Limits(), lambda: 0.0)


def test_each_device_has_a_value(slice_with: Any, derived: DerivedAttributes, budget: Budget) -> None:
    """Those with the same value are one set."""
    content = slice_with(at(1), at(2), at(1))

    assert derived.values(f"{ROOT} + 10", content, EVERY, budget) == Values(
        known=0b111, by_value={AttributeValue("int", 11): 0b101, AttributeValue("int", 12): 0b010}
    )


def test_slices_that_differ_in_what_is_not_read_share_values(
    slice_with: Any, derived: DerivedAttributes, budget: Budget
) -> None:
    """They are computed once for a cluster of nodes of one kind."""
    first, second = (slice_with(at(1, uuid={"string": text})) for text in "ab")

    assert derived.values(ROOT, first, EVERY, budget) is derived.values(ROOT, second, EVERY, budget)


def test_only_what_is_asked_about_is_computed(
    slice_with: Any, derived: DerivedAttributes, budget: Budget
) -> None:
    """A device that nobody could take does not cost an evaluation."""
    content = slice_with(at(1), at(2))

    assert derived.values(ROOT, content, 0b10, budget).by_value == {AttributeValue("int", 2): 0b10}
    assert derived.values(ROOT, content, 0b01, budget).known == 0b11


def test_a_device_that_fails_leaves_the_others_their_values(
    slice_with: Any, derived: DerivedAttributes, budget: Budget
) -> None:
    """And the error names the device and what it lacks."""
    content = slice_with(at(1), {"attributes": {}})

    assert derived.values(ROOT, content, 0b11, budget).failed == 0b10
    assert derived.value("r", "d/x", ROOT, content, 0, budget) == AttributeValue("int", 1)
    with pytest.raises(
        FatalError, match=r"request r: derived attribute d/x fails on device d.example/p/d1: .*root"
    ):
        derived.value("r", "d/x", ROOT, content, 1, budget)


def test_an_expression_that_does_not_compile_has_no_values(
    slice_with: Any, derived: DerivedAttributes, budget: Budget
) -> None:
    """On no device, and the error names none."""
    content = slice_with(at(1))

    assert derived.values("device.", content, 1, budget).failed == 1
    with pytest.raises(FatalError, match=r"request r: derived attribute d/x (?!fails on device)"):
        derived.value("r", "d/x", "device.", content, 0, budget)


def test_a_device_that_cannot_be_read_has_no_value(
    slice_with: Any, derived: DerivedAttributes, budget: Budget
) -> None:
    """Whatever the expression reads."""
    content = slice_with(at(1, firmware={"version": "one"}))

    assert derived.values("1", content, EVERY, budget).failed == 1


def test_time_that_is_used_up_ends_it(
    slice_with: Any, derived: DerivedAttributes, ticking_budget: Budget
) -> None:
    """What was computed before stays."""
    content = slice_with(at(1), at(2), at(3))
    with pytest.raises(AbortedError):
        derived.values(ROOT, content, EVERY, ticking_budget)

    later = Budget(Limits(seconds=None), lambda: 0.0)
    assert derived.values(ROOT, content, 0, later).known == 0b001


@pytest.fixture
def ticking_budget() -> Budget:
    """A budget that lasts for one look at the clock."""
    seconds = iter(range(10))
    return Budget(Limits(seconds=1.5), lambda: next(seconds))


def test_expressions_that_read_the_same_share_devices(slice_with: Any, budget: Budget) -> None:
    """Among each other, and with selectors."""
    selectors = SelectorCache(STORED)
    derived = DerivedAttributes(selectors)
    content = slice_with(at(1), at(2))
    selectors.get(f"{ROOT} == 1").ask(content, EVERY, budget)
    for number in range(3):
        derived.values(f"{ROOT} + {number}", content, EVERY, budget)

    assert len(selectors.kinds._known) == 1


@pytest.mark.parametrize("expression", ["device.", f"lists.range({ROOT})[0]"])
def test_what_fails_or_may_take_long_is_not_asked_ahead(derived: DerivedAttributes, expression: str) -> None:
    """A device that is never reached costs nothing."""
    assert not derived.can_be_asked_ahead(expression)
    assert derived.can_be_asked_ahead(ROOT)


def test_many_values_are_forgotten(
    slice_with: Any, derived: DerivedAttributes, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for again is computed again, and is the same."""
    derived._room.maximum = 8
    contents = [slice_with(at(number), at(-number)) for number in range(1, 30)]
    first = derived.values(ROOT, contents[0], EVERY, budget)
    for content in contents:
        derived.values(ROOT, content, EVERY, budget)

    assert len(derived._expressions[ROOT].values) < 10
    assert derived.values(ROOT, contents[0], EVERY, budget) == first


def test_too_many_expressions_are_forgotten(
    slice_with: Any, derived: DerivedAttributes, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for again is computed again, and is the same."""
    monkeypatch.setattr(derived_module, "_MAX_EXPRESSIONS", 4)
    content = slice_with(at(1))
    first = derived.values(ROOT, content, EVERY, budget)
    for number in range(20):
        derived.values(f"{number}", content, EVERY, budget)

    assert len(derived._expressions) <= 4
    assert derived.values(ROOT, content, EVERY, budget) == first
