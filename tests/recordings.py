"""Kubernetes' answers as they were recorded, so that exactness is checked without Go; `tests/recorded` holds them."""

import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dra_operator.api.versions import RELEASED

FOLDER = Path(__file__).parent / "recorded"
GENERATED = {"allocate": "allocator_generated", "cel": "cel_generated"}
"""The recordings of questions that `python -m conformance` makes, by the kind of the question."""


def recording_of(kind: str, kubernetes: str) -> str:
    """Return the recording of generated questions of a kind to a version of Kubernetes."""
    return GENERATED[kind] if kubernetes == RELEASED else f"{GENERATED[kind]}_{kubernetes.replace('.', '_')}"


def recorded(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a recording."""
    with lzma.open(FOLDER / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def write_recording(name: str, rows: Iterable[dict[str, Any]]) -> Path:
    """Write the rows of a recording; return its file."""
    path = FOLDER / f"{name}.jsonl.xz"
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows]
    path.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    return path
