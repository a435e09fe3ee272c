"""The formats of texts that declarative validation knows, each with what is wrong with a text.

Source: k8s.io/apimachinery/pkg/api/validate/strfmt.go and pkg/api/validate/content.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from dra_operator.api.name_rules import SUBDOMAIN, Rule, problems_of_label, problems_of_qualified_name
from dra_operator.api.patterns import DOMAIN
from dra_operator.sim import errors
from dra_operator.sim.errors import FieldError

Format = Callable[[str, str], Iterator[FieldError]]
"""Takes the path of a text, and the text."""

_ANY_CASE = Rule(
    DOMAIN,
    253,
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    "Example.com",
)
_IDENTIFIER = Rule(
    "[A-Za-z_][A-Za-z0-9_]*",
    10**9,  # its length is judged in other words
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'",
    "my_name",
    "MY_NAME",
    "MyName",
)
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST_IDENTIFIER = 32
_LONGEST_DOMAIN = 63
_LONGEST_POOL = 253


def _of(problems: Callable[[str], Iterable[str]]) -> Format:
    """Return the format that finds problems in a text as a whole."""

    def check(path: str, text: str) -> Iterator[FieldError]:
        return (errors.invalid_value(path, text, problem) for problem in problems(text))

    return check


def _uuid(text: str) -> Iterator[str]:
    if not _UUID.fullmatch(text):
        yield "must be a lowercase UUID in 8-4-4-4-12 format"


def _extended_resource(text: str) -> Iterator[str]:
    if "/" not in text:
        yield "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
    elif "kubernetes.io/" in text:
        yield 'must not have "kubernetes.io/" domain'
    if text.startswith("requests."):
        yield 'must not have "requests." prefix'
    yield from problems_of_qualified_name(f"requests.{text}")


def _pool(path: str, text: str) -> Iterator[FieldError]:
    if len(text.encode()) > _LONGEST_POOL:
        yield errors.too_long(path, _LONGEST_POOL, "bytes")
    for index, segment in enumerate(text.split("/")):
        if not segment:
            yield errors.invalid_value(path, text, f"segment {index}: must not be empty")
            continue
        for problem in SUBDOMAIN.problems(segment):
            yield errors.invalid_value(path, segment, f"segment {index}: {problem}")


def _fully_qualified(path: str, text: str) -> Iterator[FieldError]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        # Upstream looks at no part of such a name.
        return
    if slash and not prefix:
        yield errors.invalid_value(path, "", "prefix must not be empty")
    elif slash:
        if len(prefix.encode()) > _LONGEST_DOMAIN:
            yield errors.too_long(path, _LONGEST_DOMAIN, "bytes")
        for problem in SUBDOMAIN.problems(prefix):
            yield errors.invalid_value(path, prefix, f"prefix: {problem}")
    if slash and not name:
        yield errors.invalid_value(path, "", "name must not be empty")
    else:
        if len(name.encode()) > _LONGEST_IDENTIFIER:
            yield errors.too_long(path, _LONGEST_IDENTIFIER, "bytes")
        for problem in _IDENTIFIER.problems(name):
            yield errors.invalid_value(path, name, problem)
    if not slash:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        yield errors.invalid_value(path, text, why)


FORMATS: dict[str, Format] = {
    "k8s-short-name": _of(problems_of_label),
    "k8s-long-name": _of(SUBDOMAIN.problems),
    "k8s-long-name-caseless": _of(lambda text: _ANY_CASE.problems(text.lower())),
    "k8s-label-key": _of(problems_of_qualified_name),
    "k8s-uuid": _of(_uuid),
    "k8s-extended-resource-name": _of(_extended_resource),
    "k8s-resource-pool-name": _pool,
    "k8s-resource-fully-qualified-name": _fully_qualified,
}
"""By the names that the tags use."""
