"""What names metrics outside of the code: the page, the alerts, the dashboard. An alert on a wrong name never fires."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import yaml

from dra_operator.allocator.decision import Decision
from dra_operator.allocator.reasons import Reason
from dra_operator.cluster.events import OUTCOMES
from dra_operator.cluster.reflector import Counters
from dra_operator.cluster.writes import WriteKind, WriteOutcome
from dra_operator.controller import messages
from dra_operator.controller.claims import Standing
from dra_operator.controller.metrics import Metrics
from dra_operator.inventory import Inventory

NAME = re.compile(r"\b(?:dra_operator|process)_\w+")
SERIES = re.compile(r"(?:_bucket|_sum|_count)$")


@pytest.fixture
def told() -> dict[str, tuple[str, ...]]:
    """Return the name of each metric there is, with its labels."""
    metrics = Metrics()
    metrics.register_reflectors(lambda: {"Node": SimpleNamespace(counters=Counters(), silence=0.0)})
    metrics.register_events(dict)
    names = re.findall(r"^# HELP (\S+)", metrics.text().decode(), re.MULTILINE)
    labels = {
        name: tuple(metric._labelnames)
        for name in names
        for metric in [vars(metrics).get(re.sub(r"^dra_operator_|_total$", "", name))]
        if metric is not None
    }
    return {name: labels.get(name, ()) for name in names}


@pytest.fixture(scope="module")
def rules(repository: Path) -> list[dict[str, Any]]:
    """Return the alerts."""
    file = repository / "manifests" / "components" / "prometheus" / "alerts.yaml"
    found = [rule for group in yaml.safe_load(file.read_text())["spec"]["groups"] for rule in group["rules"]]
    assert found
    return found


@pytest.fixture(scope="module")
def dashboard(repository: Path) -> dict[str, Any]:
    """Return the dashboard."""
    file = repository / "manifests" / "components" / "grafana" / "dra-operator.json"
    loaded: dict[str, Any] = json.loads(file.read_text())
    return loaded


@pytest.fixture(scope="module")
def page(repository: Path) -> dict[str, str]:
    """Return the row of each metric on the page."""
    lines = (repository / "docs" / "metrics.md").read_text().partition("## All metrics")[2].splitlines()
    rows = {}
    for line in lines:
        for name in NAME.findall(line.split("|")[1]) if line.startswith("| `") else []:
            assert name not in rows
            rows[name] = line
    return rows


def test_page_lists_every_metric_and_no_other(page, told):
    """Whoever sees a metric finds what it counts, and when to look at it."""
    assert set(page) == set(told)


def test_page_names_the_labels_of_each(page, told):
    """And what to group by."""
    missing = {
        name: label for name, labels in told.items() for label in labels if f"`{label}`" not in page[name]
    }

    assert missing == {}


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("dra_operator_claims", [standing.value for standing in Standing]),
        ("dra_operator_decisions_total", [kind.__name__.lower() for kind in get_args(Decision)]),
        ("dra_operator_events_total", OUTCOMES),
        ("dra_operator_objects", Inventory().summary()),
        (
            "dra_operator_pending_claims",
            [messages.EVENT_REFUSED, messages.EVENT_FORBIDDEN, messages.EVENT_INTERNAL],
        ),
        (
            "dra_operator_writes_total",
            [
                *(kind for kind in get_args(WriteKind)),
                *(outcome.result for outcome in get_args(WriteOutcome)),
            ],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_page_names_the_values_of_a_label(page, metric, values):
    """A word that stands in a graph stands on the page."""
    assert [value for value in values if f"`{value}`" not in page[metric]] == []


def test_page_lists_every_alert_and_no_other(repository, rules):
    """Whoever is woken up by an alert finds its row, with the severity that woke them."""
    text = (repository / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(DraOperator\w+)` \| (\w+) \|", text, re.MULTILINE)

    assert sorted(rows) == sorted((rule["alert"], rule["labels"]["severity"]) for rule in rules)


def test_every_alert_says_what_is_wrong_and_what_to_do(rules):
    """A line for the pager, and a text for whoever opens it."""
    assert [rule["alert"] for rule in rules if set(rule["annotations"]) != {"summary", "description"}] == []


def test_alerts_name_metrics_that_there_are(rules, told):
    """One by name, and an alert without any would never fire."""
    for rule in rules:
        named = set(NAME.findall(rule["expr"]))
        assert named, rule["alert"]
        assert named <= set(told)


def test_alerts_name_reasons_that_there_are(rules):
    """A reason that was renamed would end its alert in silence."""
    known = {*Reason, messages.EVENT_REFUSED, messages.EVENT_FORBIDDEN, messages.EVENT_INTERNAL}
    named = {
        reason
        for rule in rules
        for matched in re.findall(r'reason=~?"([^"]*)"', rule["expr"])
        for reason in matched.split("|")
    }

    assert named
    assert named <= known


def test_dashboard_names_metrics_that_there_are(dashboard, told):
    """Each panel asks for one, and a histogram for its buckets."""
    for panel in dashboard["panels"]:
        named = set(NAME.findall(" ".join(target["expr"] for target in panel["targets"])))
        assert named, panel["title"]
        assert {SERIES.sub("", name) for name in named} <= set(told)


def test_dashboard_adds_up_no_gauge_as_it_was_scraped(dashboard):
    """An operator that is scraped twice would be two of those that decide."""
    exprs = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    assert [expr for expr in exprs if re.search(r"\bsum\b[^(]*(\([a-z, ]+\) )?\(dra_operator_", expr)] == []
