"""Admin access: who may ask, and what it does to others."""

from typing import Any

import pytest

from dra_operator.allocator import Failed, Reason

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
