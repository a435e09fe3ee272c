"""Names: which ones the API server takes for objects, drivers, taints and attributes, and what is wrong with others.

A `Rule` says it in Kubernetes' words; the words for files stand beside the patterns. Patterns that are texts are parts
of others, and know no length.
Source: k8s.io/apimachinery/pkg/util/validation, k8s.io/kubernetes/pkg/apis/resource/validation.
"""

import re

SEGMENT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DOMAIN = rf"{SEGMENT}(\.{SEGMENT})*"
DRIVER = re.compile(rf"(?=.{{1,63}}$){DOMAIN}")
_BARE = r"(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
KEY = re.compile(rf"((?=.{{1,253}}/){DOMAIN}/)?{_BARE}")

DOMAIN_PREFIX = rf"(?=.{{1,63}}/){DOMAIN}/"
PREFIX = rf"(?i:{DOMAIN_PREFIX})"
IDENTIFIER = r"(?=.{1,32}$)[A-Za-z_][A-Za-z0-9_]*"
NOT_LOOKED_AT = ".*/.*/.*"
"""Names of attributes and capacities of more than one slash, of which the API server looks at no part."""
# As of 1.37; before, the domain might have capitals.
QUALIFIED = re.compile(rf"{DOMAIN_PREFIX}{IDENTIFIER}|{NOT_LOOKED_AT}", re.ASCII | re.DOTALL)

NO_DRIVER = "is no name of a driver: write a domain, such as gpu.example.com"
NO_NODE = "is no name of a node: use lower case letters, digits, - and ., at most 253 of them"
NO_KEY = "is no key of a taint: write domain/name or name, of letters, digits, -, _ and ."
NO_VALUE = "is no value of a taint: use letters, digits, -, _ and ., at most 63 of them"


_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


class Rule:
    """A longest length and a pattern; the patterns match from each place in one way, so they backtrack little."""

    __slots__ = ("_longest", "_pattern", "explained")

    def __init__(self, pattern: str, longest: int, words: str, *examples: str) -> None:
        self._pattern = re.compile(pattern)
        self._longest = longest
        shown = " or ".join(f"'{example}', " for example in examples)
        self.explained = f"{words} (e.g. {shown}regex used for validation is '{pattern}')"
        """The rule in words, with its examples and its pattern."""

    def fullmatch(self, text: str) -> bool:
        """True if nothing is wrong with a text. What a pattern admits has a byte a character."""
        return len(text) <= self._longest and self._pattern.fullmatch(text) is not None

    def problems(self, text: str, unit: str = "bytes") -> tuple[str, ...]:
        """Return what is wrong with a text. Lengths are in bytes; upstream's older rules say characters."""
        # Half of a surrogate pair, which JSON may hold, has no bytes; no pattern admits it.
        is_long = len(text.encode(errors="surrogatepass")) > self._longest
        too_long = (f"must be no more than {self._longest} {unit}",) if is_long else ()
        return too_long if self._pattern.fullmatch(text) else (*too_long, self.explained)


LABEL = Rule(
    SEGMENT,
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    "my-name",
    "123-abc",
)
SUBDOMAIN = Rule(
    DOMAIN,
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    "example.com",
)
LABEL_1035 = Rule(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
VALUE = Rule(
    f"({_NAME})?",
    63,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    "MyValue",
    "my_value",
    "12345",
)
_NAME_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_EXAMPLES = ("MyName", "my.name", "123-abc")
_PART = Rule(_NAME, 63, _NAME_WORDS, *_EXAMPLES)
_KEY = Rule(_NAME, 63, f"a valid label key {_NAME_WORDS}", *_EXAMPLES)


def problems_of_label(text: str, unit: str = "bytes") -> tuple[str, ...]:
    """Return what is wrong with a label. What would be a subdomain is told the difference, not the whole rule."""
    problems = LABEL.problems(text, unit)
    if LABEL.explained in problems and re.fullmatch(DOMAIN, text):
        return (*problems[:-1], "must not contain dots")
    return problems


def problems_of_qualified_name(text: str) -> tuple[str, ...]:
    """Return what is wrong with a name that may have a domain before it, as in `example.com/name`."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (
            f"{_KEY.explained} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in SUBDOMAIN.problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    problems += [f"name part {problem}" for problem in _PART.problems(name)]
    return tuple(problems)
