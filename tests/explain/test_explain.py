"""Why a claim waits, in one line."""

from typing import Any

import pytest

from dra_operator.allocator.decision import Failed, Unsatisfied
from dra_operator.allocator.reasons import Reason

MEMORY = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'
MODEL = "gpu.example.com/model"


def gpu(name: str, memory: str = "40Gi", **more: Any) -> dict[str, Any]:
    """Return a device with memory."""
    return {"name": name, "capacity": {"memory": {"value": memory}}, **more}


@pytest.fixture
def gpus(scene: Any) -> Any:
    """Two nodes with four devices each, and a driver that nobody asks for."""
    scene.nodes("n1", "n2")
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    for node in ("n1", "n2"):
        scene.slice(node, *(gpu(f"d{number}") for number in range(4)), nodeName=node)
        scene.slice(f"nic-{node}", *(f"e{number}" for number in range(4)), driver="nic", nodeName=node)
    return scene


def test_the_first_selector_that_refuses_is_told(gpus: Any, ask: Any) -> None:
    """By number; those before it say how many they leave, and conjunctions tell the part that is false."""
    first, second = 'device.driver == "gpu.example.com"', f'device.driver == "gpu.example.com" && {MEMORY}'
    found = gpus.explain(gpus.claim(ask("gpu", 1, first, second)))

    assert found.message.endswith("8 match selector #0, 0 match selector #1 (memory 40Gi < 80Gi on 8)")


ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"allNodes": False}, "ResourceSlice s names no node on 2"),
        ({"perDeviceNodeSelection": True}, "the device names no node on 2"),
        ({"nodeSelector": {"nodeSelectorTerms": []}}, "no usable node matches their node selector on 2"),
        (
            {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}},
            'no usable node matches their node selector "zone In a,b" on 2',
        ),
    ],
    ids=["slice", "device", "empty selector", "selector"],
)
def test_devices_that_reach_no_node(scene: Any, ask: Any, where: dict[str, Any], text: str) -> None:
    """The line mentions a node selector only if there is one."""
    scene.nodes("n1")
    scene.slice("s", "a", "b", **where)
    found = scene.explain(scene.claim(ask()))

    assert found.reason is Reason.NODE_UNUSABLE
    assert found.message.endswith(f", 2 on nodes that cannot be used ({text})")


@pytest.mark.parametrize(
    ("nodes", "reason", "message"),
    [
        ((), Reason.NO_NODES, "there are no nodes"),
        (("n1",), Reason.NO_DEVICES, "request r: no devices are published"),
    ],
    ids=["no nodes", "no devices"],
)
def test_nothing_at_all(scene: Any, ask: Any, nodes: tuple[str, ...], reason: Reason, message: str) -> None:
    """The line says what there is none of, without which nothing can be allocated."""
    scene.nodes(*nodes)
    found = scene.explain(scene.claim(ask()))

    assert (found.reason, found.message) == (reason, message)


def test_each_alternative_is_told_briefly(gpus: Any, ask: Any) -> None:
    """They are told in order, and the reason is that of the one the user wants most."""
    alternatives = [
        {"name": "large", **ask("", 1, MEMORY)["exactly"]},
        {"name": "many", **ask("", 9)["exactly"]},
    ]
    found = gpus.explain(gpus.claim({"name": "gpu", "firstAvailable": alternatives}))

    assert found.reason is Reason.SELECTOR_MATCHES_NO_DEVICE
    assert found.message.startswith(
        "request gpu: large: 16 devices published, 8 in class gpu, 0 match selector #0"
    )
    assert found.message.endswith(
        "; many: 16 devices published, 8 in class gpu, 8 left, at most 4 on one node (n1), 9 requested"
    )


def test_a_request_that_is_switched_off(scene_with: Any, ask: Any) -> None:
    """The line names the feature that the request needs."""
    scene = scene_with(prioritized_list=False)
    alternatives = [{"name": "a", **ask("")["exactly"]}]
    found = scene.explain(scene.claim({"name": "r", "firstAvailable": alternatives}))

    assert found.reason is Reason.REQUEST_UNSUPPORTED
    assert "DRAPrioritizedList is switched off" in found.message


def test_a_constraint_of_no_known_kind_is_named_by_its_number(scene: Any, ask: Any) -> None:
    """There may be several, and only one of them is to be mended."""
    found = scene.explain(scene.claim(ask(), constraints=[{"matchAttribute": MODEL}, {}]))

    assert found.reason is Reason.REQUEST_UNSUPPORTED
    assert found.message == (
        "constraint #1 names no attribute of a known kind; matchAttribute and distinctAttribute are"
    )


