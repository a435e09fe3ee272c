"""The JSON schema of the answers of `kubectl dra`, as docs/kubectl-dra.schema.json has it.

`PYTHONPATH=tests python -m answer_schema > docs/kubectl-dra.schema.json` writes it anew.
"""

import json
import sys
from typing import Any

from pydantic import TypeAdapter

from dra_operator.cli.kubectl.answering import API_VERSION, LISTS, camel
from dra_operator.history.check import CheckReport
from dra_operator.history.comparison import ReplayReport
from dra_operator.history.holders import PastHolders
from dra_operator.history.report import HistoryReport
from dra_operator.history.room import PastHeadroom
from dra_operator.questions.audit import AuditReport
from dra_operator.questions.claims import ClaimList
from dra_operator.questions.device_table import DeviceList
from dra_operator.questions.explain import ExplainAnswer
from dra_operator.questions.fit import FitAnswer
from dra_operator.questions.gangs import GangAnswer
from dra_operator.questions.headroom import HeadroomAnswer
from dra_operator.questions.impact import ImpactReport
from dra_operator.questions.lint import LintReport
from dra_operator.questions.status import StatusReport
from dra_operator.questions.usage import HolderReport, MissingDevices, UsageReport
from dra_operator.questions.waiting import WaitingList
from dra_operator.questions.workload_pods import WorkloadAnswer


def schema_text() -> str:
    """Return the schema of all answers as JSON."""
    kinds = {
        "Audit": AuditReport,
        "CheckReport": CheckReport,
        "ClaimList": ClaimList,
        "DeviceList": DeviceList,
        "Explanation": ExplainAnswer,
        "Fit": FitAnswer,
        "Gang": GangAnswer,
        "Headroom": HeadroomAnswer,
        "HistoryReport": HistoryReport,
        "Holders": HolderReport,
        "Impact": ImpactReport,
        "Lint": LintReport,
        "ReplayReport": ReplayReport,
        "Status": StatusReport,
        "MissingDevices": MissingDevices,
        "PastHeadroom": PastHeadroom,
        "PastHolders": PastHolders,
        "WorkloadExplanation": WorkloadAnswer,
        "Usage": UsageReport,
        "WaitingList": WaitingList,
    }
    return json.dumps(schema(kinds), indent=2) + "\n"


def schema(kinds: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of some types of answers, by their kinds."""
    definitions: dict[str, Any] = {}
    answers = []
    for kind, type_ in sorted(kinds.items()):
        found = TypeAdapter(type_).json_schema(ref_template="#/$defs/{model}")
        definitions |= {name: _camelled(each) for name, each in found.pop("$defs", {}).items()}
        found = _camelled(found)
        listed = LISTS.get(kind)
        found["properties"] = {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind},
            **{"items" if name == listed else name: each for name, each in found["properties"].items()},
        }
        found["required"] = ["apiVersion", "kind"]
        found["title"] = kind
        definitions[kind] = found
        answers.append({"$ref": f"#/$defs/{kind}"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Answers of kubectl dra",
        "oneOf": answers,
        "$defs": dict(sorted(definitions.items())),
    }


def _camelled(found: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type with the names that JSON has; as empty fields are left out, none is required."""
    if "properties" not in found:
        return found
    properties = {camel(name): _without_default(each) for name, each in found["properties"].items()}
    return {**{name: each for name, each in found.items() if name != "required"}, "properties": properties}


def _without_default(found: dict[str, Any]) -> dict[str, Any]:
    if found.get("format") == "fraction" or any(
        each.get("format") == "fraction" for each in found.get("anyOf", ())
    ):
        # Exact inside, and printed as any number; what is None is left out.
        return {"type": "number"}
    return {name: each for name, each in found.items() if name not in ("default", "title")}


if __name__ == "__main__":
    sys.stdout.write(schema_text())
