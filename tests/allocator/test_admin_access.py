"""Admin access: who may ask, and what it does to others."""

from typing import Any

import pytest

from dra_operator.allocator.decision import Failed, Unsatisfied
from dra_operator.allocator.reasons import Reason

LABEL = "resource.kubernetes.io/admin-access"


@pytest.fixture
def admin_scene(scene: Any) -> Any:
    """A labelled namespace and a node with one device."""
    scene.put("Namespace", "team", labels={LABEL: "true"})
    scene.nodes("n1")
    scene.slice("s", "a", nodeName="n1")
    return scene


@pytest.mark.parametrize("labels", [{}, {LABEL: "True"}, {"resource.k8s.io/admin-access": "true"}])
def test_a_namespace_without_the_label_is_refused(admin_scene: Any, ask: Any, labels: dict[str, str]) -> None:
    """The claim was smuggled past the API server; the namespace is named."""
    admin_scene.put("Namespace", "team", labels=labels)
    decision = admin_scene.decide(admin_scene.claim(ask("r", 1, adminAccess=True)))

    assert isinstance(decision, Failed)
    assert (decision.reason, decision.subject) == (Reason.ADMIN_ACCESS_DENIED, ("Namespace", "team"))


def test_admin_access_takes_what_is_in_use_and_leaves_it_in_use(admin_scene: Any, ask: Any) -> None:
    """It blocks nobody afterwards."""
    admin_scene.use("admin", ask("r", 1, adminAccess=True))
    admin_scene.use("normal", ask())

    assert admin_scene.picks(admin_scene.claim(ask("r", 1, adminAccess=True))) == ["r=a"]


def test_admin_access_never_takes_a_device_twice_for_one_claim(admin_scene: Any, ask: Any) -> None:
    """Two claims may, one claim may not."""
    twice = [ask(name, 1, adminAccess=True) for name in "xy"]

    assert admin_scene.picks(admin_scene.claim(*twice)) is None
    assert admin_scene.picks(*(admin_scene.claim(item, name=item["name"]) for item in twice)) == [
        "x=a",
        "y=a",
    ]


def test_admin_access_first_blocks_a_normal_claim_of_the_same_attempt(admin_scene: Any, ask: Any) -> None:
    """As upstream has it: the order of claims is not searched."""
    admin, normal = (
        admin_scene.claim(ask("x", 1, adminAccess=True), name="x"),
        admin_scene.claim(ask("y"), name="y"),
    )

    assert admin_scene.picks(normal, admin) == ["y=a", "x=a"]
    assert admin_scene.picks(admin, normal) is None


def test_admin_access_does_not_tolerate_taints(admin_scene: Any, ask: Any) -> None:
    """A taint needs a toleration, whoever asks."""
    admin_scene.slice("s", {"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]}, nodeName="n1")

    assert admin_scene.picks(admin_scene.claim(ask("r", 1, adminAccess=True))) is None


# --- counted, without the exhaustive search


@pytest.mark.parametrize("fields", [{}, {"allocationMode": "All"}], ids=["one", "all"])
def test_counters_have_to_fit_though_the_owner_has_paid(
    counted_only: Any, ask: Any, fields: dict[str, Any]
) -> None:
    """Kubernetes charges admin access like others: what is used up is used up."""
    uses = {"consumesCounters": [{"counterSet": "set", "counters": {"cores": {"value": "1"}}}]}
    total = {"name": "set", "counters": {"cores": {"value": "2"}}}
    counted_only.put("Namespace", "team", labels={LABEL: "true"})
    counted_only.slice("c", sharedCounters=[total], pool="pool", count=2)
    counted_only.slice("s", {"name": "a", **uses}, {"name": "b", **uses}, pool="pool", count=2)
    claim = counted_only.claim(ask("r", **fields, adminAccess=True))
    counted_only.hold("owner", "a", "pool")
    with_one_left = counted_only.picks(claim)
    counted_only.hold("other", "b", "pool")

    assert with_one_left == (None if fields else ["r=a"])
    assert counted_only.decide(claim) == Unsatisfied()


# --- left to the exhaustive search


def test_a_selector_that_fails_on_a_device_in_use_ends_the_attempt(admin_scene: Any, ask: Any) -> None:
    """Admin access looks at devices in use, so it meets their errors, too; others never look."""
    admin_scene.slice("s", "a", {"name": "b", "attributes": {"kind": {"int": 1}}}, nodeName="n1")
    admin_scene.hold("owner", "a", "n1")
    selector = 'device.attributes["gpu.example.com"].kind == 1'
    decision = admin_scene.decide(admin_scene.claim(ask("r", 1, selector, adminAccess=True)))

    assert admin_scene.picks(admin_scene.claim(ask("r", 1, selector))) == ["r=b"]
    assert isinstance(decision, Failed)
    assert decision.reason is Reason.SELECTOR_FAILED
