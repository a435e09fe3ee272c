"""One limit for the answers of many: who has kept some for longest forgets them first."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator import Allocated, Allocator, Unsatisfied
from dra_operator.allocator.matching import amounts, candidates, selectors
from dra_operator.allocator.matching.room import Room, drop_older_half

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
    room = Room(maximum, size_of=len if sized else None)
    keepers: list[dict[int, str]] = [{} for _ in range(5)]
    for step, first, second in steps:
        match step:
            case "take" if second not in keepers[first]:
                answer = "answer"[: 1 + second % 3] if sized else "answer"
                room.take(keepers[first], len(answer) if sized else 1)
                keepers[first][second] = answer
            case "leave":
                room.leave(keepers[first])
                assert keepers[first] == {}
            case "forget":
                room.forget([first, second])
                assert not any({first, second} & answers.keys() for answers in keepers)

        kept = [answer for answers in keepers for answer in answers.values()]
        assert room._taken == (len("".join(kept)) if sized else len(kept)) <= maximum
        assert {id(answers) for answers in keepers if answers} == room._kept.keys()


def test_the_oldest_forget_until_half_is_left() -> None:
    """So that not every answer makes another one go."""
    room = Room(8)
    keepers: list[dict[int, str]] = [{} for _ in range(5)]
    for answers in keepers:
        for number in range(2):
            room.take(answers)
            answers[number] = "answer"

    assert [len(answers) for answers in keepers] == [0, 0, 2, 2, 2]


def test_there_is_room_for_so_many_who_keep_answers() -> None:
    """Those who were dropped and used once more keep a few answers each, and are as many as claims come and go."""
    room = Room(1000, keepers=8)
    keepers: list[dict[int, str]] = [{} for _ in range(9)]
    for answers in keepers:
        room.take(answers)
        answers[0] = "answer"

    assert [len(answers) for answers in keepers] == [0, 0, 0, 0, 1, 1, 1, 1, 1]


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
    keys = {id(key.answers): key.answers for key in allocator.candidates._keys.values()}
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


def test_what_was_forgotten_is_computed_again(unlike: Any, own: Callable[..., Any]) -> None:
    """A claim that waited through all that gets a device that comes, and others what they always got."""
    waiting = own(3)
    assert unlike.decide(waiting) == Unsatisfied()
    for number in range(10, 40):
        unlike.decide(own(number))
    unlike.slice("n5", {"name": "new", "attributes": {"serial": {"string": "x3"}}}, nodeName="n5")

    assert unlike.picks(waiting) == ["r=new"]
    assert isinstance(unlike.decide(own(7, "!=")), Allocated)


def test_answers_about_views_that_are_gone_are_dropped(unlike: Any, own: Callable[..., Any]) -> None:
    """Also those of keys that nobody finds any more, as their claims were asked about long ago."""
    unlike.allocator.candidates.maximum = 2
    for number in range(3):
        unlike.decide(own(number))
    before, _ = kept(unlike)
    for number in range(8):
        unlike.inventory.remove("ResourceSlice", f"n{number}")
    unlike.allocator.refresh()

    assert before > 0
    assert kept(unlike)[0] == 0
    assert unlike.allocator.candidates._room._kept == {}


def test_a_selector_that_is_dropped_leaves_its_room(unlike: Any, own: Callable[..., Any]) -> None:
    """Expressions that nobody uses any more do not take it from others."""
    cache = unlike.allocator.candidates.selectors
    unlike.decide(own(0))
    taken = cache._room._taken
    cache.maximum = 2
    cache.together((), ("true",))
    cache.together((), ("false",))

    assert taken == 8
    assert cache._room._taken == 0


def test_a_key_that_is_dropped_leaves_its_room(unlike: Any, own: Callable[..., Any]) -> None:
    """A change of the inventory looks at what is in use, however many claims came and went."""
    keys = unlike.allocator.candidates
    keys.maximum = 2
    keys._room.maximum = 1000
    for number in range(6):
        unlike.decide(own(number))

    assert len(keys._room._kept) <= 2


def test_of_a_full_table_the_older_half_goes_and_is_returned() -> None:
    """Whoever keeps something for those that are dropped can let go of it; what came last stays."""
    table = {"a": 1, "b": 2, "c": 3, "d": 4}

    assert (drop_older_half(table), table) == ([1, 2], {"c": 3, "d": 4})


def test_amounts_take_room_by_what_they_consist_of(scene: Any, ask: Callable[..., Any]) -> None:
    """Claims with amounts of their own, on slices of many devices of which no two have equal capacity."""
    with patch.object(amounts, "_MAX_SIZE", 100):
        fresh = Allocator(scene.inventory, scene.ledger, clock=lambda: 0.0, share_ids=str)
    scene.allocator = fresh
    for number in range(5):
        sizes = range(100 * number, 100 * number + 10)
        scene.nodes(f"n{number}")
        scene.slice(
            f"n{number}",
            *[{"name": f"d{size}", "capacity": {"memory": {"value": f"{size + 9}"}}} for size in sizes],
            nodeName=f"n{number}",
        )
    cache = fresh.candidates._amounts
    for amount in range(9, 0, -1):
        asked = ask("r", 2, capacity={"requests": {"memory": f"{amount}"}})
        scene.decide(scene.claim(asked, constraints=[{"matchAttribute": "example.com/none"}]))
        kept = [found for known in cache._known.values() for found in known.by_shape.values()]

        assert 0 < sum([len(found.kinds) for found in kept]) <= 50
        assert sum([found.size for found in kept]) == cache._room._taken <= 100
