"""Where `rules.json` comes from: what the Go structs of `resource.k8s.io` declare about the values of their fields.

Since Kubernetes 1.37, much of validation is generated from `+k8s:` tags in the comments of the structs, in each version
of the API by itself. So the tags are read from the same published sources as the structs (see `go_types`), with every
gate on. Rules that are in alpha are left out: the API server only counts how often they differ from the written code.
Run once for a Kubernetes version, not at run time:

    PYTHONPATH=tests python -m testing.go_rules ~/go/pkg/mod/k8s.io v0.37.2 > operator/dra_operator/testing/rules.json

One line a struct: `"resource/v1.Device": {"bindingConditions": ["maxItems=4"], ...}`, in the order in which
upstream's generated code asks; the field "" is the struct itself.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .go_types import PACKAGES, ROOTS, Sources

_ORDER = (
    "required", "maxItems", "immutable", "update", "eachVal", "maxBytes", "maxLength", "unique", "enum",
)  # fmt: skip
"""Rules that end the questions about a field come first, what the type of the field says comes last."""
_IGNORED = (
    "alpha(",
    "ifDisabled(",
    "deepcopy-gen:",
    "prerelease-lifecycle-gen:",
    "supportsSubresource=",
    "listType=atomic",
    "opaqueType",
)
_TAG = re.compile(r"^\s*// \+k8s:(.*)$")
_WRAPPED = re.compile(r'^(?:beta\(since: "[\d.]+"\)|ifEnabled\(\w+\))=\+k8s:(.*)$')
_FIELD = re.compile(r'^\s*(?:\w+\s+)?(\S+)\s+`json:"(\w*)')
_ENUM = re.compile(r"^// \+k8s:(?:beta\([^)]*\)=\+k8s:)?enum\ntype (\w+) string$", re.MULTILINE)

Rules = dict[str, list[str]]


def _tags(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        match = _TAG.match(line)
        if match is None:
            continue
        wrapped = _WRAPPED.match(match[1])
        tag = wrapped[1] if wrapped else match[1]
        # Whatever is not required is optional. What a text must look like is not asked in memory.
        if not tag.startswith(_IGNORED) and not tag.endswith("optional") and "format=" not in tag:
            yield tag.replace("=+k8s:", ":")


def _rules(tags: list[str]) -> list[str]:
    """Return the rules of a field; keys of lists become part of the rule that items are unique."""
    keys = [tag.partition("=")[2] for tag in tags if tag.startswith("listMapKey=")]
    found = []
    for tag in tags:
        name, _, argument = tag.partition("=")
        if name in ("listType", "unique"):
            found.append(f"unique={','.join(keys)}" if argument == "map" else "unique=")
        elif name not in ("listMapKey", "unionMember"):
            found.append(tag)
    return sorted(found, key=lambda rule: _ORDER.index(re.split("[=:(]", rule)[0]))


class _Package:
    """The rules of one version of the API."""

    def __init__(self, sources: Sources, package: str, text: str) -> None:
        self._sources = sources
        self._package = package
        self._enums = {
            name: ",".join(sorted(re.findall(rf'^\s*\w+ .*\b{name}\b.*"(.*)"\)?$', text, re.MULTILINE)))
            for name in _ENUM.findall(text)
        }

    def of_struct(self, name: str) -> Rules:
        """Return the rules of a struct, inlined structs flattened."""
        found: Rules = {}
        union = []
        tags: list[str] = []
        for line in self._sources.structs[f"{self._package}.{name}"].splitlines():
            tags.extend(_tags([line]))
            match = _FIELD.match(line)
            if match is None:
                continue
            expression, field = match[1], match[2]
            if not field and f"{self._package}.{expression}" in self._sources.structs:
                found |= self.of_struct(expression)
            if "unionMember" in tags:
                union.append(field)
            rules = _rules(tags) + list(self._of_type(expression))
            if rules:
                found[field] = rules
            tags = []
        return {"": [f"union={','.join(union)}"], **found} if union else found

    def _of_type(self, expression: str) -> Iterator[str]:
        enum = self._enums.get(expression.lstrip("[]*"))
        if enum:
            yield f"eachVal:enum={enum}" if expression.startswith("[]") else f"enum={enum}"


def rules_of(sources: Sources, package: str, text: str, structs: Iterable[str]) -> dict[str, Rules]:
    """Return the rules of those structs that are of a package; `text` is its `types.go`."""
    read = _Package(sources, package, text)
    of_package = [struct for struct in structs if struct.startswith(f"{package}.")]
    return {struct: rules for struct in of_package if (rules := read.of_struct(struct.partition(".")[2]))}


def render(module_cache: Path, version: str) -> str:
    """Return the text of `rules.json` for the given version of the k8s.io modules."""
    sources = Sources(module_cache, version)
    reached = sources.closure(ROOTS)
    found: dict[str, Rules] = {}
    for package, folder in PACKAGES.items():
        if not package.startswith("resource/"):
            continue
        module, _, rest = folder.partition("/")
        text = (module_cache / f"{module}@{version}" / rest / "types.go").read_text(encoding="utf-8")
        found |= rules_of(sources, package, text, reached)
    lines = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(render(Path(sys.argv[1]), sys.argv[2]))
