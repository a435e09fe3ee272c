"""`kubectl dra mcp`: the verbs as tools of the Model Context Protocol, JSON-RPC over stdin and stdout.

A tool is a verb, its arguments are those of the verb, and its answer is the document of `-o json`. Nothing is written.
Source: https://modelcontextprotocol.io/specification/2025-11-25, tools.
"""

import contextlib
import gc
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import click

from dra_operator._version import __version__
from dra_operator.api.text import did_you_mean, near_object, shown
from dra_operator.cli.kubectl.answering import CANNOT_SAY, camel
from dra_operator.cli.kubectl.commands import VERBS, VerbGroup
from dra_operator.cli.kubectl.commands import app as kubectl_dra
from dra_operator.cli.kubectl.options import connection, option

PROTOCOLS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The versions of the protocol, the newest first. To tools they are alike."""
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_UNKNOWN_METHOD: Final = -32601
_INVALID_PARAMS: Final = -32602
_MANIFESTS: Final = "manifests"
_STDIN: Final = "-"
_ABOUT_MANIFESTS: Final = (
    "Manifests, as YAML or JSON, that lie over the cluster, "
    f"or what is asked about if the subject is {_STDIN}."
)
_LONGEST_NAME: Final = 253
"""As in Kubernetes; what is longer is no file either."""
_INSTRUCTIONS: Final = (
    "Questions about devices of Dynamic Resource Allocation in a Kubernetes cluster. Answers are decided by the rules "
    "of the cluster's own allocator, and nothing is written. For a what-if, give manifests, or what is taken as gone."
)


class ArgumentError(Exception):
    """An argument of a tool that is refused, in a sentence: an assistant can then do better."""


class RpcError(Exception):
    """A request that is refused: the code of JSON-RPC, and a sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Tool:
    """A verb, and the parameters that an assistant may give, by their names in JSON.

    What says where to read, and how to print, is the server's.
    """

    name: str
    command: click.Command
    params: Mapping[str, click.Parameter]

    def schemas(self) -> dict[str, dict[str, Any]]:
        """Return the JSON schemas of the arguments."""
        found = {name: _schema(param) for name, param in self.params.items()}
        return {**found, _MANIFESTS: {"type": "string", "description": _ABOUT_MANIFESTS}}

    def document(self) -> dict[str, Any]:
        """Return the tool as `tools/list` has it."""
        return {
            "name": self.name,
            "description": (self.command.help or "").strip(),
            "inputSchema": {
                "type": "object",
                "properties": self.schemas(),
                "required": [name for name, param in self.params.items() if param.required],
                "additionalProperties": False,
            },
            "annotations": {"title": VERBS[self.name], "readOnlyHint": True},
        }

    def words(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the words of the command line that some arguments stand for. Raises ArgumentError."""
        options, subjects, schemas = [], [], self.schemas()
        for name, value in arguments.items():
            if name not in schemas:
                near = near_object(name, schemas)
                hint = did_you_mean(near) if near else f": it has {', '.join(schemas)}"
                raise ArgumentError(f"{self.name} has no argument {shown(name)}{hint}")
            _check(name, value, schemas[name])
            param = self.params.get(name)
            values = value if isinstance(value, list) else [value]
            if isinstance(param, click.Argument):
                subjects += [_subject(each) for each in values]
            elif param is None:
                continue
            elif not isinstance(value, bool):
                options += [f"{param.opts[-1]}={each}" for each in values]
            elif value:
                options.append(param.opts[-1])
        for name, param in self.params.items():
            if param.required and name not in arguments:
                raise ArgumentError(f"{name} is missing: {_description(param)}")
        # What is asked about does not lie over the cluster already.
        if _MANIFESTS in arguments and (_STDIN not in subjects or arguments.get("offline")):
            options.append(f"--filename={_STDIN}")
        return [*options, "--", *subjects]


_NOT_ASKED: Final = frozenset(
    {"files", "snapshot", "history", "format", "no_headers", *(param.name for param in connection())}
)


_NO_QUESTIONS: Final = ("record", "report", "replay", "mcp")


def find_tools() -> dict[str, Tool]:
    """Return the tools, one for each verb."""
    group = kubectl_dra
    assert isinstance(group, VerbGroup)
    context = click.Context(group)
    found = {}
    for name in VERBS:
        command = group.get_command(context, name)
        if name not in _NO_QUESTIONS and command is not None:
            asked = [each for each in command.params if each.name and each.name not in _NOT_ASKED]
            found[name] = Tool(name, command, {camel(str(each.name)): each for each in asked})
    return found


def _description(param: click.Parameter) -> str:
    return str(param.metavar) if isinstance(param, click.Argument) else str(getattr(param, "help", ""))


def _schema(param: click.Parameter) -> dict[str, Any]:
    """Return the JSON schema of a parameter."""
    item: dict[str, Any] = {"type": "string"}
    if isinstance(param.type, click.Choice):
        item["enum"] = [str(each) for each in param.type.choices]
    elif isinstance(param.type, click.types.BoolParamType):
        item["type"] = "boolean"
    elif isinstance(param.type, click.types.IntParamType):
        item["type"] = "integer"
    # Where a verb has one subject, it says so itself.
    is_list = getattr(param, "multiple", False) or (param.nargs == -1 and param.callback is None)
    typed = {"type": "array", "items": item} if is_list else item
    return {**typed, "description": _description(param)}


_TYPES: Final[Mapping[str, Any]] = {"string": str, "boolean": bool, "integer": int, "array": list}
_ARTICLES: Final = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "array": "a list",
}


def _check(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    wanted = schema["type"]
    if not isinstance(value, _TYPES[wanted]) or (wanted == "integer" and isinstance(value, bool)):
        raise ArgumentError(f"{name}: {shown(value)} is not {_ARTICLES[wanted]}")
    for number, each in enumerate(value if "items" in schema else ()):
        _check(f"{name}[{number}]", each, schema["items"])
    if value not in (allowed := schema.get("enum", [value])):
        raise ArgumentError(f"{name}: {shown(value)} is not one of {', '.join(allowed)}")


def _subject(text: str) -> str:
    """Return what is named. Raises ArgumentError for a file: an assistant reads no files of this machine here."""
    hint = f"give what is to be read as {_MANIFESTS}, and {_STDIN} in its place"
    if "\n" in text:
        raise ArgumentError(f"{shown(text)} is no name: {hint}")
    if text != _STDIN and Path(text[:_LONGEST_NAME]).exists():
        raise ArgumentError(f"{text} is a file: {hint}")
    return text


def call(tool: Tool, arguments: Mapping[str, Any], source: Sequence[str]) -> dict[str, Any]:
    """Return the result of a tool, asked of a `source`: options that say where to read.

    It is the verb's document, and what the verb says beside it; an error where there is no answer.
    """
    try:
        words = [*source, "--output=json", *tool.words(arguments)]
    except ArgumentError as error:
        return {"content": [{"type": "text", "text": f"error: {error}"}], "isError": True}
    answer, said = io.StringIO(), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(str(arguments.get(_MANIFESTS, "")).encode(errors="replace")))
    stdin, sys.stdin = sys.stdin, given
    code = CANNOT_SAY
    try:
        with contextlib.redirect_stdout(answer), contextlib.redirect_stderr(said):
            tool.command.main(words, prog_name=tool.name, standalone_mode=False)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except click.ClickException as error:
        said.write(f"error: {error.format_message()}\n")
    except Exception as error:  # noqa: BLE001 - one answer less, and the server goes on
        said.write(f"error: a defect of kubectl dra, please report it: {type(error).__name__}\n")
    finally:
        sys.stdin = stdin
    notes = {"type": "text", "text": f"{said.getvalue()}exit code {code}"}
    if not answer.getvalue():
        return {"content": [notes], "isError": True}
    document = {"type": "text", "text": answer.getvalue().strip()}
    return {
        "content": [document, notes],
        "structuredContent": json.loads(answer.getvalue()),
        "isError": False,
    }


@dataclass(frozen=True, slots=True)
class Server:
    """Answers requests by the tools, each asked of one `source`."""

    tools: Mapping[str, Tool]
    source: Sequence[str] = ()

    def reply(self, line: str) -> dict[str, Any] | None:
        """Return the response to a line, or None for a notification."""
        number: Any = None
        try:
            message = _read_request(line)
            if "id" not in message:
                return None
            number = message["id"]
            return {"jsonrpc": "2.0", "id": number, "result": self._result(message)}
        except RpcError as error:
            problem = {"code": error.code, "message": str(error)}
            return {"jsonrpc": "2.0", "id": number, "error": problem}

    def _result(self, message: Mapping[str, Any]) -> dict[str, Any]:
        params = message.get("params") or {}
        if not isinstance(params, dict):
            raise RpcError(_INVALID_PARAMS, "params is not an object")
        match message["method"]:
            case "initialize":
                asked = params.get("protocolVersion")
                return {
                    "protocolVersion": asked if asked in PROTOCOLS else PROTOCOLS[0],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "kubectl-dra", "version": __version__},
                    "instructions": _INSTRUCTIONS,
                }
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [tool.document() for tool in self.tools.values()]}
            case "tools/call":
                return self._call(params)
        raise RpcError(_UNKNOWN_METHOD, f"there is no method {shown(message['method'])}")

    def _call(self, params: Mapping[str, Any]) -> dict[str, Any]:
        tool = self.tools.get(str(params.get("name")))
        if tool is None:
            name = shown(params.get("name"))
            raise RpcError(_INVALID_PARAMS, f"there is no tool {name}: there are {', '.join(self.tools)}")
        arguments = params.get("arguments") or {}
        if not isinstance(arguments, dict):
            raise RpcError(_INVALID_PARAMS, "arguments is not an object")
        return call(tool, arguments, self.source)


def _read_request(line: str) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RpcError(_PARSE_ERROR, f"the line is no JSON: {error}") from None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise RpcError(_INVALID_REQUEST, "write one request a line, an object with a method")
    return message


def serve(server: Server, requests: IO[str], responses: IO[str]) -> None:
    """Answer requests, one a line, until there are no more."""
    for line in requests:
        reply = server.reply(line) if line.strip() else None
        if reply is not None:
            responses.write(json.dumps(reply) + "\n")
            responses.flush()
        # `main` leaves it to the end of the process, which is far away here.
        gc.collect()


@click.command(
    "mcp",
    params=[
        option("--snapshot", metavar="FILE", help="Ask a file of `dra-operator snapshot`."),
        option("--history", metavar="URL", help="Ask a record of `kubectl dra record`."),
        *connection(),
    ],
)
def app(**given: Any) -> None:
    """Serve the questions to an assistant, by the Model Context Protocol over stdin and stdout.

    Each verb is a tool; the cluster, and as whom it is asked, are chosen here. Reads only.
    """
    params = {each.name: each for each in app.params}
    source = [
        f"{params[name].opts[-1]}={each}"
        for name, value in given.items()
        for each in (value if isinstance(value, tuple) else (value,))
        if each
    ]
    # Programs that a question starts have neither the requests nor the responses.
    requests, responses = os.fdopen(os.dup(0), encoding="utf-8", errors="replace"), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    serve(Server(find_tools(), source), requests, responses)
