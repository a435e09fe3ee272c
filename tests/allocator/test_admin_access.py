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
