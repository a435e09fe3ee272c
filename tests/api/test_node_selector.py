"""Node selectors: the semantics of pod node affinity."""

import pytest

from dra_operator.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_operator.api.node_selector import NodeSelectorError, describe, matches, parse_terms

LABELS = {"zone": "a", "size": "5", "word": "five", "empty": ""}


def selector(*requirements, fields=()):
    """Return a selector of one term."""
    return NodeSelector(
        (
            NodeSelectorTerm(
                tuple(NodeSelectorRequirement(*each) for each in requirements),
                tuple(NodeSelectorRequirement(*each) for each in fields),
            ),
        )
    )


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (("zone", "In", ("a", "b")), True),
        (("zone", "In", ("b",)), False),
        (("gone", "In", ("a",)), False),
        (("empty", "In", ("",)), True),
        (("gone", "In", ("",)), False),
        (("zone", "NotIn", ("b",)), True),
        (("zone", "NotIn", ("a",)), False),
        (("gone", "NotIn", ("a",)), True),
        (("zone", "Exists"), True),
        (("gone", "Exists"), False),
        (("zone", "DoesNotExist"), False),
        (("gone", "DoesNotExist"), True),
        (("size", "Gt", ("4",)), True),
        (("size", "Gt", ("5",)), False),
        (("size", "Lt", ("6",)), True),
        (("size", "Lt", ("5",)), False),
        (("word", "Gt", ("4",)), False),
        (("word", "Lt", ("4",)), False),
        (("gone", "Gt", ("0",)), False),
    ],
)
def test_each_operator_compares_a_label(requirement, expected):
    """An operator is true for the labels it describes; a missing label is neither greater nor less."""
    assert matches(selector(requirement), "n1", LABELS) is expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (("metadata.name", "In", ("n1",)), True),
        (("metadata.name", "In", ("n2",)), False),
        (("metadata.name", "NotIn", ("n2",)), True),
        (("metadata.name", "NotIn", ("n1",)), False),
    ],
)
def test_a_field_compares_the_name(field, expected):
    """The only field is the node's name."""
    assert matches(selector(fields=(field,)), "n1", LABELS) is expected


@pytest.mark.parametrize(
    "requirement",
    [
        ("zone", "In", ()),
        ("zone", "Exists", ("a",)),
        ("zone", "Gt", ("x",)),
        ("zone", "Gt", ("1", "2")),
        ("zone", "Lt", ("9223372036854775808",)),
        ("zone", "Like", ("a",)),
        ("-zone", "Exists"),
        ("a/b/c", "Exists"),
        ("", "Exists"),
        ("zone", "In", ("a b",)),
        ("zone", "In", ("a" * 64,)),
    ],
)
def test_a_label_requirement_that_cannot_be_parsed_is_an_error(requirement):
    """The error names the requirement, and another term that matches does not save it."""
    terms = (*selector(("zone", "Exists")).node_selector_terms, *selector(requirement).node_selector_terms)

    with pytest.raises(NodeSelectorError, match=r"nodeSelectorTerms\[1\]\.matchExpressions\[0\]"):
        matches(NodeSelector(terms), "n1", LABELS)


@pytest.mark.parametrize("field", [("metadata.name", "Exists"), ("metadata.name", "In", ("a", "b"))])
def test_a_field_requirement_that_cannot_be_parsed_is_an_error(field):
    """Fields know In and NotIn with one value."""
    with pytest.raises(NodeSelectorError, match=r"matchFields\[0\]"):
        matches(selector(fields=(field,)), "n1", LABELS)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ((), ""),
        ((NodeSelectorTerm(),), ""),
        ((NodeSelectorTerm((NodeSelectorRequirement("zone", "In", ("a", "b")),)),), "zone In a,b"),
        (
            (
                NodeSelectorTerm(
                    (NodeSelectorRequirement("zone", "In", ("a",)), NodeSelectorRequirement("rack", "Exists"))
                ),
                NodeSelectorTerm((), (NodeSelectorRequirement("metadata.name", "In", ("n",)),)),
            ),
            "zone In a and rack Exists or metadata.name In n",
        ),
        ((NodeSelectorTerm((NodeSelectorRequirement("z", "In", tuple("abcde")),)),), "z In a,b,c,2 more"),
    ],
    ids=["nothing", "an empty term", "values", "terms and requirements", "many values"],
)
def test_a_selector_is_described_in_a_line(terms, text):
    """As a person would write it, with the operators of Kubernetes."""
    assert describe(NodeSelector(terms)) == text


def test_terms_can_be_parsed_each_by_itself():
    """As kube-scheduler asks pods and volumes: one that cannot be parsed matches nothing, and the others count."""
    wrong = NodeSelectorTerm((NodeSelectorRequirement("disk", "Like", ("ssd",)),))
    right = NodeSelectorTerm((NodeSelectorRequirement("disk", "In", ("ssd",)),))

    (term,) = [each for each in parse_terms(NodeSelector((wrong, right, NodeSelectorTerm()))) if each.terms]

    assert term.matches("n", {"disk": "ssd"})
    assert not term.matches("n", {"disk": "hdd"})
