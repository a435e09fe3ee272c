"""`--watch`: the cluster is kept up with by watches, and what changes in an answer is printed, as kubectl does.

A watch that ends is begun anew from the last version; where that is forgotten, the kind is listed anew.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

from dra_operator.cli.kubectl.answering import Answer, json_text, say, write_lines
from dra_operator.cli.kubectl.client import RefusedError, RequestError
from dra_operator.cli.kubectl.options import JSON, NAME, YAML, Options
from dra_operator.cli.kubectl.reading import ListedKind, ReadingError, trim
from dra_operator.cli.kubectl.source import Source, build_source

QUIET_SECONDS: Final = 0.5
"""Changes within so long are answered together."""
_RETRY_SECONDS: Final = 2.0
_SERVER_SECONDS: Final = 300
"""How long the server lets a watch last."""

Key = tuple[str, str, str]
_Change = tuple[Key, dict[str, Any] | None]


def watch(source: Source, options: Options, ask: Callable[[Source], Answer]) -> None:
    """Print an answer, and then what changes in it, until Ctrl-C or until the cluster cannot be read any more."""
    objects: dict[Key, dict[str, Any]] = {_key(body): body for body in source.bodies}
    changes: queue.Queue[_Change | Exception] = queue.Queue()
    for listed in source.listed:
        threading.Thread(target=_follow, args=(source, listed, changes), daemon=True).start()
    printed = _print(ask(source), options, None)
    try:
        while True:
            _apply(objects, changes)
            unread = source.cluster.unread
            source_now = build_source(list(objects.values()), unread, options, source.namespace)
            printed = _print(ask(source_now), options, printed)
    except KeyboardInterrupt:
        raise SystemExit(0) from None


def _apply(objects: dict[Key, dict[str, Any]], changes: "queue.Queue[_Change | Exception]") -> None:
    """Wait for changes, and take those that come close together. Raises ReadingError."""
    wait: float | None = None
    while True:
        try:
            change = changes.get(timeout=wait)
        except queue.Empty:
            return
        if isinstance(change, Exception):
            raise ReadingError(str(change))
        key, body = change
        if body is None:
            objects.pop(key, None)
        else:
            objects[key] = body
        wait = QUIET_SECONDS


def _follow(source: Source, listed: ListedKind, changes: "queue.Queue[_Change | Exception]") -> None:
    """Put what changes of a kind into a queue; an error ends it."""
    client = source.client
    assert client is not None
    version = listed.version
    failures = 0
    while True:
        try:
            for event in client.watch(listed.path, version, {"timeoutSeconds": str(_SERVER_SECONDS)}):
                failures = 0
                body = event.get("object") or {}
                if event.get("type") == "ERROR":
                    if body.get("code") == HTTPStatus.GONE:
                        raise RefusedError(HTTPStatus.GONE, str(body.get("message")), is_status=True)
                    raise RequestError(f"watch {listed.path}: {body.get('message')}")
                version = body["metadata"]["resourceVersion"]
                if event.get("type") != "BOOKMARK":
                    full = trim({"apiVersion": listed.api_version, "kind": listed.kind, **body})
                    changes.put((_key(full), None if event["type"] == "DELETED" else full))
        except RefusedError as error:
            if error.status != HTTPStatus.GONE:
                changes.put(error)
                return
            version = _list_again(source, listed, changes)
        except RequestError as error:
            # A server that restarts is back in a while.
            failures += 1
            if failures > 1:
                changes.put(error)
                return
            time.sleep(_RETRY_SECONDS)


def _list_again(source: Source, listed: ListedKind, changes: "queue.Queue[_Change | Exception]") -> str:
    """Put all objects of a kind into the queue, and return the version of the list."""
    assert source.client is not None
    version = listed.version
    for items, _, page_version in source.client.pages(listed.path):
        version = page_version
        for item in items:
            full = trim({"apiVersion": listed.api_version, "kind": listed.kind, **item})
            changes.put((_key(full), full))
    return version


def _key(body: dict[str, Any]) -> Key:
    metadata = body["metadata"]
    return str(body["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"])


def _print(answer: Answer, options: Options, before: Sequence[str] | None) -> list[str]:
    """Print an answer, or of one that follows another the lines that were not in that; return its lines."""
    if options.format in (JSON, YAML):
        lines = [json_text(answer)]
    else:
        lines = list(answer.names if options.format == NAME else answer.lines)
    if before is None:
        write_lines(lines)
        say(f"note: {line}" for line in answer.asides)
    else:
        known = set(before)
        write_lines([line for line in lines if line not in known])
    return lines
