"""What is kept of counting: enough to count only what changed, and no more than there is room for."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator import Reason
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.explanation import census, explain, tally
from dra_operator.allocator.explanation.census import Group
from dra_operator.allocator.explanation.parts import Part, Parts, Refused
from dra_operator.allocator.explanation.tally import TallyMaker
from dra_operator.allocator.plan import Alternative

NODES = 6
SERIAL = 'device.attributes["gpu.example.com"].serial {} "{}"'


def part(published: int = 8, *details: str) -> Part:
    """Return a part with details."""
    in_class = Refused(Reason.CLASS_MATCHES_NO_DEVICE, len(details), details, (1,) * len(details), None)
    return Part(published, 0, 8, 0, 0, 0, in_class, (), (), (), (0,), (0,), 0, 0, len(details))


def parts_of(*items: Part) -> dict[Group, Part]:
    """Return parts, each of a group of its own."""
    return {Group(): item for item in items}


def test_parts_are_kept_by_what_was_asked_for() -> None:
    """And nothing is known of anything else."""
    kept, parts = Parts(), parts_of(part())
    kept.keep("asked", parts)

    assert kept.of("asked") == parts
    assert kept.of("other") == {}


def test_what_was_not_asked_about_for_longest_goes_first() -> None:
    """Until half of it is left, so that not every new one drops another."""
    kept = Parts(maximum=12)
    for asked in "abcde":
        kept.keep(asked, parts_of(part(), part()))
        kept.keep("a", kept.of("a"))

    assert [asked for asked in "abcde" if kept.of(asked)] == ["a", "e"]


def test_details_take_room() -> None:
    """A part with ten of them counts eleven times as much as one without."""
    kept = Parts(maximum=20)
    kept.keep("a", parts_of(part(8, *"0123456789")))
    kept.keep("b", parts_of(part()))
    before = bool(kept.of("a"))
    kept.keep("c", parts_of(part(8, *"0123456789")))

    assert (before, bool(kept.of("a")), bool(kept.of("c"))) == (True, False, True)


def test_what_is_counted_anew_takes_the_place_of_what_was_known() -> None:
    """However often: what is kept does not grow by it."""
    kept = Parts(maximum=8)
    kept.keep("other", parts_of(part()))
    for _ in range(100):
        kept.keep("asked", parts_of(part(), part()))

    assert len(kept.of("other")) == 1
    assert len(kept.of("asked")) == 2


def test_the_last_one_is_kept_however_large() -> None:
    """It would have to be counted again at once."""
    kept = Parts(maximum=1)
    kept.keep("a", parts_of(part()))
    kept.keep("b", parts_of(part(), part(), part()))

    assert (len(kept.of("a")), len(kept.of("b"))) == (0, 3)


def test_equal_parts_are_one_object() -> None:
    """Other numbers make another one, and details hardly ever agree, so they are not looked for."""
    kept = Parts()
    first = kept.share(part())

    assert kept.share(part()) is first
    assert kept.share(part(9)) is not first
    assert kept.share(part(8, "text")) is not kept.share(part(8, "text"))


# --- in explanations


@pytest.fixture
def unlike(scene: Any) -> Any:
    """Nodes with two devices each, no two of which are alike, all of them in use."""
    for number in range(NODES):
        names = (f"{number}{letter}" for letter in "ab")
        devices = [{"name": name, "attributes": {"serial": {"string": name}}} for name in names]
        scene.nodes(f"n{number}")
        scene.slice(f"n{number}", *devices, nodeName=f"n{number}")
        for device in devices:
            scene.hold(f"holder-{device['name']}", device["name"], f"n{number}")
    return scene


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pools that were counted for somebody."""
    pools: list[str] = []
    count = TallyMaker._count

    def counting(self: TallyMaker, alternative: Any, record: Any, budget: Any) -> Part:
        pools.append(record.pool.key[1])
        return count(self, alternative, record, budget)

    monkeypatch.setattr(TallyMaker, "_count", counting)
    return pools


@pytest.fixture
def explain_own(unlike: Any, ask: Any) -> Callable[[int], str]:
    """Return why a claim waits that has a selector of its own; `==` refuses all devices, `!=` none."""

    def told(number: int) -> str:
        operator = ("!=", "==")[number % 2]
        claim = unlike.claim(ask("r", 1, SERIAL.format(operator, f"x{number}")), name=f"claim-{number}")
        message: str = unlike.explain(claim).message
        return message

    return told


def maker(scene: Any) -> TallyMaker:
    """Return what counts for the explanations of a scene."""
    made: TallyMaker = scene.allocator._explainer.tallies
    return made


def test_only_pools_that_changed_are_counted_again(
    unlike: Any, explain_own: Callable[[int], str], counted: list[str]
) -> None:
    """Of the others the parts are known."""
    explain_own(0)
    assert len(counted) == NODES
    counted.clear()
    unlike.ledger.remove("team", "holder-3a")
    unlike.hold("other", "3a", "n3")
    explain_own(0)

    assert counted == ["n3"]


