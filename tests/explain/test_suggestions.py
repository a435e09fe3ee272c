"""A constraint on an attribute that devices do not have."""

from typing import Any

import pytest

from dra_operator.allocator.reasons import Reason

DRIVER = "gpu.example.com"
NEVER = "; it would not fit even if no device were in use or tainted"


def device(name: str, **attributes: str) -> dict[str, Any]:
    """Return a device with attributes."""
    return {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}


@pytest.fixture
def gpus(scene: Any) -> Any:
    """Two nodes with two devices each; one device of each has a serial number, and another driver has a model."""
    scene.nodes("n1", "n2")
    scene.device_class("gpu", f'device.driver == "{DRIVER}"')
    for node in ("n1", "n2"):
        scene.slice(node, device("a", model="x", serial=node), device("b", model="x"), nodeName=node)
    scene.slice("nic", {"name": "n", "attributes": {"typo": {"string": "x"}}}, driver="nic", pool="net")
    return scene


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (f"{DRIVER}/modle", f'; did you mean "{DRIVER}/model"?'),
        ("other.example.com/model", f'; did you mean "{DRIVER}/model"?'),
        (f"{DRIVER}/typo", ""),
        (f"{DRIVER}/zone", ""),
    ],
    ids=["close", "another domain", "only devices of others have it", "nothing close"],
)
def test_an_attribute_that_no_device_has(
    gpus: Any, ask: Any, kind: str, count: int, *, name: str, hint: str
) -> None:
    """The attribute is named, on none of the devices that match, with a close name where there is one."""
    found = gpus.explain(gpus.claim(ask("g", count), constraints=[{kind: name}]))

    assert (found.reason, found.request) == (Reason.CONSTRAINT_UNSATISFIABLE, "g")
    assert found.message == (
        f"request g: devices are free, but none satisfies constraint #0 ({kind} {name}); "
        f"attribute {name} is on 0 of 4 matching devices{hint}{NEVER}"
    )


def test_an_attribute_that_some_devices_have(gpus: Any, ask: Any) -> None:
    """The line says how many devices have it, as those may be too few."""
    name = f"{DRIVER}/serial"
    found = gpus.explain(gpus.claim(ask("g", 2), constraints=[{"distinctAttribute": name}]))

    assert found.message == (
        f"request g: devices are free, but none together satisfy constraint #0 (distinctAttribute {name}), "
        f"at most 1 together, 2 requested; attribute {name} is on 2 of 4 matching devices{NEVER}"
    )


def test_each_attribute_of_several_constraints_is_told(gpus: Any, ask: Any) -> None:
    """Where no single constraint is to blame, whoever lacks something is told for each."""
    constraints = [{"matchAttribute": f"{DRIVER}/{name}"} for name in ("zone", "model", "rack")]
    found = gpus.explain(gpus.claim(ask("g"), constraints=constraints))

    assert found.message == (
        "request g: devices are free, but none satisfies its 3 constraints; "
        f"attribute {DRIVER}/zone is on 0 of 4 matching devices; "
        f"attribute {DRIVER}/rack is on 0 of 4 matching devices{NEVER}"
    )


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        (f'device.attributes["{DRIVER}"].?modle.orValue("") == "x"', f"{DRIVER}/modle"),
        ('"model" in device.attributes["other.example.com"]', "other.example.com/model"),
    ],
    ids=["close", "another domain"],
)
def test_a_selector_that_guards_what_no_device_has(gpus: Any, ask: Any, expression: str, hint: str) -> None:
    """The name that was probably meant is told, as for a constraint."""
    found = gpus.explain(gpus.claim(ask("g", 1, expression)))

    assert found.reason is Reason.SELECTOR_MATCHES_NO_DEVICE
    assert found.message.endswith(
        f'0 match selector #0 (no {hint} on 4); for {hint}, did you mean "{DRIVER}/model"?'
    )


# --- taints


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
        ([{"key": "work"}], '; the request tolerates only work=""'),
        (
            [{"effect": "NoExecute"}, {"effect": "NoSchedule"}],
            '; the request tolerates only any="":NoExecute, any="":NoSchedule',
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
