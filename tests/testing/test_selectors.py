"""Which objects a selector shows."""

import pytest

from dra_operator.testing import selectors
from dra_operator.testing.errors import StatusError
from dra_operator.testing.resources import RESOURCES

POD = next(resource for resource in RESOURCES if resource.kind == "Pod")
NODE = next(resource for resource in RESOURCES if resource.kind == "Node")


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("", {}, True),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "1"}, True),
        ("a=1", {"a": "2"}, False),
        ("a=1", {}, False),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": "1"}, False),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a in (1,2)", {}, False),
        ("a notin (1,2)", {}, True),
        ("a notin (1,2)", {"a": "1"}, False),
        ("a>3", {"a": "4"}, True),
        ("a>3", {"a": "x"}, False),
        ("a<3", {"a": "4"}, False),
        ("a=1,b in (x,y),!c", {"a": "1", "b": "y"}, True),
        ("a=1,b in (x,y),!c", {"a": "1", "b": "y", "c": ""}, False),
        ("example.com/a=b.c_d-e", {"example.com/a": "b.c_d-e"}, True),
    ],
)
def test_label_selectors(selector: str, labels: dict[str, str], expected: bool) -> None:  # noqa: FBT001
    """Each form of requirement means what it does in Kubernetes, and a comma means and."""
    assert selectors.parse_labels(selector)({"metadata": {"labels": labels}}) is expected


@pytest.mark.parametrize("selector", ["a b", "a in (b", "a>x", "=b", "a=b=c", "(a)"])
def test_a_label_selector_that_makes_no_sense_is_refused(selector: str) -> None:
    """A text that is no selector gets 400."""
    with pytest.raises(StatusError, match="unable to parse requirement") as refusal:
        selectors.parse_labels(selector)

    assert refusal.value.code == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("metadata.name=p", True),
        ("metadata.name==p,spec.nodeName=n", True),
        ("metadata.name!=p", False),
        ("metadata.namespace!=default", True),
        ("spec.nodeName=n,status.phase!=Failed,status.phase!=Succeeded", True),
        ("spec.nodeName=", False),
        ("status.podIP=", True),
    ],
)
def test_field_selectors(selector: str, expected: bool) -> None:  # noqa: FBT001
    """Fields are compared as text; an absent one is empty."""
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}

    assert selectors.parse_fields(selector, POD)(pod) is expected


def test_a_node_that_was_never_cordoned_is_not_unschedulable() -> None:
    """The absent field counts as false."""
    test = selectors.parse_fields("spec.unschedulable=false", NODE)

    assert test({"metadata": {"name": "n"}, "spec": {}})
    assert not test({"metadata": {"name": "n"}, "spec": {"unschedulable": True}})


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("spec.colour=red", "field label not supported: spec.colour"),
        ("spec.nodeName", "can't understand 'spec.nodeName'"),
    ],
)
def test_a_field_that_cannot_be_selected_is_refused(selector: str, message: str) -> None:
    """Only the fields that a kind offers can be used."""
    with pytest.raises(StatusError) as refusal:
        selectors.parse_fields(selector, POD)

    assert message in refusal.value.message