@pytest.mark.parametrize("capacity", [{}, {"requests": {}}, {"requests": {"memory": "1"}}])
def test_capacity_without_its_feature(scene_with: Any, ask: Any, capacity: dict[str, Any]) -> None:
    """The field alone is refused, as upstream does, whether or not it names an amount."""
    scene = scene_with(consumable_capacity=False)
    scene.nodes("n1")
    scene.slice("s", "a")
    decision = scene.decide(scene.claim(ask("r", 1, capacity=capacity)))

    assert isinstance(decision, Failed)
    assert "DRAConsumableCapacity is switched off" in decision.message


BROKEN = {
    "compile": ("device.driver.matchs('x')", Reason.SELECTOR_INVALID),
    "runtime": ('device.attributes["gpu.example.com"].modle == "x"', Reason.SELECTOR_FAILED),
}
TEXTS = {
    "compile": 'selector #0 does not compile at column 21: no such function "matchs"; did you mean "matches"?',
    "runtime": (
        "selector #0 fails on device gpu.example.com/n1/d0: no such key: modle; "
        "this device has model, memory (capacity); guard what not every device has by has(), or by .? and orValue()"
    ),
}


@pytest.mark.parametrize("busy", [False, True], ids=["devices are free", "all devices are in use"])
@pytest.mark.parametrize("place", ["class", "request"])
@pytest.mark.parametrize("kind", ["compile", "runtime"])
def test_a_broken_selector_is_told_alike_whatever_the_devices_do(
    scene: Any, ask: Any, kind: str, place: str, *, busy: bool
) -> None:
    """A search that reaches a device meets it; where none is free to be asked, the explanation finds it."""
    scene.nodes("n1")
    scene.slice("n1", gpu("d0", attributes={"model": {"string": "a"}}), nodeName="n1")
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    if busy:
        scene.use("a", ask("r", 1))
    expression, reason = BROKEN[kind]
    if place == "class":
        scene.device_class("gpu", expression)
    found = scene.explain(scene.claim(ask("r", 1, *([expression] if place == "request" else []))))

    assert (found.reason, found.request) == (reason, "r")
    assert found.message == f"{'class gpu' if place == 'class' else 'request r'}: {TEXTS[kind]}"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            'device.attributes["gpu.example.com"].modle',
            (
                "fails on device gpu.example.com/n1/d1: no such key: modle; this device has model, memory (capacity); "
                "guard what not every device has by has(), or by .? and orValue()"
            ),
        ),
        (
            "device.driver.matchs('x')",
            'does not compile at column 21: no such function "matchs"; did you mean "matches"?',
        ),
    ],
    ids=["runtime", "compile"],
)
def test_a_broken_derived_attribute_is_told_like_a_broken_selector(
    scene: Any, ask: Any, expression: str, text: str
) -> None:
    """Under the request that derives it, as several may derive one of that name."""
    scene.nodes("n1")
    scene.slice("n1", "d0", gpu("d1", attributes={"model": {"string": "a"}}), nodeName="n1")
    sound, broken = (
        {"derivedAttributes": [{"name": "d/x", "expression": item}]} for item in ("device.driver", expression)
    )
    found = scene.explain(
        scene.claim(ask("sound", **sound), ask("broken", **broken), constraints=[{"matchAttribute": "d/x"}])
    )

    assert (found.reason, found.request) == (Reason.DERIVED_ATTRIBUTE_FAILED, "broken")
    assert found.message == f"request broken: derived attribute d/x {text}"


def test_a_selector_that_fails_on_some_devices_keeps_only_those_away(gpus: Any, ask: Any) -> None:
    """The error stands in the line, and what keeps the others is the reason."""
    gpus.slice("n1", gpu("d0"), gpu("d1", attributes={"model": {"string": "a"}}), nodeName="n1")
    gpus.slice("n2", nodeName="n2")
    gpus.use("a", ask("r", 2))
    found = gpus.explain(gpus.claim(ask("r", 1, 'device.attributes["gpu.example.com"].model == "a"')))

    assert found.reason is Reason.DEVICE_IN_USE
    assert found.message.endswith("1 match selector #0 (no such key: model on 1), 1 in use by 1 claim (a)")


def test_an_explanation_is_one_line_and_always_the_same(gpus: Any, ask: Any) -> None:
    """And computed once while nothing changes."""
    claim = gpus.claim(ask("gpu", 1, MEMORY))
    first, second = gpus.explain(claim), gpus.explain(claim)

    assert first is second
    assert "\n" not in first.message


def test_a_claim_that_does_not_fit_beside_others(gpus: Any, ask: Any) -> None:
    """The line says that the claim would fit alone."""
    claims = [gpus.claim(ask("r", 3), name=name) for name in "ab"]
    decision = gpus.decide(*claims)
    (first, second) = gpus.explainer.explain(claims, decision)

    assert decision == Unsatisfied()
    assert first.reason is second.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER
