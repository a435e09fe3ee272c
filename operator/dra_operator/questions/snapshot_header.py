"""The first lines of a snapshot: when it was taken, of which version of Kubernetes, and what could not be read then.

They are comments, so that whatever reads YAML reads the file. A file without them was written by an earlier version, or
by something else.
"""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dra_operator.questions.times import seconds_of

TITLE: Final = "# dra-operator snapshot"
"""The first line."""
_TAKEN: Final = "# taken: "
_KUBERNETES: Final = "# kubernetes: "
_UNREAD: Final = "# not read: "
_MOST_LINE: Final = 1000


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """When a snapshot was taken, in seconds since 1970, and why kinds could not be read, by kind.

    `kubernetes` is the version of the API server, as `v1.38.0`; empty if it is not known.
    """

    taken: float
    unread: Mapping[str, str] = field(default_factory=dict)
    kubernetes: str = ""

    @property
    def time(self) -> str:
        """When it was taken, as Kubernetes writes times."""
        return datetime.fromtimestamp(int(self.taken), UTC).isoformat().replace("+00:00", "Z")


def write_header(header: SnapshotHeader) -> bytes:
    """Return the first lines of a snapshot."""
    unread = [f"{_UNREAD}{kind}: {' '.join(why.split())}" for kind, why in header.unread.items()]
    version = [f"{_KUBERNETES}{header.kubernetes}"] if header.kubernetes else []
    return "".join(f"{line}\n" for line in [TITLE, f"{_TAKEN}{header.time}", *version, *unread]).encode()


def read_header(path: str | Path) -> SnapshotHeader | None:
    """Return the header of a file; None if it has none, or cannot be read."""
    taken, unread, kubernetes = None, {}, ""
    try:
        for line in _first_lines(path):
            if line.startswith(_TAKEN):
                taken = seconds_of(line.removeprefix(_TAKEN).strip())
            elif line.startswith(_KUBERNETES):
                kubernetes = line.removeprefix(_KUBERNETES).strip()
            elif line.startswith(_UNREAD):
                kind, _, why = line.removeprefix(_UNREAD).partition(": ")
                unread[kind] = why.strip()
    except (OSError, EOFError, zlib.error):
        return None
    return None if taken is None else SnapshotHeader(taken, unread, kubernetes)


def _first_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines before the first object, if they are those of a snapshot."""
    with Path(path).open("rb") as packed:
        is_packed = packed.read(2) == b"\x1f\x8b"
        packed.seek(0)
        with gzip.open(packed) if is_packed else packed as file:
            line = file.readline(_MOST_LINE)
            if line.decode(errors="replace").rstrip() != TITLE:
                return
            while (line := file.readline(_MOST_LINE)).startswith(b"#"):
                yield line.decode(errors="replace")


def find_header(source: object) -> SnapshotHeader | None:
    """Return the header of a file, or of the first among several sources that has one; None if none has."""
    if isinstance(source, str | Path):
        return None if source == "-" else read_header(source)
    items = source if isinstance(source, list | tuple) else ()
    return next((found for each in items if (found := find_header(each)) is not None), None)
