"""A second encoder of protobuf, as plain as can be: what the operator's own is held against."""

from dra_operator.api.names import FINALIZER

MAGIC = b"k8s\0"


def varint(value):
    """A number, seven bits in each byte, the lowest first, and the eighth bit of all but the last."""
    groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([group | 128 for group in groups[:-1]] + groups[-1:])


def field(number, value, kind=2):
    """A field: of kind 2 text, bytes or a message; of 0 a number; of 1 and 5 eight and four bytes."""
    if kind == 0:
        return varint(number * 8) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number * 8 + kind) + (varint(len(value)) if kind == 2 else b"") + value


def annotation(key, text):
    """An entry of ObjectMeta's annotations."""
    return field(12, field(1, key) + field(2, text))


def enveloped(metadata, spec=b"", *, before=b"", after=b""):
    """A claim in its envelope; `before` and `after` are further fields around the object."""
    return MAGIC + before + field(2, field(1, metadata) + field(2, spec)) + after


def encoded_claim(version="5", uid="u", *, finalizers=(FINALIZER,), more=b"", spec=b'{"a": "<"}'):
    """A claim as the API server sends it, with the kind before it and the type of its content behind."""
    head = field(1, "c") + field(3, "ns") + field(5, uid) + field(6, version)
    metadata = head + more + b"".join(field(14, name) for name in finalizers)
    kind = field(1, field(1, "resource.k8s.io/v1") + field(2, "ResourceClaim"))
    return enveloped(metadata, spec, before=kind, after=field(3, "") + field(4, ""))
