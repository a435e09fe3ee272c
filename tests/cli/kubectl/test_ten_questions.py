"""The ten questions of examples/questions: each command of the key answers what the key says."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dra_operator.cli.kubectl.commands import app

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "questions"
KEY = yaml.safe_load(Path(__file__).with_name("ten_questions.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", KEY, ids=lambda entry: f"{entry['question']}: {entry['command']}")
def test_a_question_is_answered_as_the_key_says(entry, monkeypatch):
    """The command ends with the code of the key, and says all that the key asks for."""
    monkeypatch.chdir(ROOT)
    arguments = [*shlex.split(entry["command"]), "--snapshot", "examples/questions/cluster.yaml"]

    done = CliRunner().invoke(app, arguments, prog_name="kubectl dra")

    printed = re.sub(r"\s+", " ", done.stdout + done.stderr)
    assert [text for text in entry["says"] if text not in printed] == [], printed
    assert done.exit_code == entry["exit_code"]


def test_each_question_has_its_key():
    """No question of the page is without an answer, and no answer without a question."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")

    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", page, re.MULTILINE)]
    assert numbers == list(range(1, 11))
    assert {entry["question"] for entry in KEY} == set(numbers)
