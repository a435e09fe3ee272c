"""What we decide otherwise than upstream, on purpose: one test a name of docs/differences.md."""

import re
from pathlib import Path
from typing import Any

import pytest

from dra_operator.allocator.decision import Allocated, Failed
from dra_operator.allocator.extended import classes_by_resource
from dra_operator.allocator.reasons import Reason
from dra_operator.api.read import read_object


def test_counters_by_generation(scene: Any, ask: Any) -> None:
    """A node is judged by the counters it sees; upstream would judge n2 by what n1 sees, and refuse."""
    scene.nodes("n1", "n2")
    use = [{"counterSet": "set", "counters": {"cores": {"value": "1"}}}]
    for node, generation, cores in (("n1", 2, "0"), ("n2", 1, "1")):
        where = {"pool": "p", "generation": generation, "count": 2, "nodeName": node}
        counters = [{"name": "set", "counters": {"cores": {"value": cores}}}]
        scene.slice(f"counters-{node}", sharedCounters=counters, **where)
        scene.slice(f"devices-{node}", {"name": f"on-{node}", "consumesCounters": use}, **where)
    decision = scene.decide(scene.claim(ask()))

    assert isinstance(decision, Allocated)
    assert decision.node == "n2"


def test_capacity_step(scene: Any, ask: Any) -> None:
    """A step of nothing makes its device unfit, and no other; upstream crashes."""
    scene.nodes("n1")
    devices = [
        {
            "name": name,
            "capacity": {
                "memory": {"value": "10Gi", "requestPolicy": {"default": "1Gi", "validRange": span}}
            },
            "allowMultipleAllocations": True,
        }
        for name, span in (
            ("zero", {"min": "1Gi", "step": "0"}),
            ("endless", {"step": "1Gi"}),
            ("good", {"min": "1Gi", "step": "1Gi"}),
        )
    ]
    scene.slice("s", *devices)

    assert scene.picks(scene.claim(ask("r", 1, capacity={"requests": {"memory": "2Gi"}}))) == ["r=good"]


def _shareable(name: str, value: str, span: dict[str, str]) -> dict[str, Any]:
    capacity = {"memory": {"value": value, "requestPolicy": {"validRange": span}}}
    return {"name": name, "capacity": capacity, "allowMultipleAllocations": True}


def test_policy_beyond_int64(scene: Any, ask: Any) -> None:
    """A step beyond int64 is computed with: the request is below its first; upstream divides by zero."""
    scene.nodes("n1")
    scene.slice("s", _shareable("vast", "100E", {"min": "10E", "step": "10E"}))
    decision = scene.decide(scene.claim(ask("r", 1, capacity={"requests": {"memory": "5E"}})))

    assert isinstance(decision, Allocated)
    consumed = decision.results[0].devices.results[0].consumed_capacity
    assert {name: str(amount) for name, amount in consumed.items()} == {"memory": "10E"}


def test_policy_below_zero(scene: Any, ask: Any) -> None:
    """A part of a unit below zero counts as one, however it is written; upstream makes 1 of this one."""
    scene.nodes("n1")
    scene.slice("s", _shareable("odd", "100", {"min": "-0.0001Ki", "step": "100100u"}))
    decision = scene.decide(scene.claim(ask("r", 1, capacity={"requests": {"memory": "-100u"}})))

    assert isinstance(decision, Failed)
    assert "negative" in decision.message


@pytest.mark.parametrize(("requested", "served"), [("4Gi", ["r=a"]), ("8Gi", None)])
def test_use_below_zero(scene: Any, ask: Any, requested: str, served: list[str] | None) -> None:
    """Whatever a claim says it consumes, no device serves more than it has; upstream serves 8Gi of 4Gi."""
    scene.nodes("n1")
    memory = {"capacity": {"memory": {"value": "4Gi"}}}
    scene.slice("s", {"name": "a", "allowMultipleAllocations": True, **memory})
    scene.share("old", "a", {"memory": "-10E"})

    assert scene.picks(scene.claim(ask("r", 1, capacity={"requests": {"memory": requested}}))) == served


