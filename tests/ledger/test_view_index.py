"""Which views of a pool have a device."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.inventory import bits
from dra_operator.ledger.view_index import OnlyView, ViewIndex

NAMES = "abcd"


class View:
    """A view that has nothing but its slices, and where their devices are."""

    def __init__(self, *slices: Any) -> None:
        self.slices = slices
        names = [name for content in slices for name in content.names]
        self.positions = {name: position for position, name in enumerate(names)}


@st.composite
def views(draw: st.DrawFn) -> list[Any]:
    """Return views of a few slices; in none of them two devices have one name, as a pool would be invalid."""
    slices = [
        SimpleNamespace(serial=serial, names=tuple(names))
        for serial, names in enumerate(
            draw(st.lists(st.sets(st.sampled_from(NAMES)), min_size=1, max_size=5))
        )
    ]
    found = []
    for chosen in draw(st.lists(st.sets(st.sampled_from(range(len(slices)))), min_size=1, max_size=5)):
        seen: set[str] = set()
        kept = []
        for content in (slices[number] for number in sorted(chosen)):
            if seen.isdisjoint(content.names):
                seen.update(content.names)
                kept.append(content)
        found.append(View(*kept))
    return found


@given(views(), st.data())
def test_it_knows_the_views_that_are_there(everything: list[Any], data: st.DataObject) -> None:
    """Whatever came and went before, each once, with the devices that it has."""
    index = ViewIndex()
    present: list[Any] = []
    for view in data.draw(st.lists(st.sampled_from(everything), max_size=20)):
        if view in present:
            present.remove(view)
            index.leave(view)
        else:
            present.append(view)
            index.enter(view)

    expected = {view: bits.first(len(view.positions)) for view in present if view.positions}
    assert dict(index.with_any(NAMES)) == expected
    assert sorted(
        (name, id(view), position.bit_length() - 1) for name, view, position in index.each(NAMES)
    ) == sorted((name, id(view), view.positions[name]) for view in present for name in view.positions)


def test_an_only_view_tells_where_its_devices_are() -> None:
    """Those it does not have are left out, of all together and of each."""
    view: Any = View(SimpleNamespace(serial=1, names=("a", "b", "c")))
    only = OnlyView(view)

    assert list(only.with_any(["c", "x", "a"])) == [(view, 0b101)]
    assert list(only.with_any(["x"])) == []
    assert list(only.each(["c", "x", "a"])) == [("c", view, 0b100), ("a", view, 0b001)]


def test_a_view_that_is_not_there_may_leave() -> None:
    """Nothing happens."""
    index, view = ViewIndex(), View(SimpleNamespace(serial=1, names=("a",)))
    index.leave(view)  # type: ignore[arg-type]

    assert list(index.with_any(["a"])) == []
