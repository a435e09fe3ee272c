"""Writes the pages of reference that are made from the code: fields of our kinds, options of `kubectl dra`, metrics.

`make reference` writes them into `docs/`; a test compares. Settings, versions and the chart's values have programs of
their own, which it runs too.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import yaml

from dra_operator.cli.kubectl.commands import app
from dra_operator.cluster.reflector import Counters
from dra_operator.controller.metrics import Metrics

ROOT = Path(__file__).parents[1]
MADE = "Made by `make reference`"


def main() -> int:
    """Write the pages; return the exit code."""
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """Return the text of each page, by its name in `docs/`."""
    return {"kinds-fields.md": kinds(), "kubectl-options.md": verbs(), "metrics.md": metrics()}


def kinds() -> str:
    """Return the page of the fields of each kind, from their definitions."""
    lines = [
        "# Fields of our kinds",
        "",
        f"{MADE} from `crds/`. What they are for: [Kinds of our own](kinds.md).",
        "",
    ]
    for path in sorted((ROOT / "crds").glob("*/*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document.get("kind") != "CustomResourceDefinition":
                continue
            spec = document["spec"]
            lines += [f"## {spec['names']['kind']}", "", "| field | type | meaning |", "|---|---|---|"]
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"]["properties"]
                lines += [
                    row for part in ("spec", "status") if part in schema for row in _rows(part, schema[part])
                ]
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _rows(path: str, schema: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each field of an object, those within it behind it."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        inner = field.get("items", field)
        here = f"{path}.{name}{'[]' if 'items' in field else ''}"
        kind = (
            " or ".join(f"`{each}`" for each in field["enum"])
            if "enum" in field
            else inner.get("type", "any")
        )
        if "default" in field:
            kind += f", default `{field['default']}`"
        if name in required:
            kind += ", required"
        yield f"| `{here}` | {kind} | {_cell(field.get('description', ''))} |"
        yield from _rows(here, inner)


def verbs() -> str:
    """Return the page of the options of each verb of `kubectl dra`, those of all of them once."""
    commands = {
        name: app.get_command(click.Context(app), name) for name in app.list_commands(click.Context(app))
    }
    options = {
        name: {_option(param): _cell(getattr(param, "help", "") or "") for param in command.params}
        for name, command in commands.items()
        if command
    }
    seen = Counter(
        (key, text) for each in options.values() for key, text in each.items() if key.startswith("`-")
    )
    shared = [each for each, times in seen.items() if times > len(options) // 2]
    lines = [
        "# Options of kubectl dra",
        "",
        f"{MADE} from the commands. What they answer: [kubectl dra](kubectl.md).",
        "",
    ]
    lines += ["## Of most verbs", "", *_table(shared)]
    for name, each in options.items():
        command = commands[name]
        assert command is not None
        summary = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
        lines += [f"## {name}", "", summary, ""]
        own = [pair for pair in each.items() if pair not in shared and pair[0] != "`--help`"]
        lines += _table(own) if own else []
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return ["| option | meaning |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows), ""]


def _option(param: click.Parameter) -> str:
    """Return how a parameter is given."""
    if isinstance(param, click.Argument):
        return f"`{param.make_metavar(click.Context(click.Command('')))}`"
    return ", ".join(f"`{name}`" for name in param.opts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


METRICS = f"""# Metrics and alerts

{MADE} from `controller/metrics.py` and `manifests/components/prometheus/alerts.yaml`.

`GET /metrics` on port 8080, in Prometheus' text format. No metric names a claim, a pod or a user.
[In which order to look at them](operator.md#is-it-well). A standby reports zeros, so use `max` or `sum` over replicas.

## Alerts and a dashboard

With the Prometheus Operator and Grafana, remove the `#` in `manifests/kustomization.yaml` before
`components/prometheus` and `components/grafana` (a ConfigMap with the dashboard `dra-operator.json`, which you can also
import by hand). Without it, what is under `spec` in `alerts.yaml` is a rules file, and the Service has the annotations
`prometheus.io/scrape` and `prometheus.io/port`.

No alert fires because claims wait for devices that are in use. If you promise waiting times, alert on
`time() - max by (reason) (dra_operator_pending_since_timestamp_seconds)`.
"""
SECTIONS = {
    "What claims and pods wait for": (
        *("claims", "pending_", "waiting_", "gated_", "let_go_", "handed_", "reservations"),
        *("allocation", "deallocations", "reallocations", "decisions"),
    ),
    "What is wrong": (
        *("problems", "object_errors", "device_", "broken_", "foreign_", "overcommitments"),
        *("maintenance_broken", "errors", "events"),
    ),
    "The API server as the operator sees it": ("requests", "request_", "writes", "reflector_"),
    "The operator itself": ("",),
}
"""Each section, and how the names of its metrics begin; a metric is in the first that has it."""


def metrics() -> str:
    """Return the page of metrics and alerts."""
    lines = [METRICS, "| alert | severity | meaning, and what to do |", "|---|---|---|"]
    rules = yaml.safe_load((ROOT / "manifests/components/prometheus/alerts.yaml").read_text(encoding="utf-8"))
    for rule in (rule for group in rules["spec"]["groups"] for rule in group["rules"]):
        told = [
            re.sub(r"\{\{ \$(?:labels\.)?(\w+).*?\}\}", r"`\1`", _linked(rule["annotations"][each]))
            for each in ("summary", "description")
        ]
        lines.append(f"| `{rule['alert']}` | {rule['labels']['severity']} | **{told[0]}** {told[1]} |")
    rows = dict(sorted(_rows_of_metrics(), key=lambda row: row[0].startswith("process_")))
    lines += ["", "## All metrics", ""]
    for section, begins in SECTIONS.items():
        lines += [f"### {section}", "", "| metric | labels | value, and when to look |", "|---|---|---|"]
        lines += [rows.pop(name) for name in [*rows] if name.removeprefix("dra_operator_").startswith(begins)]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _rows_of_metrics() -> Iterator[tuple[str, str]]:
    """Yield the name of each metric as it is scraped, and its row."""
    source = Metrics()
    reflectors = {"Node": SimpleNamespace(counters=Counters(), silence=0.0)}
    source.register_reflectors(lambda: reflectors)  # type: ignore[arg-type, return-value]
    source.register_events(dict)
    declared = {
        each._name: each._labelnames  # noqa: SLF001
        for each in vars(source).values()
        if hasattr(each, "_labelnames")
    }
    for family in source.registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = declared.get(family.name) or (family.samples[0].labels if family.samples else ())
        told = ", ".join(f"`{label}`" for label in labels if label != "le")
        yield name, f"| `{name}` | {told} | {_linked(family.documentation)} |"


def _linked(text: str) -> str:
    """Lead what a text names in docs/, with a heading or without, to the page."""

    def link(found: re.Match[str]) -> str:
        page, heading = found[1], found[2]
        if heading and re.search(
            rf"^#+ {heading}$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE
        ):
            return f"[{heading}]({page}#{heading.lower().replace(' ', '-')})"
        return f"[{page}]({page})" + (f", {heading}," if heading else "")

    return re.sub(r"docs/([\w-]+\.md)(?:, ([A-Z][\w ]+?)(?:,|(?=[.:;])))?", link, _cell(text))


if __name__ == "__main__":
    sys.exit(main())
