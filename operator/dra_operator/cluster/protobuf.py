"""Protobuf: the metadata of an object changed in the API server's own encoding, every other byte left as it is.

A claim's opaque parameters are compacted and escaped on any way through JSON, and then its spec, which is immutable,
has changed. In protobuf they are bytes like any others, and fields that are not known pass through unharmed.
Source: k8s.io/apimachinery, runtime/serializer/protobuf, generated.proto of runtime and meta/v1; encoding/json.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\0"
_RAW: Final = 2
"""The object itself in `runtime.Unknown`, which is its envelope; beside it stand version and kind."""
_METADATA: Final = 1
_UID: Final = 5
_RESOURCE_VERSION: Final = 6
_ANNOTATIONS: Final = 12
_FINALIZERS: Final = 14
_KEY: Final = 1
_VALUE: Final = 2

_BYTES: Final = 2
"""The wire type of text and messages."""
_NUMBER: Final = 0
_WIDTHS: Final[Mapping[int, int]] = {1: 8, 5: 4}
"""How many bytes a field of fixed length has, by its wire type."""
_LONGEST_VARINT: Final = 10


class MalformedError(ValueError):
    """This is no object in protobuf; the text says where it breaks off."""


class _Field(NamedTuple):
    """One field of a message: its number, all its bytes, and what it holds if that is text or a message."""

    number: int
    whole: bytes
    content: bytes | None


def identity_of(encoded: bytes) -> tuple[str, str]:
    """Return uid and resourceVersion of an object in its envelope. Raises MalformedError."""
    metadata = _only(_only(_opened(encoded), _RAW), _METADATA)
    uid, version = _only(metadata, _UID), _only(metadata, _RESOURCE_VERSION)
    return uid.decode(errors="replace"), version.decode(errors="replace")


def patched(encoded: bytes, metadata: Mapping[str, Any]) -> bytes:
    """Return an object in its envelope after a merge-patch of its metadata; it may name finalizers and annotations.

    Finalizers are replaced as a whole; an annotation that is None is taken off. Raises MalformedError.
    """
    assert metadata.keys() <= {"finalizers", "annotations"}

    def change_metadata(message: bytes) -> bytes:
        return _metadata_patched(message, metadata)

    def change_object(message: bytes) -> bytes:
        return _with_changed(message, _METADATA, change_metadata)

    return _MAGIC + _with_changed(_opened(encoded), _RAW, change_object)


def _metadata_patched(message: bytes, metadata: Mapping[str, Any]) -> bytes:
    annotations: dict[bytes, str | None] = {
        key.encode(): text for key, text in metadata.get("annotations", {}).items()
    }
    finalizers: list[str] | None = metadata.get("finalizers")
    kept = []
    for field in _fields(message):
        if field.number == _FINALIZERS and finalizers is not None:
            continue
        if field.number == _ANNOTATIONS and _key(field) in annotations:
            continue
        kept.append(field.whole)
    kept += [
        _encoded(_ANNOTATIONS, _encoded(_KEY, key) + _encoded(_VALUE, text.encode()))
        for key, text in annotations.items()
        if text is not None
    ]
    kept += [_encoded(_FINALIZERS, name.encode()) for name in finalizers or ()]
    return b"".join(kept)


def _key(entry: _Field) -> bytes:
    """Return the key of an entry of a map; one that is left out is empty, and of two the last one counts."""
    keys = [_content(field) for field in _fields(_content(entry)) if field.number == _KEY]
    return keys[-1] if keys else b""


def _opened(encoded: bytes) -> bytes:
    if not encoded.startswith(_MAGIC):
        raise MalformedError("it does not begin as an object in protobuf does")
    return encoded[len(_MAGIC) :]


def _only(message: bytes, number: int) -> bytes:
    """Return what the one field of this number holds."""
    found = [field for field in _fields(message) if field.number == number]
    if len(found) != 1:
        raise MalformedError(f"field {number} is there {len(found)} times, not once")
    return _content(found[0])


def _with_changed(message: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """Return a message with what its one field of this number holds changed."""
    changed = _encoded(number, change(_only(message, number)))
    return b"".join(changed if field.number == number else field.whole for field in _fields(message))


def _content(field: _Field) -> bytes:
    if field.content is None:
        raise MalformedError(f"field {field.number} is a number, neither text nor a message")
    return field.content


def _fields(message: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        content = None
        if kind == _BYTES:
            length, begin = _varint(message, at)
            at = begin + length
            content = message[begin:at]
        elif kind == _NUMBER:
            _, at = _varint(message, at)
        elif kind in _WIDTHS:
            at += _WIDTHS[kind]
        else:
            raise MalformedError(f"field {number} is of wire type {kind}, which is not known")
        if at > len(message):
            raise MalformedError(f"field {number} is cut short")
        yield _Field(number, message[start:at], content)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, seven bits in each byte, and where it ends."""
    value = 0
    for index, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise MalformedError("a number is cut short or too long")


def _encoded(number: int, content: bytes) -> bytes:
    """Return a field that holds text or a message."""
    return _encoded_varint(number << 3 | _BYTES) + _encoded_varint(len(content)) + content


def _encoded_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
