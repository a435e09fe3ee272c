"""What the query of a request says, as the options of the parts that act on it.

Source: ListOptions, CreateOptions, PatchOptions and DeleteOptions of k8s.io/apimachinery/pkg/apis/meta/v1.
"""

import random
from collections.abc import Mapping
from typing import Any

from dra_operator.sim import errors, selectors
from dra_operator.sim.lists import ListOptions, parse_revision
from dra_operator.sim.registry import DeleteOptions, FieldValidation, Target, WriteOptions
from dra_operator.sim.tables import IncludeObject
from dra_operator.sim.watch import WatchOptions

Query = Mapping[str, str]

_MIN_WATCH_SECONDS = 1800


def _integer(query: Query, name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _flag(query: Query, name: str) -> bool | None:
    text = query.get(name)
    if text is None:
        return None
    return text not in ("0", "false", "False", "")


def _test(query: Query, target: Target) -> selectors.Test:
    by_label = selectors.parse_labels(query.get("labelSelector", ""))
    by_field = selectors.parse_fields(query.get("fieldSelector", ""), target.resource, target.version)
    test = selectors.both(by_label, by_field)
    if target.name:
        # A watch of one object by its path.
        name = target.name
        return selectors.both(test, lambda body: body["metadata"]["name"] == name)
    return test


def for_list(query: Query, target: Target) -> ListOptions:
    """Return how to list; StatusError (400) where the query makes no sense."""
    return ListOptions(
        _test(query, target),
        max(_integer(query, "limit") or 0, 0),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )


def for_watch(query: Query, target: Target, bookmark_seconds: float) -> WatchOptions:
    """Return how to watch; without timeoutSeconds for 30 to 60 minutes, so that not all clients return at once."""
    seconds = _integer(query, "timeoutSeconds")
    return WatchOptions(
        _test(query, target),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        _flag(query, "sendInitialEvents"),
        bool(_flag(query, "allowWatchBookmarks")),
        seconds or _MIN_WATCH_SECONDS * (1 + random.random()),  # noqa: S311 - spreads load, guards nothing
        bookmark_seconds,
    )


def for_write(query: Query, verb: str) -> WriteOptions:
    """Return how to create, update or patch; StatusError (422) where the query makes no sense."""
    kind = f"{verb.title()}Options"
    text = query.get("fieldValidation", "") or "Warn"
    try:
        field_validation = FieldValidation(text)
    except ValueError:
        allowed = ("", *(mode.value for mode in FieldValidation))
        raise errors.invalid_options(kind, errors.unsupported("fieldValidation", text, allowed)) from None
    return WriteOptions(_dry_run(_given(query, "dryRun"), kind), field_validation)


def _given(query: Query, name: str) -> list[str]:
    return [query[name]] if name in query else []


def _dry_run(values: list[str], kind: str) -> bool:
    if any(value != "All" for value in values):
        raise errors.invalid_options(kind, errors.unsupported("dryRun", values, ("All",)))
    return bool(values)


def for_delete(query: Query, body: Mapping[str, Any]) -> DeleteOptions:
    """Return how to delete: from DeleteOptions in the body, or else from the query."""
    given = body or {
        "dryRun": _given(query, "dryRun"),
        "gracePeriodSeconds": _integer(query, "gracePeriodSeconds"),
    }
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        _dry_run(list(given.get("dryRun") or ()), "DeleteOptions"),
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        given.get("gracePeriodSeconds"),
    )


def check_not_future(query: Query, current: int) -> None:
    """Refuse a get at a resourceVersion that is yet to come (504)."""
    revision = parse_revision(query.get("resourceVersion", ""), "invalid resource version: ")
    if revision > current:
        raise errors.too_large_resource_version(revision, current)


def include_object(query: Query) -> IncludeObject:
    """Return what the rows of a Table carry."""
    text = query.get("includeObject", "") or "Metadata"
    try:
        return IncludeObject(text)
    except ValueError:
        raise errors.bad_request(
            f'includeObject: Invalid value: "{text}": must be None, Metadata or Object'
        ) from None
