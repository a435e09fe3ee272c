"""Lists: what the selectors of a list or watch select, in pages that all show one moment.

The pages of a list come from the objects that were there at the first: references to immutable objects, so it costs a
list of pointers. A continue token whose list is gone gets 410, as after a compaction.
Source: k8s.io/apimachinery/pkg/labels and pkg/fields; k8s.io/apiserver/pkg/storage/etcd3.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.node_selector import labels_test
from dra_operator.testing import errors
from dra_operator.testing.resources import Resource
from dra_operator.testing.store import Store, StoredObject

Test = Callable[[Mapping[str, Any]], bool]
_KEPT: Final = 64
_KEPT_SECONDS: Final = 300.0


def everything(_body: Mapping[str, Any]) -> bool:
    """The test that every object passes."""
    return True


def parse_labels(text: str) -> Test:
    """Return the test for a label selector. Raises StatusError (400) if the text is none."""
    try:
        return labels_test(text) or everything
    except ValueError as error:
        raise errors.bad_request(f"unable to parse requirement: {error}") from None


def parse_fields(text: str, resource: Resource) -> Test:
    """Return the test for a field selector such as `spec.nodeName=node-1,status.phase!=Failed`.

    Raises StatusError (400) if the text is no selector or names a field that the kind does not offer.
    """
    terms = [_field_term(term, resource) for term in text.split(",") if term]
    if not terms:
        return everything
    return lambda body: all((_text_at(body, path) == value) == equal for path, equal, value in terms)


def _field_term(term: str, resource: Resource) -> tuple[tuple[str, ...], bool, str]:
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        name, found, value = term.partition(operator)
        if found and name in resource.fields:
            return resource.fields[name], equal, value
        if found:
            raise errors.bad_request(f"field label not supported: {name}")
    raise errors.bad_request(f"invalid selector: can't understand '{term}'")


def _text_at(body: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = body
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        # A node that was never cordoned has unschedulable=false; other absent fields are empty text.
        return "false" if path == ("spec", "unschedulable") else ""
    return str(value)


def both(first: Test, second: Test) -> Test:
    """Return the test that an object passes if it passes both."""
    if everything in (first, second):
        return second if first is everything else first
    return lambda body: first(body) and second(body)


@dataclass(frozen=True, slots=True)
class Page:
    """A list or a part of one, at a revision; `remaining` is how many follow, where that is said."""

    items: tuple[StoredObject, ...]
    revision: int
    continue_token: str = ""
    remaining: int = 0

    def metadata(self) -> dict[str, Any]:
        """Return the ListMeta."""
        metadata: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining:
            metadata["remainingItemCount"] = self.remaining
        return metadata


@dataclass(frozen=True, slots=True)
class _Listed:
    """All that a list selects, at a revision; `is_counted` unless a selector chose it."""

    items: tuple[StoredObject, ...]
    revision: int
    taken: float
    is_counted: bool


class Lists:
    """Answers lists of a store. `monotonic` returns seconds; lists older than five minutes are gone."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._kept: OrderedDict[str, _Listed] = OrderedDict()
        self._made = 0

    def expire(self) -> None:
        """Forget all lists: every continue token given out so far gets 410."""
        self._kept.clear()

    def first(self, resource: Resource, namespace: str, test: Test = everything, limit: int = 0) -> Page:
        """Return the first page of a list, with all objects where `limit` is 0."""
        items = tuple(
            stored
            for stored in self._store.table(resource).in_order(namespace)
            if test is everything or test(stored.body)
        )
        listed = _Listed(items, self._store.revision, self._monotonic(), test is everything)
        self._made += 1
        return self._page(str(self._made), listed, 0, limit)

    def following(self, token: str, limit: int) -> Page:
        """Return the page at a continue token; StatusError 400 or 410 if there is none."""
        name, _, start = token.partition(".")
        if not name.isdecimal() or not start.isdecimal():
            raise errors.bad_request("invalid continue token: continue key is not valid")
        listed = self._kept.get(name)
        if listed is None or self._monotonic() - listed.taken > _KEPT_SECONDS:
            raise errors.expired("the continue parameter is too old: start a new list without it")
        return self._page(name, listed, int(start), limit)

    def _page(self, name: str, listed: _Listed, start: int, limit: int) -> Page:
        end = start + limit if limit else len(listed.items)
        left = max(len(listed.items) - end, 0)
        if left:
            self._kept[name] = listed
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return Page(
            listed.items[start:end],
            listed.revision,
            f"{name}.{end}" if left else "",
            left if listed.is_counted else 0,
        )
