"""Node selectors, as pod node affinity has them: which nodes a slice, a device or an allocation is for.

A selector is parsed as a whole before it is asked about a node, because one requirement that cannot be parsed
makes the selector useless on every node: upstream ends the attempt there, and so must we, whatever its other
terms say.
Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity, k8s.io/apimachinery/pkg/labels.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from dra_operator.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_operator.api.text import shortened
from dra_operator.api.validation.checks import KEY, VALUE

_NAME_FIELD = "metadata.name"
_INTEGER = re.compile(r"[+-]?[0-9]+")

_Test: TypeAlias = Callable[[str | None], bool]
_AnyTerm: TypeAlias = tuple[tuple[tuple[str, _Test], ...], tuple[tuple[str, _Test], ...]]


class NodeSelectorError(ValueError):
    """A node selector that cannot be parsed; the text says which requirement, and why."""


@dataclass(frozen=True, slots=True)
class ParsedNodeSelector:
    """A node selector ready to be asked. Terms that are empty, and so match nothing, are gone."""

    terms: tuple[_AnyTerm, ...]

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node of that name with those labels is selected."""
        return any(
            all(test(labels.get(key)) for key, test in expressions)
            and all(test(node_name if key == _NAME_FIELD else "") for key, test in named_fields)
            for expressions, named_fields in self.terms
        )


def matches(selector: NodeSelector, node_name: str, labels: Mapping[str, str]) -> bool:
    """Return whether `selector` selects a node of that name with those labels.

    Raises NodeSelectorError if any part of the selector cannot be parsed, also where another term would
    match.
    """
    return parse_node_selector(selector).matches(node_name, labels)


def describe(selector: NodeSelector) -> str:
    """Return a selector in one short line: `zone In a,b and rack Exists or metadata.name In node-1`."""
    terms = [
        " and ".join(_described(each) for each in (*term.match_expressions, *term.match_fields))
        for term in selector.node_selector_terms
        if term.match_expressions or term.match_fields
    ]
    return " or ".join(shortened(terms))


def _described(requirement: NodeSelectorRequirement) -> str:
    values = ",".join(shortened(requirement.values))
    return f"{requirement.key} {requirement.operator} {values}".rstrip()


@lru_cache(maxsize=4096)
def parse_node_selector(selector: NodeSelector) -> ParsedNodeSelector:
    """Return `selector` ready to be asked. Raises NodeSelectorError."""
    terms = []
    for index, term in enumerate(selector.node_selector_terms):
        if term.match_expressions or term.match_fields:
            terms.append(_parse_term(term, f"nodeSelectorTerms[{index}]"))
    return ParsedNodeSelector(tuple(terms))


@lru_cache(maxsize=1024)
def parse_terms(selector: NodeSelector) -> tuple[ParsedNodeSelector, ...]:
    """Return the terms of `selector` that can be parsed, each by itself.

    So kube-scheduler asks the affinity of pods and volumes, where a term that cannot be parsed only matches nothing.
    """
    found: list[ParsedNodeSelector] = []
    for term in selector.node_selector_terms:
        with suppress(NodeSelectorError):
            found.append(parse_node_selector(NodeSelector((term,))))
    return tuple(found)


def _parse_term(term: NodeSelectorTerm, path: str) -> _AnyTerm:
    expressions = tuple(
        (requirement.key, _label_test(requirement, f"{path}.matchExpressions[{index}]"))
        for index, requirement in enumerate(term.match_expressions)
    )
    named_fields = tuple(
        (requirement.key, _field_test(requirement, f"{path}.matchFields[{index}]"))
        for index, requirement in enumerate(term.match_fields)
    )
    return expressions, named_fields


def _label_test(requirement: NodeSelectorRequirement, path: str) -> _Test:
    values = requirement.values
    if not KEY.fullmatch(requirement.key):
        raise NodeSelectorError(f'{path}.key: "{requirement.key}" is not a label name')
    match requirement.operator:
        case "In" | "NotIn":
            if not values:
                raise NodeSelectorError(f"{path}.values: {requirement.operator} needs at least one")
        case "Exists" | "DoesNotExist":
            if values:
                raise NodeSelectorError(f"{path}.values: {requirement.operator} takes none")
        case "Gt" | "Lt":
            if len(values) != 1 or _integer(values[0]) is None:
                raise NodeSelectorError(f"{path}.values: {requirement.operator} needs one whole number")
        case unknown:
            raise NodeSelectorError(f'{path}.operator: "{unknown}" is not an operator of labels')
    for value in values:
        if value and not VALUE.fullmatch(value):
            raise NodeSelectorError(f'{path}.values: "{value}" is not the value of a label')
    return _label_tests(requirement.operator, values)


