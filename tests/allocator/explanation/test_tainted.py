"""Taints as they are told."""

from typing import Any

import pytest

ANY_VALUE = "; without operator: Exists, a toleration is for one value: add it to tolerate any"


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    """Return a taint."""
    return {"key": key, "value": value, "effect": effect}


@pytest.mark.parametrize(
    ("tolerations", "told"),
    [
        ([], ""),
        (
            [{"key": "work", "operator": "Exists", "effect": "NoExecute"}],
            "; the request tolerates only work:NoExecute",
        ),
        ([{"key": "work", "value": "no"}], "; the request tolerates only work=no"),
        ([{"key": "work"}], f'; the request tolerates only work=""{ANY_VALUE}'),
        (
            [{"effect": "NoExecute"}, {"effect": "NoSchedule"}],
            f'; the request tolerates only any="":NoExecute, any="":NoSchedule{ANY_VALUE}',
        ),
        ([{"effect": "NoExecute"}], '; the request tolerates only any="":NoExecute'),
        ([{"value": "no"}], "; the request tolerates only any=no"),
        ([{"key": "wrok", "operator": "Exists"}], "; the request tolerates only wrok"),
        ([{"operator": "Exists", "effect": "NoExecute"}], "; the request tolerates only any:NoExecute"),
        (
            [{"key": "example.com/work", "operator": "Exists"}],
            "; the request tolerates only example.com/work",
        ),
        ([{"key": "broken", "operator": "Exists"}], ""),
        (
            [{"key": "wrok", "operator": "Exists"}, {"key": "broken", "operator": "Exists"}],
            "; the request tolerates wrok",
        ),
    ],
    ids=[
        "none",
        "another effect",
        "another value",
        "no value",
        "neither key nor value",
        "neither key nor value, and another effect",
        "no key, and another value",
        "a typo",
        "any key",
        "another domain",
        "another taint",
        "a typo beside another taint",
    ],
)
def test_what_the_request_tolerates_stands_beside_the_taint(
    scene: Any, ask: Any, tolerations: list[dict[str, str]], told: str
) -> None:
    """If it may have been meant for it."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", "taints": [taint("work", "yes")]})
    found = scene.explain(scene.claim(ask("r", tolerations=tolerations)))

    assert found.message.endswith(f"1 tainted (work=yes:NoSchedule on 1{told})")


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("worn", "; the request tolerates only worn"),
        ("disk.example.com/hot", ""),
        ("other.example.com/x", ""),
    ],
    ids=["without its domain", "of the same domain", "of another domain"],
)
def test_a_key_is_judged_by_what_stands_behind_its_domain(scene: Any, ask: Any, key: str, told: str) -> None:
    """A domain is easily forgotten; that two keys have one, or look alike in it, says nothing."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", "taints": [taint("disk.example.com/worn")]})
    found = scene.explain(scene.claim(ask("r", tolerations=[{"key": key, "operator": "Exists"}])))

    assert found.message.endswith(f"1 tainted (disk.example.com/worn:NoSchedule on 1{told})")


def test_the_rules_that_set_a_taint_are_named(scene: Any, ask: Any) -> None:
    """They are not on the device; rules that set others are not named."""
    scene.nodes("n1")
    scene.slice("s", "a", "b")
    for name, key in (("two", "drain"), ("one", "drain"), ("other", "elsewhere")):
        selector = {"driver": "gpu.example.com" if key == "drain" else "nic"}
        scene.put("DeviceTaintRule", name, spec={"deviceSelector": selector, "taint": taint(key)})
    found = scene.explain(scene.claim(ask()))

    assert found.message.endswith("2 tainted (drain:NoSchedule on 2; set by DeviceTaintRule one, two)")


def test_a_rule_that_sets_the_same_taint_elsewhere_is_not_named(scene: Any, ask: Any) -> None:
    """The driver itself publishes it here; and so it stays when such a rule comes."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", "taints": [taint("drain")]})
    claim = scene.claim(ask())
    before = scene.explain(claim)
    scene.put("DeviceTaintRule", "rule", spec={"deviceSelector": {"device": "b"}, "taint": taint("drain")})

    assert before.message.endswith("1 tainted (drain:NoSchedule on 1)")
    assert scene.explain(claim) == before
