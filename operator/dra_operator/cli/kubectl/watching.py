"""`--watch`: the cluster is kept up with by watches, and what changes in an answer is printed, as kubectl does.

A watch that ends is begun anew from the last version; where that is forgotten, the kind is listed anew.
"""

import gc
import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from dra_operator.cli.kubectl.answering import Answer, json_text, say, write_lines, yaml_text
from dra_operator.cli.kubectl.client import SILENT_SECONDS, ApiClient
from dra_operator.cli.kubectl.errors import ReadingError, RefusedError, RequestError
from dra_operator.cli.kubectl.options import JSON, NAME, YAML, Options
from dra_operator.cli.kubectl.reading import ListedKind, missing_rights, trim
from dra_operator.cli.kubectl.source import Source, build_source

QUIET_SECONDS: Final = 0.5
"""Changes within so long are answered together."""
LONGEST_SECONDS: Final = 2.0
"""A change is answered after so long, even if others go on coming."""
_RETRY_SECONDS: Final = 2.0
_SHORTEST_SECONDS: Final = 1.0
_MOST_FAILURES: Final = 3
_SERVER_SECONDS: Final = 50
"""How long the server lets a watch last: so soon it is known that one which is silent is dead."""

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object as it is now; None if it is gone."""

    key: Key
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class KindListing:
    """All objects of a kind, where a watch could not go on."""

    kind: str
    bodies: list[dict[str, Any]]


Changes: TypeAlias = "queue.Queue[ObjectChange | KindListing | Exception]"


def watch(source: Source, options: Options, ask: Callable[[Source], Answer]) -> None:
    """Print an answer, and then what changes in it, until Ctrl-C or until the cluster cannot be read any more."""
    gc.enable()
    objects = {_key(body): body for body in source.bodies}
    changes: Changes = queue.Queue()
    assert source.client is not None
    for listed in source.listed:
        threading.Thread(target=follow_to_the_end, args=(source.client, listed, changes), daemon=True).start()
    answer = ask(source)
    write_lines(_lines(answer, options))
    say(f"note: {line}" for line in [*missing_rights(source.cluster.unread), *answer.asides])
    # Ctrl-C is how a watch ends.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        while True:
            _apply(objects, changes)
            following = build_source(
                objects.values(),
                source.cluster.objects.listed,
                source.cluster.unread,
                options,
                source.namespace,
            )
            following.client, following.listed = source.client, source.listed
            # Ages go on without a change.
            source.cluster.now = following.cluster.now
            before, after = ask(source), ask(following)
            known = set(_lines(before, options))
            write_lines([line for line in _lines(after, options) if line not in known])
            gone = Counter(before.names) - Counter(after.names)
            said = [f"{name} is no longer listed" for name in gone]
            say(
                f"note: {line}"
                for line in [*said, *(each for each in after.asides if each not in before.asides)]
            )
            source = following
    except KeyboardInterrupt:
        raise SystemExit(0) from None


def _lines(answer: Answer, options: Options) -> list[str]:
    if options.format == JSON:
        return [json_text(answer)]
    if options.format == YAML:
        return [f"---\n{yaml_text(answer)}".rstrip()]
    return list(answer.names if options.format == NAME else answer.lines)


def _apply(objects: dict[Key, dict[str, Any]], changes: Changes) -> None:
    """Wait for changes, and take those that come close together. Raises ReadingError."""
    until: float | None = None
    while True:
        wait = None if until is None else min(QUIET_SECONDS, until - time.monotonic())
        if wait is not None and wait <= 0:
            return
        try:
            change = changes.get(timeout=wait)
        except queue.Empty:
            return
        match change:
            case KindListing(kind, bodies):
                for key in [key for key in objects if key[0] == kind]:
                    del objects[key]
                objects.update((_key(body), body) for body in bodies)
            case ObjectChange(key, None):
                objects.pop(key, None)
            case ObjectChange(key, body) if body is not None:
                objects[key] = body
            case _:
                raise ReadingError(str(change))
        until = until or time.monotonic() + LONGEST_SECONDS


def follow_to_the_end(client: ApiClient, listed: ListedKind, changes: Changes) -> None:
    """Put what changes of a kind into a queue, and at last why nothing more comes, whatever it is."""
    try:
        changes.put(follow(client, listed, changes))
    except Exception as error:  # noqa: BLE001 - who waits for changes would wait for ever
        what = f"the watch sent what is no object: {error!r}"
        changes.put(RequestError(f"{client.access.server}{listed.path}: {what}"))


def follow(
    client: ApiClient,
    listed: ListedKind,
    changes: Changes,
    seconds: int = _SERVER_SECONDS,
    silence: float = SILENT_SECONDS,
) -> Exception:
    """Put what changes of a kind into a queue, until that fails for good; return why.

    A watch lasts for some seconds at most, and is then begun anew; so it is where the server is silent for longer.
    """
    version, failures, is_forgotten = listed.version, 0, False
    while True:
        try:
            if is_forgotten:
                version = _list_again(client, listed, changes)
                is_forgotten = False
            begun = time.monotonic()
            for event in client.watch(listed.path, version, seconds, silence):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    body = _full(listed, event["object"])
                    changes.put(ObjectChange(_key(body), None if event["type"] == "DELETED" else body))
                failures = 0
            failures = 0
            # One that ends at once would have the server asked all the time.
            time.sleep(max(0.0, begun + _SHORTEST_SECONDS - time.monotonic()))
        except (RefusedError, RequestError) as error:
            is_forgotten = isinstance(error, RefusedError) and error.status == HTTPStatus.GONE
            failures += 1
            if failures > _MOST_FAILURES or (isinstance(error, RefusedError) and not is_forgotten):
                return error
            # A server that restarts is back in a while.
            time.sleep(_RETRY_SECONDS)


def _list_again(client: ApiClient, listed: ListedKind, changes: Changes) -> str:
    """Put all objects of a kind into the queue, and return the version of the list."""
    found: list[dict[str, Any]] = []
    version = listed.version
    for items, _, page_version in client.pages(listed.path):
        version = page_version
        found += [_full(listed, item) for item in items]
    changes.put(KindListing(listed.kind, found))
    return version


def _full(listed: ListedKind, item: dict[str, Any]) -> dict[str, Any]:
    return trim({"apiVersion": listed.api_version, "kind": listed.kind, **item})


def _key(body: dict[str, Any]) -> Key:
    metadata = body["metadata"]
    return str(body["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"])
