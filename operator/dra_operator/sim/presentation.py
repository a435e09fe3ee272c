"""The form in which a client wants objects: as they are, as rows of a Table, or only their metadata.

The Accept header decides; kubectl asks for Tables, informers of metadata for PartialObjectMetadata.
Source: k8s.io/apiserver/pkg/endpoints/handlers/response.go.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

import orjson

from dra_operator.sim import tables
from dra_operator.sim.errors import StatusError
from dra_operator.sim.lists import Page
from dra_operator.sim.objects import Stored
from dra_operator.sim.registry import Target
from dra_operator.sim.tables import IncludeObject

_REPRESENTATIONS = (
    "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch"
)


class Form(Enum):
    """How objects are shown."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


def form_of(accept: str) -> Form:
    """Return the first form of an Accept header that is offered here; StatusError (406) if there is none."""
    for choice in accept.split(",") if accept else ("*/*",):
        media_type, *texts = (part.strip() for part in choice.split(";"))
        options = dict(text.partition("=")[::2] for text in texts)
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        wanted = options.get("as", "")
        if not wanted:
            return Form.OBJECT
        if options.get("g") != "meta.k8s.io" or options.get("v") != "v1":
            continue
        if wanted == "Table":
            return Form.TABLE
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form.METADATA
    message = f"406: Not Acceptable\n\nAvailable representations: {_REPRESENTATIONS}"
    raise StatusError(406, "NotAcceptable", message, {})


@dataclass(slots=True)
class Presenter:
    """Shows the objects of one target in one form; one for each request, since a Table's columns come once."""

    target: Target
    form: Form
    include: IncludeObject
    clock: Callable[[], datetime]
    _columns_sent: bool = field(default=False)

    def one(self, stored: Stored) -> bytes:
        """Return the bytes of a single object."""
        match self.form:
            case Form.OBJECT:
                return stored.encoded(self.target.resource, self.target.version)
            case Form.METADATA:
                return orjson.dumps(tables.partial_metadata(stored))
            case Form.TABLE:
                metadata = {"resourceVersion": stored.body["metadata"].get("resourceVersion", "")}
                return self._table(metadata, [stored])

    def page(self, page: Page) -> bytes:
        """Return the bytes of a list."""
        if self.form is Form.TABLE:
            return self._table(page.metadata(), page.items)
        resource, version = self.target.resource, self.target.version
        if self.form is Form.METADATA:
            head = {"kind": "PartialObjectMetadataList", "apiVersion": tables.META_API}
            items = b",".join(orjson.dumps(tables.partial_metadata(stored)) for stored in page.items)
        else:
            head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version(version)}
            items = b",".join(stored.list_item(resource, version) for stored in page.items)
        return orjson.dumps({**head, "metadata": page.metadata()})[:-1] + b',"items":[' + items + b"]}"

    def _table(self, metadata: dict[str, object], objects: Sequence[Stored]) -> bytes:
        resource, version, now = self.target.resource, self.target.version, self.clock()
        columns = None if self._columns_sent else tables.column_definitions(resource)
        self._columns_sent = True
        rows = [tables.row(stored, resource, version, now, self.include) for stored in objects]
        return tables.table(columns, metadata, rows)