def _label_tests(operator: str, values: tuple[str, ...]) -> _Test:
    chosen = frozenset(values)
    match operator:
        case "In":
            return lambda label: label in chosen
        case "NotIn":
            return lambda label: label not in chosen
        case "Exists":
            return lambda label: label is not None
        case "DoesNotExist":
            return lambda label: label is None
    bound = _integer(values[0]) or 0
    if operator == "Gt":
        return lambda label: (number := _integer(label)) is not None and number > bound
    return lambda label: (number := _integer(label)) is not None and number < bound


def _field_test(requirement: NodeSelectorRequirement, path: str) -> _Test:
    operator, values = requirement.operator, requirement.values
    if operator not in ("In", "NotIn"):
        raise NodeSelectorError(f'{path}.operator: "{operator}" is not an operator of fields')
    if len(values) != 1:
        raise NodeSelectorError(f"{path}.values: {operator} needs one value for a field, not {len(values)}")
    return _label_tests(operator, values)


def _integer(text: str | None) -> int | None:
    """Return the whole number of 64 bits that `text` is, or None."""
    # A label of a cluster has 63 characters at most. One of a file may have thousands, which `int` refuses to read.
    if text is None or len(text) > 64 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def pinned_to(selector: NodeSelector | None) -> str | None:
    """Return the node that a node selector names, or None if it selects in another way, or all nodes."""
    names = None if selector is None else named_nodes(selector)
    return next(iter(names)) if names is not None and len(names) == 1 else None


def named_nodes(selector: NodeSelector) -> frozenset[str] | None:
    """Return the nodes that a node selector names, if each of its terms names some; None for another one."""
    names: set[str] = set()
    for term in selector.node_selector_terms:
        named = [
            frozenset(item.values)
            for item in term.match_fields
            if (item.key, item.operator) == (_NAME_FIELD, "In")
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return frozenset(names) if selector.node_selector_terms else None


# --- Label selectors, as `kubectl -l` and lists have them: a test of objects. Source: k8s.io/apimachinery/pkg/labels.

Test = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"(\S+?)\s+(in|notin)\s*\(([^)]*)\)")
_COMPARISON = re.compile(r"([^\s=!<>,()]+)\s*(==|=|!=|>|<)\s*([^\s,=!<>()]*)")
_KEY = re.compile(r"(!?)\s*([^\s=!<>,()]+)")
_OPERATORS = {
    "in": "In",
    "=": "In",
    "==": "In",
    "notin": "NotIn",
    "!=": "NotIn",
    "": "Exists",
    "!": "DoesNotExist",
    ">": "Gt",
    "<": "Lt",
}
"""How node selectors call the operators."""
_ITEM = re.compile(r"\s*(?:([^\s,()]+\s+(?:in|notin)\s*\([^)]*\))|([^,()]+))\s*(?:,|$)")


def labels_test(text: str) -> Test | None:
    """Return the test for a label selector such as `a=b,c in (d, e),!f`; None for an empty text, which selects all.

    Raises ValueError if the text is no selector.
    """
    requirements: list[Callable[[Mapping[str, str]], bool]] = []
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise _unparsable(text)
        requirements.append(_requirement((match[1] or match[2]).strip(), text))
        position = match.end()
    if not requirements:
        return None

    def test(body: Mapping[str, Any]) -> bool:
        labels = body["metadata"].get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return test


def _unparsable(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a label selector")


def _requirement(item: str, text: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.fullmatch(item):
        key, operator, values = match[1], match[2], tuple(value.strip() for value in match[3].split(","))
    elif match := _COMPARISON.fullmatch(item):
        key, operator, values = match[1], match[2], (match[3],)
        if operator in (">", "<") and _integer(match[3]) is None:
            raise _unparsable(text)
    elif match := _KEY.fullmatch(item):
        key, operator, values = match[2], match[1], ()
    else:
        raise _unparsable(text)
    test = _label_tests(_OPERATORS[operator], values)
    return lambda labels: test(labels.get(key))
