"""Generated names: what the API server makes of a `generateName`, with an end that only looks random.

The same objects must give the same answer, so the end depends on what the name is for, and on nothing else.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dra_operator.api.names import RANDOM_LETTERS
from dra_operator.pods.objects import Manifest

MOST_OF_PREFIX = 58
"""Bytes of a `generateName` that the API server leaves in front of the random end."""


def name_from(prefix: str, *parts: str) -> str:
    """Return a name that begins with a `generateName` and ends with five letters that depend on some parts."""
    number = int.from_bytes(
        hashlib.sha256("/".join(parts).encode(errors="surrogatepass")).digest()[:8], "big"
    )
    return prefix[:MOST_OF_PREFIX] + "".join(_letters(number))


def _letters(number: int) -> Iterator[str]:
    for _ in range(5):
        number, digit = divmod(number, len(RANDOM_LETTERS))
        yield RANDOM_LETTERS[digit]


@dataclass(slots=True)
class Names:
    """Gives names to objects that have only a `generateName`; several of one get different ones."""

    _given: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def named(self, manifest: Manifest) -> Manifest:
        """Return a manifest with a name, if it can have one."""
        metadata = manifest.body.get("metadata")
        # A name of another type is for the reader to refuse.
        if not isinstance(metadata, Mapping) or metadata.get("name") not in (None, ""):
            return manifest
        prefix = metadata.get("generateName")
        if not isinstance(prefix, str) or not prefix:
            return manifest
        key = str(manifest.body.get("kind")), str(metadata.get("namespace") or ""), prefix
        self._given[key] += 1
        name = name_from(prefix, *key, str(self._given[key]))
        return replace(manifest, body={**manifest.body, "metadata": {**metadata, "name": name}})
