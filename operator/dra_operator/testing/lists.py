"""Lists: selected, in pages that all show one moment.

The pages of a list come from a snapshot taken with the first: references to immutable objects, so it costs a list of
pointers. Snapshots are few and short-lived; a continue token whose snapshot is gone gets 410, as after a compaction.
Source: k8s.io/apiserver/pkg/storage/etcd3 and its continue tokens.
"""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from dra_operator.testing import errors
from dra_operator.testing.registry import Target
from dra_operator.testing.selectors import Test, everything
from dra_operator.testing.store import Store, StoredObject

_SNAPSHOTS = 64
_SNAPSHOT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a list was asked for; None means not said. `test` is both selectors."""

    test: Test = everything
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A list or a part of one, at a revision."""

    items: tuple[StoredObject, ...]
    revision: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> dict[str, Any]:
        """Return the ListMeta."""
        metadata: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


@dataclass(frozen=True, slots=True)
class _Snapshot:
    items: tuple[StoredObject, ...]
    taken: float


class Lists:
    """Answers lists of a store. `monotonic` returns seconds; snapshots older than five minutes are gone."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._snapshots: OrderedDict[tuple[str, str, int], _Snapshot] = OrderedDict()

    def expire(self) -> None:
        """Forget all snapshots: every continue token given out so far gets 410."""
        self._snapshots.clear()

    def page(self, target: Target, options: ListOptions) -> Page:
        """Return the page that was asked for; StatusError 400, 410, 422 or 504 where the real server says so."""
        check_resource_version_match(options.resource_version, options.resource_version_match)
        if options.continue_token:
            return self._next_page(target, options)
        revision = parse_revision(options.resource_version, "invalid resource version: ")
        if revision > self._store.revision:
            raise errors.too_large_resource_version(revision, self._store.revision)
        if options.resource_version_match == "Exact" and revision != self._store.revision:
            message = "The resourceVersion for the provided list is too old."
            raise errors.StatusError(410, "Expired", message)
        objects = self._store.table(target.resource).in_order(target.namespace)
        # A list at resourceVersion 0 comes from the watch cache, whole.
        limit = 0 if options.resource_version == "0" else options.limit
        return self._first_page(target, tuple(objects), limit, options.test)

    def _first_page(self, target: Target, objects: tuple[StoredObject, ...], limit: int, test: Test) -> Page:
        revision = self._store.revision
        page = _cut(objects, 0, limit, test, revision)
        if page.continue_token:
            self._snapshots[_key(target, revision)] = _Snapshot(objects, self._monotonic())
            while len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
        return page

    def _next_page(self, target: Target, options: ListOptions) -> Page:
        revision, start = _read_token(options.continue_token)
        key = _key(target, revision)
        snapshot = self._snapshots.get(key)
        if snapshot is not None and self._monotonic() - snapshot.taken > _SNAPSHOT_SECONDS:
            del self._snapshots[key]
            snapshot = None
        if snapshot is None:
            raise errors.expired_continue()
        return _cut(snapshot.items, start, options.limit, options.test, revision)


def _key(target: Target, revision: int) -> tuple[str, str, int]:
    return target.resource.storage_key, target.namespace, revision


def _cut(objects: tuple[StoredObject, ...], start: int, limit: int, test: Test, revision: int) -> Page:
    """Return up to `limit` objects that pass the test, from position `start` on."""
    if test is everything:
        end = start + limit if limit else len(objects)
        items = objects[start:end]
        left = max(len(objects) - end, 0)
        token = _write_token(revision, end) if left else ""
        return Page(items, revision, token, left or None)
    chosen: list[StoredObject] = []
    for position in range(start, len(objects)):
        if limit and len(chosen) == limit:
            # How many more will pass is not counted, neither here nor upstream.
            return Page(tuple(chosen), revision, _write_token(revision, position))
        if test(objects[position].body):
            chosen.append(objects[position])
    return Page(tuple(chosen), revision)


def _write_token(revision: int, start: int) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": str(start)}
    return base64.urlsafe_b64encode(orjson.dumps(token)).decode().rstrip("=")


def _read_token(text: str) -> tuple[int, int]:
    try:
        token: Mapping[str, Any] = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return int(token["rv"]), int(token["start"])
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise errors.bad_request("invalid continue token: continue key is not valid") from None


def parse_revision(text: str, prefix: str = "") -> int:
    """Return a resourceVersion as a number, 0 for none; StatusError (400) if it is no number."""
    if not text:
        return 0
    if not text.isdecimal():
        raise errors.bad_request(
            f'{prefix}resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def check_resource_version_match(resource_version: str, match: str) -> None:
    """Refuse a match rule without a version to match."""
    if match and not resource_version:
        raise errors.invalid_version_match(
            "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
