"""What is said of the cluster of examples/questions: counts that agree with each other, and what to do next."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from dra_operator.cli.kubectl.commands import app

SNAPSHOT = Path(__file__).parents[3] / "examples" / "questions" / "cluster.yaml"


def ask(command):
    """The finished command, and all that it printed, with single blanks."""
    done = CliRunner().invoke(
        app, [*shlex.split(command), "--snapshot", str(SNAPSHOT)], prog_name="kubectl dra"
    )
    return done, re.sub(r"\s+", " ", done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("who", 0, "note: 11 of 20 devices held, by 8 claims note: 1 claim holds devices that are not"),
        ("who", 0, "team-b/eval node-9/gpu-0 (gone)"),
        ("who --idle", 0, "note: 2 of 20 devices held idle, by 2 claims"),
        ("who node/node-1 --idle", 1, "note: none of 2 devices of node/node-1 is held idle"),
        ("top", 0, "(7) 20 11 5 4 2"),
        ("top --by namespace", 0, "team-a 7 0 0 4 team-b 4 0 2 4"),
        ("who node/node-9", 0, "note: 1 claim holds devices that are not published (team-b/eval)"),
        ("impact node/node-9", 2, 'Node "node-9" is gone, and claim team-b/eval is still allocated there'),
    ],
)
def test_devices_that_are_not_published_count_nowhere(command, code, words):
    """All verbs count the same devices, and name the claim that holds one of a node that is gone."""
    done, printed = ask(command)

    assert words in printed
    assert done.exit_code == code


def test_what_has_devices_says_for_whom_and_where_else():
    """The claim of a running pod: since when, for whom, on how many nodes it could be."""
    done, printed = ask("explain pod/train-0 -n team-a")

    assert "allocated" in printed
    assert "for Pod train-0 (running)" in printed
    assert "as things are it could be on" in printed
    assert done.exit_code == 0


@pytest.mark.parametrize("verb", ["audit", "explain pod/train-1", "fit class/h100.example.com"])
def test_namespace_that_is_not_there_is_no_answer(verb):
    """That nothing is wrong in it would be true, and a typing error would pass."""
    done, printed = ask(f"{verb} -n team-c")

    assert (done.exit_code, done.stdout) == (2, "")
    assert 'there is no namespace "team-c": did you mean "team-a"?' in printed


def test_drain_says_why_the_other_nodes_do_not_do():
    """That the drained node is cordoned is no reason; the devices of the others are counted."""
    done, printed = ask("impact node/node-5")

    assert (
        "train-0 no team-a/train-0-gpu-c7k2p: NotEnoughDevices: request gpu: 16 devices published, 8 in class "
        "h100.example.com, 4 tainted"
    ) in printed
    assert "unschedulable" not in printed
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("audit", 1, "note: selectors of classes and claims are not checked here: kubectl dra lint"),
        ("top --by class", 0, "a100.example.com 0 0 0 0 0 -"),
        (
            "devices --class a100.example.com",
            0,
            "class a100.example.com selects none of 20 devices: kubectl dra",
        ),
        ("explain class/a100.example.com", 1, 'a device of DeviceClass "a100.example.com" would wait'),
        ("explain class/a100.example.com", 1, "selects no device: kubectl dra lint class/a100.example.com"),
    ],
)
def test_class_that_selects_no_device_leads_to_lint(command, code, words):
    """Whichever verb somebody tries, it names what says why."""
    done, printed = ask(command)

    assert words in printed
    assert done.exit_code == code


def test_hypothetical_node_is_no_matter_of_what_the_scheduler_did():
    """It would fit there, and has not been placed as the node is not there."""
    node = SNAPSHOT.with_name("node-8.yaml")

    done, _ = ask(f"explain pod/train-1 -n team-a -f {node}")

    assert done.stdout.strip() == 'Pod "team-a/train-1" would fit on node-8'
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("explain pod/train-1", 'no Pod "train-1" in namespace "default"; there is one in team-a: -n team-a'),
        ("explain pod/nobody", 'no Pod "nobody" in namespace "default"; -n names another namespace'),
        ("explain tarin-1 -n team-a", 'in namespace "team-a"; did you mean "train-1"?'),
        ("fit template/infer", 'in namespace "default"; there is one in team-b: -n team-b'),
        ("fit template/infer -n team-b --without claim/notbook", 'did you mean "notebook"?'),
        ("fit class/h100", 'there is no DeviceClass "h100"; did you mean "h100.example.com"?'),
        ("claims notbook -n team-b", 'did you mean "notebook"?'),
        ("explain pod train-1", "write pod/train-1"),
        ("who claim/notebook", "kubectl dra claims notebook"),
        ("impact node-3", "write node/node-3"),
        ("impact class/h100.example.com", "a DeviceClass changes by a file: kubectl get deviceclass"),
        ("drain node-3", "kubectl dra impact node/NAME"),
    ],
)
def test_name_that_is_not_there_leads_to_the_right_one(command, words):
    """By its namespace, by a name alike, or by the way to write it."""
    done, printed = ask(command)

    assert (done.exit_code, done.stdout) == (2, "")
    assert words in printed


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("audit", ["debug", "eval", "notebook"]),
        ("who --idle", ["debug", "eval", "notebook"]),
        ("explain claim/notebook -n team-b", ["notebook"]),
    ],
)
def test_names_are_those_of_kubectl_and_each_once(command, names):
    """All verbs print them alike, for `kubectl get` to read."""
    done, _ = ask(f"{command} -o name")

    assert sorted(done.stdout.split()) == [f"resourceclaim.resource.k8s.io/{name}" for name in names]
