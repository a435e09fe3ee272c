"""What kube-apiserver answered to the scenarios, recorded: one line a request in `recorded_answers.jsonl`."""

import json
from pathlib import Path
from typing import Any

Answers = list[dict[str, Any]]

_FILE = Path(__file__).with_name("recorded_answers.jsonl")


def read_recording() -> dict[str, Answers]:
    """Return the answers of each scenario, in the order of its steps."""
    found: dict[str, Answers] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["scenario"], []).append(row["answer"])
    return found


def write_recording(answers: dict[str, Answers]) -> None:
    """Write the answers of all scenarios."""
    rows = (
        json.dumps({"scenario": name, "answer": answer}, sort_keys=True)
        for name, of_scenario in answers.items()
        for answer in of_scenario
    )
    _FILE.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
