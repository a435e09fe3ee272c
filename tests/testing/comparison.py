"""How answers of two API servers are compared: sent alike, normalised, and told apart field by field.

What differs by nature is normalised: uids and resourceVersions become the order in which they were first seen (so that
"the same" and "a new one" still count), times become a word, managedFields are dropped.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import aiohttp

from .steps import Step

_LIST_KINDS = re.compile(r"List$")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"^\d+[smhd](\d+[smh])?$")


class Normaliser:
    """Makes the answers of one server comparable with those of another."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._uids: dict[str, str] = {}
        self._revisions: dict[str, str] = {}

    def answer(self, status: int, content_type: str, text: str) -> dict[str, Any]:
        """Return the comparable form of one answer; of a refusal code and reason count, not the words."""
        found: dict[str, Any] = {"status": status, "type": content_type}
        if not content_type.startswith("application/json"):
            return {**found, "text": text.strip()}
        lines = (
            [json.loads(line) for line in text.splitlines() if line.strip()]
            if "\n{" in text
            else [json.loads(text)]
            if text.strip()
            else []
        )
        return {**found, "body": [self._value(line, "") for line in lines]}

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self._value(item, key) for item in value]
        if isinstance(value, str):
            return self._text(value, key)
        return value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        if value.get("status") == "Failure":
            return {name: value.get(name) for name in ("kind", "code", "reason")}
        if value.get("type") == "BOOKMARK":
            value = {**value, "object": _without_place(value["object"])}
        elif _LIST_KINDS.search(str(value.get("kind", ""))):
            value = _without_place(value)
        found = {name: self._value(item, name) for name, item in value.items() if name != "managedFields"}
        if "generateName" in found:
            found["name"] = f"{found['generateName']}..."
        return found

    def _text(self, value: str, key: str) -> str:
        if key == "uid" and re.fullmatch(r"[0-9a-f-]{36}", value):
            return self._uids.setdefault(value, f"uid-{len(self._uids)}")
        if key == "resourceVersion" and value.isdecimal():
            return self._revisions.setdefault(value, f"revision-{len(self._revisions)}")
        if _AGE.match(value):
            return "<age>"
        for uid, name in self._uids.items():
            value = value.replace(uid, name)
        return _TIME.sub("<time>", value).replace(self._namespace, "<namespace>")


def _without_place(value: dict[str, Any]) -> dict[str, Any]:
    """Leave out where a list ends: other writers move the revision of a real server on; tokens hold it.

    It must not be counted, either, or what comes later has another number.
    """
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        return value
    hidden = {name: "..." for name in ("resourceVersion", "continue") if name in metadata}
    return {**value, "metadata": {**metadata, **hidden}}


class Side:
    """One of the two servers, with what it answered before."""

    def __init__(self, session: aiohttp.ClientSession, namespace: str) -> None:
        self._session = session
        self._namespace = namespace
        self._normaliser = Normaliser(namespace)
        self._last: dict[str, Any] = {}

    async def send(self, step: Step) -> dict[str, Any]:
        """Send a step's request and return the comparable answer."""
        path, body = self._filled(step.path), step.body
        headers = {"Accept": "application/json"}
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        if body is not None:
            body = self._filled(body)
            headers["Content-Type"] = step.content_type
        timeout = aiohttp.ClientTimeout(total=20)
        async with self._session.request(
            step.method, path, data=body, headers=headers, timeout=timeout
        ) as response:
            text = await response.text()
            if step.remember and response.status < 300:
                self._last[step.remember] = json.loads(text)
            return self._normaliser.answer(response.status, response.headers.get("Content-Type", ""), text)

    def _filled(self, text: str) -> str:
        """Put what was remembered in the place of `${name.field.field}`."""

        def look_up(match: re.Match[str]) -> str:
            value: Any = self._last
            for part in match[1].split("."):
                value = value[part]
            return str(value)

        return re.sub(r"\$\{([\w.]+)\}", look_up, text.replace("NAMESPACE", self._namespace))


def differences(expected: Any, answered: Any, path: str) -> Iterator[str]:
    """Yield where two answers differ: the path, what the real server says, what the one in memory says."""
    if isinstance(expected, dict) and isinstance(answered, dict):
        for name in sorted(expected.keys() | answered.keys()):
            yield from differences(
                expected.get(name, "<absent>"), answered.get(name, "<absent>"), f"{path}.{name}"
            )
    elif isinstance(expected, list) and isinstance(answered, list) and len(expected) == len(answered):
        for index, pair in enumerate(zip(expected, answered, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif expected != answered:
        yield f"  {path}: {json.dumps(expected)} | {json.dumps(answered)}"


def without_identity(text: str) -> str:
    """Return what kubectl prints without ages, times, uids and resourceVersions, columns one space apart."""
    text = re.sub(r"\b\d+(s|m|m\d+s)\b", "<age>", text)
    text = re.sub(
        r"(Resource Version:|UID:|Creation Timestamp:|Start Time:|Time Added:)\s+.*", r"\1 <own>", text
    )
    return re.sub(r" +", " ", text)
