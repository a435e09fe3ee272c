"""What selectors read, devices that are equal in it, and the limit of what is kept."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Unsatisfied
from dra_operator.allocator.matching import candidates, selectors
from dra_operator.allocator.matching.equivalence import (
    CacheLimit,
    EquivalentDevices,
    FieldSet,
    Kind,
)
from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import Selector, compile_selector
from dra_operator.inventory import Slice, bits
from recordings import recorded


def field_set(expression: str) -> FieldSet:
    """Return what a selector reads."""
    return FieldSet.parse(compile_selector(expression).reads)


def shown(expression: str, content: Slice) -> PreparedDevice:
    """Return the only device of a slice as a selector is shown it."""
    reads = field_set(expression)
    ((device, _),) = EquivalentDevices().find(reads, content, reads.key(content), 1)
    return device


def test_the_part_that_is_read_decides(slice_with) -> None:
    """Every recorded selector says the same of the part as of the whole device."""
    narrowed = 0
    for expression, driver, device in recorded_selectors():
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


def recorded_selectors() -> Iterator[tuple[str, str, dict[str, Any]]]:
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


SELECTOR = compile_selector('device.attributes["d.example"].model == "a"')
READS = FieldSet.parse(SELECTOR.reads)


def model(value: Any, **fields: Any) -> dict[str, Any]:
    """Return a device of a model, with an index that no selector here reads."""
    return {"attributes": {"model": value, "index": {"int": id(value) % 100}}, **fields}


def kinds_of(
    content: Slice, reads: FieldSet = READS, kinds: EquivalentDevices | None = None
) -> tuple[Kind, ...]:
    """Return the kinds of devices of a slice, in the order of their first devices."""
    found = (kinds or EquivalentDevices()).find(reads, content, reads.key(content), content.every)
    return tuple(sorted(found, key=lambda kind: bits.lowest(kind[1])))


def sets(content: Slice) -> list[int]:
    """Return the sets of devices of each kind."""
    return [those for _, those in kinds_of(content)]


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


OWN = 'device.attributes["gpu.example.com"].serial {} "{}"'
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 4), st.integers(0, 9)),
        st.tuples(st.just("leave"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("forget"), st.integers(0, 9), st.integers(0, 9)),
    ),
    max_size=60,
)


@given(steps=STEPS, maximum=st.integers(6, 12), sized=st.booleans())
def test_all_together_never_keep_more_than_there_is_room_for(
    steps: list[tuple[str, int, int]], maximum: int, *, sized: bool
) -> None:
    """Whatever is taken, left and forgotten, and the count of it stays true, by number or by size."""
    room = CacheLimit(maximum)
    keepers: list[dict[int, str]] = [{} for _ in range(5)]
    for step, first, second in steps:
        match step:
            case "take" if second not in keepers[first]:
                answer = "answer"[: 1 + second % 3] if sized else "answer"
                room.reserve(keepers[first], len(answer) if sized else 1)
                keepers[first][second] = answer
            case "leave":
                room.release(keepers[first])
                assert keepers[first] == {}
            case "forget" if not sized:
                room.forget([first, second])
                assert not any({first, second} & answers.keys() for answers in keepers)

        kept = [answer for answers in keepers for answer in answers.values()]
        assert room._taken == (len("".join(kept)) if sized else len(kept)) <= maximum
        assert {id(answers) for answers in keepers if answers} == room._kept.keys()


def test_when_the_room_is_used_up_all_is_forgotten() -> None:
    """So that not every answer makes another one go."""
    room = CacheLimit(8)
    keepers: list[dict[int, str]] = [{} for _ in range(5)]
    for answers in keepers:
        for number in range(2):
            room.reserve(answers)
            answers[number] = "answer"

    assert [len(answers) for answers in keepers] == [0, 0, 0, 0, 2]


# --- where it is used


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for twenty answers of keys, and for as many of selectors."""
    monkeypatch.setattr(candidates, "_MAX_ANSWERS", 20)
    monkeypatch.setattr(selectors, "_MAX_ANSWERS", 20)


@pytest.fixture
def unlike(small: None, scene: Any) -> Any:
    """Nodes with two devices each, no two of which are alike."""
    del small
    fresh = Allocator(scene.inventory, scene.ledger, clock=lambda: 0.0, share_ids=str)
    scene.allocator = fresh
    for number in range(8):
        names = (f"{number}{letter}" for letter in "ab")
        devices = [{"name": name, "attributes": {"serial": {"string": name}}} for name in names]
        scene.nodes(f"n{number}")
        scene.slice(f"n{number}", *devices, nodeName=f"n{number}")
    return scene


@pytest.fixture
def own(unlike: Any, ask: Any) -> Callable[..., Any]:
    """Make a claim with a selector of its own."""

    def make(number: int, operator: str = "==") -> Any:
        return unlike.claim(ask("r", 1, OWN.format(operator, f"x{number}")), name=f"claim-{number}")

    return make


def kept(scene: Any) -> tuple[int, int]:
    """Return how many answers keys keep, and how many selectors."""
    allocator = scene.allocator
    keys = {id(ask.answers): ask.answers for ask in allocator.candidates._asks.values()}
    keys |= allocator.candidates._room._kept
    cache = allocator.candidates.selectors
    selections = [*cache._joined.values(), *(item.selection for item in cache._known.values())]
    return sum(map(len, keys.values())), sum(len(item._by_columns) for item in selections)


def test_claims_with_selectors_of_their_own_do_not_make_answers_grow(
    unlike: Any, own: Callable[..., Any]
) -> None:
    """None of them fits, and each is decided, and explained, as if it were alone."""
    for number in range(50):
        claim = own(number)
        assert unlike.decide(claim) == Unsatisfied()
        assert unlike.explain(claim).message.startswith(
            "request r: 16 devices published, 16 in class gpu, 0 match selector #0"
        )
        assert max(kept(unlike)) <= 20
