"""The names that others rely on: they are on the wire, in alerts, scripts and manifests.

`wire_names.json` lists them, but for those of which another file has the list: reasons (`SCENES` of
cli/test_reasons.py) and settings (the chart's values.schema.json). Whoever changes one breaks somebody's alert or
script: say so in CHANGELOG.md.
"""

import json
import re
from pathlib import Path

import pytest

from dra_operator.api import names
from dra_operator.cli.commands import app
from dra_operator.controller import messages
from dra_operator.controller.metrics import Metrics
from dra_operator.kinds import allocation_policy

LISTED = json.loads((Path(__file__).parent / "wire_names.json").read_text())


def constants(module) -> set[str]:
    """Return the texts that a module names at its top."""
    return {value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


def metrics() -> set[str]:
    """Return each metric with its labels."""
    return {
        f"{metric._name}{{{','.join(metric._labelnames)}}}"
        for metric in vars(Metrics()).values()
        if hasattr(metric, "_labelnames")
    }


def logged() -> set[str]:
    """Return the texts of logs as the page lists them, which is compared with the code elsewhere."""
    page = (Path(__file__).parents[1] / "docs" / "operator.md").read_text()
    rows = re.findall(
        r"^\| (`.*?) \|", page.partition("## What it logs")[2].partition("\n##")[0], re.MULTILINE
    )
    return {text for row in rows for text in re.findall(r"`([^`]+)`", row)}


THERE_ARE = {
    "keys of annotations, labels, finalizers and taints": {each for each in constants(names) if "/" in each},
    "reasons of Events": {
        value
        for module in (messages, allocation_policy)
        for name, value in vars(module).items()
        if name.startswith("EVENT_")
    },
    "texts of logs": logged(),
    "metrics": metrics(),
    "commands": set(app.list_commands(None)),
}


@pytest.mark.parametrize("what", THERE_ARE)
def test_names_that_others_rely_on_are_as_listed(what):
    """None is gone, and none is new without being listed."""
    assert sorted(THERE_ARE[what]) == LISTED[what]
