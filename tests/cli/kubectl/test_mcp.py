"""`kubectl dra mcp`: each verb is a tool with the verb's answer, and what is malformed is refused with a sentence."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dra_operator.cli.kubectl.commands import VERBS
from dra_operator.cli.kubectl.verbs.mcp import Server, find_tools
from mcp_client import connected

ROOT = Path(__file__).parents[3]
SNAPSHOT = ROOT / "examples" / "questions" / "cluster.yaml"
PROGRAM = Path(sys.executable).parent / "kubectl-dra"
RULE = """
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: hot}
spec:
  deviceSelector: {pool: node-3}
  taint: {key: example.com/hot, effect: NoExecute}
"""
BROKEN = "apiVersion: dra-operator.io/v1alpha1\nkind: DeviceMaintenance\nmetadata: 4\n"
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: three, namespace: team-a}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 3}}]}}
"""
QUESTIONS = {
    "top": ({"by": "class"}, "--by class"),
    "claims": ({"allNamespaces": True, "states": ["pending"]}, "-A --state pending"),
    "waiting": ({"allNamespaces": True}, "-A"),
    "devices": ({"names": ["node-7"], "node": "node-7"}, "--node node-7 node-7"),
    "explain": ({"subject": "pod/train-1", "namespace": "team-a"}, "pod/train-1 -n team-a"),
    "fit": ({"subject": "class/gpu.example.com", "copies": 9}, "class/gpu.example.com -c 9"),
    "headroom": ({"subject": "class/gpu.example.com"}, "class/gpu.example.com"),
    "who": ({"subject": "node/node-7"}, "node/node-7"),
    "lint": ({"allNamespaces": True}, "-A"),
    "impact": ({"subject": "node/node-3"}, "node/node-3"),
    "status": ({}, ""),
    "audit": ({"sorts": ["NodeGone"]}, "--sort NodeGone"),
}