@pytest.mark.parametrize("consumed", [{}, {"memory": "1Gi"}], ids=["consumes nothing", "consumes memory"])
@pytest.mark.parametrize("asked", [{}, {"capacity": {"requests": {"memory": "1Gi"}}}], ids=["all", "a part"])
def test_exclusive_over_share(scene: Any, ask: Any, consumed: dict[str, str], asked: dict[str, Any]) -> None:
    """A device that is no longer shareable is in use as long as somebody has a share of it; upstream gives it away."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", "capacity": {"memory": {"value": "4Gi"}}})
    scene.share("old", "a", consumed)
    claim = scene.claim(ask("r", 1, **asked))

    assert scene.picks(claim) is None
    assert scene.explain(claim).reason is Reason.DEVICE_IN_USE
    assert scene.explain(claim).message.endswith("1 in use by 1 claim (old)")


def test_admin_access_label(scene: Any, ask: Any) -> None:
    """The namespace is looked at here, too; upstream leaves that to the API server."""
    scene.nodes("n1")
    scene.slice("s", "a")
    decision = scene.decide(scene.claim(ask("r", 1, adminAccess=True)))

    assert isinstance(decision, Failed)
    assert decision.reason is Reason.ADMIN_ACCESS_DENIED


def test_slice_order(scene: Any, ask: Any) -> None:
    """Of slices that disagree on their number, the first by name is believed, whichever came first."""
    scene.nodes("n1")
    scene.slice("b", "2", count=9)
    scene.slice("a", "1", count=2)

    assert scene.picks(scene.claim(ask())) == ["r=1"]


def test_extended_resource_loser() -> None:
    """The implicit name of a class stays, though another class has its extended resource name."""
    bodies = [
        {
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"extendedResourceName": "example.com/gpu"},
        }
        for name, created in (("new", "2026-01-02T00:00:00Z"), ("old", "2026-01-01T00:00:00Z"))
    ]
    found = classes_by_resource([read_object(body, "DeviceClass") for body in bodies])

    assert found["example.com/gpu"].metadata.name == "new"
    assert found["deviceclass.resource.kubernetes.io/old"].metadata.name == "old"


def test_rule_order(scene: Any, ask: Any) -> None:
    """Taints of rules are merged by the names of the rules, whichever came first: the first one is told."""
    scene.nodes("n1")
    scene.slice("s", "a")
    for name in ("rule-2", "rule-1"):
        taint = {"key": name, "effect": "NoSchedule"}
        scene.put("DeviceTaintRule", name, spec={"taint": taint, "deviceSelector": {}})

    assert "1 tainted (rule-1:NoSchedule on 1;" in scene.explain(scene.claim(ask())).message


def test_selector_error_elsewhere(scene: Any, ask: Any) -> None:
    """A node that fits ends the search before the device of the next one; kube-scheduler looks at both and refuses."""
    scene.nodes("n1", "n2")
    scene.slice("a", {"name": "good", "attributes": {"new": {"bool": True}}}, pool="n1", nodeName="n1")
    scene.slice("b", "bad", pool="n2", nodeName="n2")
    claim = scene.claim(ask("r", 1, 'device.attributes["gpu.example.com"].new'))

    assert scene.picks(claim) == ["r=good"]
    (text,) = scene.explainer.find_failing(claim)
    assert text.startswith(
        "request r: selector #0 fails on 1 of 2 devices: gpu.example.com/n2/bad: no such key: new"
    )


def test_each_difference_that_the_page_lists_has_a_test(repository: Path) -> None:
    """Each row about the allocator in docs/differences.md has a test of its name, here or beside the versions."""
    section = (repository / "docs/differences.md").read_text().partition("\n## CEL")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)
    beside = Path(__file__).with_name("test_kubernetes_rules.py").read_text(encoding="utf-8")
    names = [*globals(), *re.findall(r"^def (test_\w+)", beside, re.MULTILINE)]
    tests = {name.removeprefix("test_").replace("_", "-") for name in names}

    assert rows
    assert [name for name in rows if name not in tests] == []
