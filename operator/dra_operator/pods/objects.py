"""Objects of Kubernetes with where they stand: as they are written, and as they are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.names import POD_CLAIM_NAME, SYSTEM_PRIORITIES

Key = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object stands: the file, the document from 1, its first line from 1, the item if it is a list.

    Without a file it was given as a mapping, and `document` is its number among those.
    """

    file: str
    document: int
    line: int
    item: int | None = None

    def __str__(self) -> str:
        item = "" if self.item is None else f", items[{self.item}]"
        if not self.file:
            return f"object {self.document}{item}"
        return f"{self.file}, document {self.document} (line {self.line}){item}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as it is written, and where."""

    place: Place
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """An object: as it was written, in v1, and as typed object with the API's defaults."""

    place: Place
    body: Mapping[str, Any]
    obj: Any


@dataclass(slots=True)
class ObjectSet:
    """Objects by kind, namespace and name, in the order in which they were read."""

    records: dict[Key, ObjectRecord] = field(default_factory=dict)

    def of_kind(self, kind: str) -> tuple[ObjectRecord, ...]:
        """Return the objects of a kind, in the order in which they were read."""
        return tuple(record for key, record in self.records.items() if key[0] == kind)


def by_age(record: ObjectRecord) -> tuple[bool, str, bool, str, str]:
    """Return what objects are sorted by when they are decided: the oldest first, and last those without an age.

    Of these, claims made for pods are younger than those that are written down, as they are made when the pod is there.
    """
    metadata = record.obj.metadata
    created = metadata.creation_timestamp
    made = created is None and POD_CLAIM_NAME in metadata.annotations
    return created is None, created or "", made, metadata.namespace, metadata.name


def by_priority(pod: ObjectRecord) -> tuple[int, tuple[bool, str, bool, str, str]]:
    """Return what pods are sorted by when they are scheduled: the highest priority first, then the oldest.

    Those without an age come after claims that are written down.
    """
    spec = pod.obj.spec
    priority = SYSTEM_PRIORITIES.get(spec.priority_class_name, 0) if spec.priority is None else spec.priority
    created, text, _, namespace, name = by_age(pod)
    return -priority, (created, text, created, namespace, name)
