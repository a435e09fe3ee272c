"""Which devices of a view a key admits, and which of them somebody had to ask about."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from dra_operator.allocator import Failed, Limits, SearchMode, Unsatisfied
from dra_operator.allocator.matching.candidates import AskContent
from dra_operator.allocator.matching.selectors import SelectorAnswers, SelectorCache
from dra_operator.api.quantity import parse_quantity
from dra_operator.cel import STORED, PreparedDevice, Selector
from opcodes import opcodes

UUID = 'device.attributes["gpu.example.com"].uuid'


class Watched:
    """A selector that remembers which devices it was asked about."""

    def __init__(self, program: Selector, asked: list[Any]) -> None:
        self.reads, self.may_take_long = program.reads, program.may_take_long
        self.match = lambda device: asked.append(seen(device)) or program.match(device)


def seen(device: PreparedDevice) -> Any:
    """Return the value that tells a device here from others."""
    return device.attributes.get("gpu.example.com/uuid")


@pytest.fixture
def asked(scene: Any) -> Iterator[list[Any]]:
    """The devices that selectors are evaluated for, in order."""
    devices: list[Any] = []
    get = scene.allocator.candidates.selectors.get

    def watched(expression: str) -> SelectorAnswers:
        found = get(expression)
        program: Any = found.program and Watched(found.program, devices)
        return replace(found, program=program)

    with patch.object(type(scene.allocator.candidates.selectors), "get", lambda _, text: watched(text)):
        yield devices


def gpus(*uuids: str, **fields: Any) -> list[dict[str, Any]]:
    """Return GPUs that differ in a value."""
    return [{"name": f"gpu-{uuid}", "attributes": {"uuid": {"string": uuid}}, **fields} for uuid in uuids]


def test_devices_in_use_are_not_evaluated(scene: Any, ask: Any, asked: list[Any]) -> None:
    """A claim that wants any other number of free ones needs no answer about them."""
    scene.nodes("n")
    scene.slice("s", *gpus(*"abcd"), nodeName="n")
    for uuid in "ac":
        scene.hold(f"holder-{uuid}", f"gpu-{uuid}", "n")

    assert scene.picks(scene.claim(ask("r", 1, f'{UUID} != "x"'))) == ["r=gpu-b"]
    assert asked == ["b", "d"]


def test_a_device_that_comes_back_is_evaluated_then(scene: Any, ask: Any, asked: list[Any]) -> None:
    """Once: what was found out about the others stays."""
    scene.nodes("n")
    scene.slice("s", *gpus(*"abc"), nodeName="n")
    scene.hold("holder", "gpu-b", "n")
    claim = scene.claim(ask("r", 1, f'{UUID} == "b"'))
    before = scene.picks(claim)
    scene.ledger.remove("team", "holder")

    assert (before, scene.picks(claim)) == (None, ["r=gpu-b"])
    assert asked == ["a", "c", "b"]


def test_all_devices_are_evaluated_for_whom_use_does_not_matter(
    scene: Any, ask: Any, asked: list[Any]
) -> None:
    """A request for all devices is refused by one that is in use, so it has to know of it."""
    scene.nodes("n")
    scene.slice("s", *gpus(*"abc"), nodeName="n")
    scene.hold("holder", "gpu-b", "n")
    chosen = f'{UUID} != "x"'
    first = scene.picks(scene.claim(ask("r", 1, chosen)))
    every = scene.picks(scene.claim(ask("r", 1, chosen, allocationMode="All")))

    assert (first, every) == (["r=gpu-a"], None)
    assert asked == ["a", "c", "b"]


def test_a_device_in_use_on_which_a_selector_fails_is_no_error(scene: Any, ask: Any) -> None:
    """Nobody asks about it: whoever is served by a free device is served."""
    scene.nodes("n")
    scene.slice("s", {"name": "plain"}, *gpus("a"), nodeName="n")
    scene.hold("holder", "plain", "n")

    assert scene.picks(scene.claim(ask("r", 1, f'{UUID} == "a"'))) == ["r=gpu-a"]


def test_a_device_whose_taints_are_not_tolerated_stays_out_when_it_is_asked_about_later(
    scene: Any, ask: Any
) -> None:
    """Whichever devices were known before."""
    scene.nodes("n")
    taints = [{"key": "k", "effect": "NoSchedule"}]
    scene.slice("s", *gpus("a"), *gpus("b", taints=taints), *gpus("c"), nodeName="n")
    for uuid in "bc":
        scene.hold(f"holder-{uuid}", f"gpu-{uuid}", "n")
    claim = scene.claim(ask("r", 2, f'{UUID} != "x"'))
    before = scene.picks(claim)
    for uuid in "bc":
        scene.ledger.remove("team", f"holder-{uuid}")

    assert (before, scene.picks(claim)) == (None, ["r=gpu-a", "r=gpu-c"])


@pytest.mark.parametrize("searching", [*SearchMode])
def test_taints_keep_nobody_away_where_their_feature_is_switched_off(
    scene_with: Any, ask: Any, searching: SearchMode
) -> None:
    """Whichever search is asked."""
    scene = scene_with(device_taints=False)
    scene.allocator.searching = searching
    scene.nodes("n")
    scene.slice("s", *gpus("a", taints=[{"key": "k", "effect": "NoSchedule"}]), nodeName="n")

    assert scene.picks(scene.claim(ask())) == ["r=gpu-a"]


def test_a_key_remembers_few_taints_however_many_there_are(scene: Any, ask: Any) -> None:
    """Thousands of claims may each have tolerations of their own, and each device a taint with a value of its own."""
    names = [f"n{number:02d}" for number in range(40)]
    scene.nodes(*names)
    for name in names:
        devices = [
            {
                "name": f"d{index}",
                "taints": [{"key": "k", "value": f"{name}-{index}", "effect": "NoSchedule"}],
            }
            for index in range(64)
        ]
        scene.slice(f"s-{name}", *devices, nodeName=name)

    assert scene.picks(scene.claim(ask("r", 1))) is None
    (key,) = scene.allocator.candidates._keys.values()
    assert 0 < len(key.ask.tolerated) <= 256


@pytest.mark.parametrize("joined_before", [False, True])
@pytest.mark.parametrize(
    ("uuid", "others", "kept"), [("of {}", 0, 16), ("one for all", 0, 1), ("of {}", 1, 40)]
)
def test_answers_are_kept_where_they_can_serve_again(
    scene: Any, ask: Any, uuid: str, others: int, kept: int, *, joined_before: bool
) -> None:
    """Where slices are alike, or several keys ask: else to keep an answer takes longer than to ask again.

    It makes no difference whether the selectors were compiled before anybody asked.
    """
    names = [f"n{number:02d}" for number in range(40)]
    scene.nodes(*names)
    for name in names:
        scene.slice(f"s-{name}", *gpus(uuid.format(name)), nodeName=name)
    expression = f'{UUID} == "none"'
    if joined_before:
        for _ in range(2):
            scene.allocator.candidates.selectors.joined((), (expression,))
    for number in range(1 + others):
        tolerations = [{"key": f"{number}", "operator": "Exists"}]
        assert scene.picks(scene.claim(ask("r", 1, expression, tolerations=tolerations))) is None

    (selection,) = scene.allocator.candidates.selectors._joined.values()
    assert len(selection._by_columns) == kept


def test_what_asks_for_the_driver_alone_is_asked_once(scene: Any, ask: Any, asked: list[Any]) -> None:
    """It says the same of all devices of a driver, whatever they are; the selectors behind it are asked about each."""
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    scene.nodes("n1", "n2")
    scene.slice("s1", *gpus("a", "b"), nodeName="n1")
    scene.slice("s2", *gpus("c"), nodeName="n2")

    assert scene.picks(scene.claim(ask("r", 1, f'{UUID} == "other"'))) is None
    assert asked == [None, "a", "b", "c"]


def test_an_attempt_that_ran_out_of_time_goes_on_where_it_ended(ticking: Any, ask: Any) -> None:
    """With an expression that takes long, on one pool of many slices no two of which are alike."""
    scene = ticking(Limits(steps=None, seconds=100))
    scene.nodes("n")
    for number in range(15):
        devices = [{**gpus(f"{number}-{at}")[0], "name": f"d{number}-{at}"} for at in range(10)]
        scene.slice(f"s{number:02d}", *devices, pool="wide", count=15)
    texts = ", ".join(f'"{number}"' for number in range(32))
    slow = f"[{texts}].all(x, [{texts}].all(y, {UUID} != x + y))"
    claim = scene.claim(ask("r", 1, f'{slow} && {UUID} == ""'))

    assert [type(scene.decide(claim)) for _ in range(2)] == [Failed, Unsatisfied]


def test_what_a_class_reads_is_asked_once_for_all_requests() -> None:
    """Each claim may bring a selector of its own; that of the class may take long, and says the same for all."""
    cache = SelectorCache(STORED)
    of_class = ('device.driver == "d"', 'device.attributes["d"].model == "a"')
    first, second = (cache.together(of_class, (f'device.attributes["d"].uuid == "{name}"',)) for name in "ab")
    by_driver = cache.together(of_class[:1], ('device.attributes["d"].uuid == "a"',))

    assert first.before is second.before is cache.together(of_class, ())
    assert by_driver.before is None


def _disks(number: int) -> list[dict[str, Any]]:
    """Return disks that can be shared, no two of which have the same of anything."""
    return [
        {
            "name": f"disk-{place:03}",
            "allowMultipleAllocations": True,
            "capacity": {f"c{name}": {"value": str(1 + place * (name + 1))} for name in range(6)},
        }
        for place in range(number)
    ]


def test_devices_are_asked_by_their_own_capacity_however_they_differ(scene: Any, ask: Any) -> None:
    """Where few of them are alike and where many are, and where some lack what others have."""
    scene.nodes("n")
    few = [{**disk, "name": f"few-{disk['name']}", "capacity": {"c0": {"value": "9"}}} for disk in _disks(3)]
    scene.slice("few", *few, "none", pool="a")
    scene.slice("many", *_disks(16), pool="b")

    for amount, picks in (("9", "few-disk-000"), ("10", "disk-009"), ("16", "disk-015"), ("17", None)):
        claim = scene.claim(ask("r", 1, capacity={"requests": {"c0": amount}}))
        assert scene.picks(claim) == (picks and [f"r={picks}"])
    last = scene.claim(ask("r", 1, capacity={"requests": {"c0": "1", "c5": "91"}}))
    assert scene.picks(last) == ["r=disk-015"]


def test_what_devices_consume_costs_as_much_for_each_where_no_two_are_alike(
    scene: Any, slice_with: Callable[..., Any]
) -> None:
    """Not more the more there are in a slice."""
    candidates = scene.allocator.candidates
    one = parse_quantity("1")
    keys = [
        candidates.key(AskContent((), (), ()), amounts) for amounts in ((), (("c0", one.nano, one.text),))
    ]

    def cost(number: int) -> int:
        content = slice_with(*_disks(number))
        # How amounts are held is found out once.
        candidates.consumed_each(keys[0], content)
        return opcodes(lambda: candidates.consumed_each(keys[1], content))

    assert cost(128) < 4.4 * cost(32)