def run(command):
    """Run a command to its end."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def test_each_verb_is_a_tool_with_its_answer():
    """What a tool answers is what the verb prints as JSON, and its exit code and notes are told."""
    async with connected(PROGRAM, "mcp", f"--snapshot={SNAPSHOT}") as session:
        listed = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert (
            [*listed]
            == [*QUESTIONS]
            == [verb for verb in VERBS if verb not in ("record", "report", "replay", "mcp")]
        )
        for name, (arguments, line) in QUESTIONS.items():
            answer = await session.call_tool(name, arguments)

            command = [PROGRAM, name, f"--snapshot={SNAPSHOT}", "-o", "json", *line.split()]
            done = await asyncio.to_thread(run, command)
            assert answer.structured_content == json.loads(done.stdout)
            assert answer.content[-1].text == f"{done.stderr}exit code {done.returncode}"


async def test_manifests_lie_over_the_cluster():
    """A what-if is text: as if it were applied, or as the subject."""
    async with connected(PROGRAM, "mcp", f"--snapshot={SNAPSHOT}") as session:
        before = await session.call_tool("devices", {"taint": "example.com/hot"})
        over = await session.call_tool("devices", {"taint": "example.com/hot", "manifests": RULE})
        hit = await session.call_tool("impact", {"subject": "-", "manifests": RULE})

    assert before.structured_content.get("items", []) == []
    assert {each["pool"] for each in over.structured_content["items"]} == {"node-3"}
    assert [each["name"] for each in hit.structured_content["items"]] == [
        "batch-0-gpu-h6n3z",
        "batch-1-gpu-r2v9b",
    ]


@pytest.mark.parametrize("name", ["explain", "fit", "headroom"])
def test_manifests_are_what_is_asked_about(name):
    """The subject - is what is given."""
    result = ask("tools/call", name=name, arguments={"subject": "-", "manifests": CLAIM})["result"]

    assert not result["isError"], result
    assert "three" in result["content"][0]["text"]


def ask(method, **params):
    """Return the response of a server that asks the snapshot."""
    server = Server(find_tools(), [f"--snapshot={SNAPSHOT}"])
    return server.reply(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("explain", {"subjct": "pod/a"}, 'explain has no argument "subjct"; did you mean "subject"?'),
        ("top", {"by": "rack"}, 'by: "rack" is not one of node, pool, class, namespace'),
        ("top", {"names": "node-1"}, 'names: "node-1" is not a list'),
        ("top", {"names": [1]}, "names[0]: 1 is not a text"),
        ("fit", {"subject": "class/gpu.example.com", "copies": "2"}, 'copies: "2" is not a whole number'),
        ("fit", {"subject": "class/gpu.example.com", "copies": True}, "copies: true is not a whole number"),
        ("fit", {}, "subject is missing: FILE | template/NAME"),
        ("fit", {"subject": "-", "manifests": 1}, "manifests: 1 is not a text"),
        ("fit", {"subject": str(SNAPSHOT)}, f"{SNAPSHOT} is a file: give what is to be read as manifests"),
        (
            "fit",
            {"subject": "-", "manifests": "kind: Pod"},
            "stdin, document 1 (line 1): Pod: apiVersion: is required",
        ),
        ("explain", {"subject": "pod/nobody"}, 'there is no Pod "nobody" in namespace "default"'),
        ("fit", {"subject": f"kind: Pod\n{'x' * 999}"}, "is no name: give what is to be read as manifests"),
        ("fit", {"subject": "x" * 999}, "error: "),
        ("fit", {"subject": "-", "manifests": "\ud800"}, "error: nothing is asked about"),
        ("impact", {"subject": "-", "manifests": BROKEN}, "error: "),
        ("who", {"subject": "--help"}, '"--help"'),
        ("waiting", {"files": ["/etc/hosts"]}, 'waiting has no argument "files"'),
        (
            "waiting",
            {"namespace": "team-a", "allNamespaces": True},
            "-n names one namespace, and -A all of them",
        ),
    ],
)
def test_argument_is_refused_with_a_sentence(name, arguments, sentence):
    """What an assistant gets wrong is an answer that says what to write."""
    result = ask("tools/call", name=name, arguments=arguments)["result"]

    assert result["isError"]
    assert sentence in result["content"][0]["text"]
    assert "Traceback" not in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("rubbish", -32700, "the line is no JSON"),
        ("[" * 100_000, -32700, "the line is no JSON"),
        ("[]", -32600, "write one request a line"),
        ('{"id": 1, "method": 5}', -32600, "write one request a line"),
        ('{"id": 1, "method": "resources/list"}', -32601, 'there is no method "resources/list"'),
        ('{"id": 1, "method": "tools/call", "params": []}', -32602, "there is no tool null: there are top, "),
        ('{"id": 1, "method": "tools/call", "params": [1]}', -32602, "params is not an object"),
        ('{"id": 1, "method": "tools/call", "params": {"name": "mcp"}}', -32602, 'there is no tool "mcp"'),
        (
            '{"id": 1, "method": "tools/call", "params": {"name": "top", "arguments": [1]}}',
            -32602,
            "is not an object",
        ),
    ],
)
def test_request_is_refused_with_a_sentence(line, code, sentence):
    """What is no request of the protocol is an error of JSON-RPC, and the server goes on."""
    error = Server(find_tools()).reply(line)["error"]

    assert error["code"] == code
    assert sentence in error["message"]


@pytest.mark.parametrize(
    ("asked", "spoken"), [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25"), (3, "2025-11-25")]
)
def test_protocol_version_is_agreed(asked, spoken):
    """The version of the client if it is known, else the newest."""
    assert ask("initialize", protocolVersion=asked)["result"]["protocolVersion"] == spoken


def test_notification_has_no_response():
    """Without an id there is nothing to answer."""
    assert Server(find_tools()).reply('{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None