def test_parts_of_groups_that_are_gone_are_dropped(unlike: Any, explain_own: Callable[[int], str]) -> None:
    """A slice that comes again and again with another device leaves nothing behind."""
    for number in range(20):
        unlike.slice("n0", {"name": "0a", "attributes": {"serial": {"string": f"y{number}"}}}, nodeName="n0")
        explain_own(1)
    (parts,) = [kept for kept, _ in maker(unlike)._parts._known.values()]

    assert len(parts) == NODES


def test_claims_that_say_the_same_of_all_pools_share_their_parts(
    unlike: Any, explain_own: Callable[[int], str]
) -> None:
    """All devices are in use, on every node, for every one of them."""
    for number in range(0, 20, 2):
        assert explain_own(number).endswith(
            "12 match selector #0, 12 in use by 12 claims (holder-0a, holder-0b, holder-1a, 9 more)"
        )
    parts = [part for kept, _ in maker(unlike)._parts._known.values() for part in kept.values()]

    assert len(parts) == 10 * NODES
    assert len({id(part) for part in parts}) == 1


def test_claims_with_selectors_of_their_own_do_not_make_it_grow(
    unlike: Any, explain_own: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept for them has an end, and what is dropped is counted again when it is asked about."""
    monkeypatch.setattr(tally, "_MAX_TOLD", 30)
    first = [explain_own(number) for number in range(2)]
    maker(unlike)._parts.maximum = 60
    for number in range(100):
        explain_own(number)
        made = maker(unlike)
        assert sum(size for _, size in made._parts._known.values()) == made._parts._size <= 60
        assert sum(map(len, made.told.values())) <= 32
    unlike.hold("other", "0a", "n9")

    assert [explain_own(number) for number in range(2)] == first


def test_what_failing_selectors_are_told_has_an_end(
    unlike: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many claims bring one of their own, and however many devices each fails on."""
    monkeypatch.setattr(tally, "_MAX_TOLD", 30)
    serial, other = SERIAL.format("==", "x"), 'device.attributes["gpu.example.com"].other'
    for number in range(50):
        unlike.explain(unlike.claim(ask("r", 1, f"{serial} || {other} == {number}"), name=f"claim-{number}"))

        assert 1 <= sum(map(len, maker(unlike).told.values())) <= 32


def test_explanations_do_not_heap_up_while_nothing_changes(
    unlike: Any, explain_own: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims that fit nowhere come and go, each with a selector of its own, and change nothing that is in use."""
    monkeypatch.setattr(explain, "_MAX_KNOWN", 4)
    told = [explain_own(number) for number in range(10)]

    assert len(unlike.allocator._explainer._known) <= 4
    assert [explain_own(number) for number in range(10)] == told


def test_tallies_are_made_once_for_all_namespaces_and_do_not_heap_up(
    unlike: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims of many namespaces ask the same; those with selectors of their own leave no more than has room."""
    made: list[Alternative] = []
    make = TallyMaker.make

    def making(self: TallyMaker, alternative: Alternative, budget: Any) -> tally.Tally:
        made.append(alternative)
        return make(self, alternative, budget)

    monkeypatch.setattr(TallyMaker, "make", making)
    for number in range(5):
        unlike.explain(unlike.claim(ask(), namespace=f"team-{number}"))
    assert len(made) == 1
    explainer = unlike.allocator._explainer
    monkeypatch.setattr(explain, "_MAX_TALLIED", 100)
    for number in range(20):
        unlike.explain(unlike.claim(ask("r", 1, SERIAL.format("!=", f"x{number}"))))
        sizes = [item.size for item in explainer._tallies.values()]

        assert 0 < sum(sizes) == explainer._tallied <= 100


def test_what_was_counted_before_the_time_was_up_is_kept(
    unlike: Any, explain_own: Callable[[int], str], counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that an explanation that takes too long gets further each time."""
    count = TallyMaker._count

    def late(self: TallyMaker, alternative: Any, record: Any, budget: Any) -> Part:
        if len(counted) == 2:
            raise AbortedError("the time is up")
        return count(self, alternative, record, budget)

    monkeypatch.setattr(TallyMaker, "_count", late)
    assert "the time is up" in explain_own(0)
    monkeypatch.setattr(TallyMaker, "_count", count)

    assert "12 in use by 12 claims" in explain_own(0)
    assert sorted(counted) == [f"n{number}" for number in range(NODES)]


def test_owners_of_many_sets_of_devices_are_not_all_kept(
    unlike: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim may select other devices of a pool, and each set of them has owners."""
    monkeypatch.setattr(census, "_MAX_OWNERS", 2)
    device = 'device.attributes["gpu.example.com"].serial'
    told = [
        unlike.explain(unlike.claim(ask("r", 1, expression), name=f"claim-{number}")).message
        for number, expression in enumerate(
            [f'{device}.endsWith("a")', f'{device}.endsWith("b")', f'{device} != ""', f'{device} == "1a"']
        )
    ]
    groups = maker(unlike)._census.grouping(frozenset(["gpu.example.com/serial"])).groups.values()
    memories = [item._owners for group in groups for item in (group, *group.members.values()) if item._owners]

    assert [text.rpartition(" (")[0].rpartition(", ")[2] for text in told] == [
        "6 in use by 6 claims",
        "6 in use by 6 claims",
        "12 in use by 12 claims",
        "1 in use by 1 claim",
    ]
    assert memories
    assert max(map(len, memories)) <= 2
