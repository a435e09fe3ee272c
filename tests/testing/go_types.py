"""Where `api/fields.json` comes from: the Go structs that the real API server decodes into and encodes from.

What kube-apiserver does to a body between the wire and the store is decided by Go's JSON rules over these structs:
unknown fields are dropped (or refused, if strict), null means absent, `omitempty` hides empty values, values have
types. OpenAPI documents do not carry all of that (pointers above all), so the structs are read from the published
sources of `k8s.io/api` and `k8s.io/apimachinery`. Run once for a Kubernetes version, not at run time:

    PYTHONPATH=tests python -m testing.go_types ~/go/pkg/mod/k8s.io v0.37.2 > operator/dra_operator/api/fields.json

One line a struct: `"resource/v1.Device": {"taints": ["[]resource/v1.DeviceTaint", "omitempty"], ...}`; the third and
fourth element of a field, if present, are the patch strategy and merge key of strategic merge patches.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = {
    "core/v1": "api/core/v1",
    "resource/v1": "api/resource/v1",
    "resource/v1beta2": "api/resource/v1beta2",
    "resource/v1beta1": "api/resource/v1beta1",
    "resource/v1alpha3": "api/resource/v1alpha3",
    "scheduling/v1beta1": "api/scheduling/v1beta1",
    "scheduling/v1alpha3": "api/scheduling/v1alpha3",
    "events/v1": "api/events/v1",
    "coordination/v1": "api/coordination/v1",
    "meta/v1": "apimachinery/pkg/apis/meta/v1",
}
"""Our name of a package, and where it is in the module cache."""

ROOTS = (
    *(f"core/v1.{name}" for name in ("Node", "Namespace", "Pod", "Event", "ServiceAccount", "ConfigMap")),
    *(
        f"resource/{version}.{name}"
        for version in ("v1", "v1beta2", "v1beta1")
        for name in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
    ),
    *(f"resource/{version}.DeviceTaintRule" for version in ("v1", "v1beta2", "v1alpha3")),
    *(f"scheduling/{version}.PodGroup" for version in ("v1beta1", "v1alpha3")),
    "events/v1.Event",
    "coordination/v1.Lease",
    "meta/v1.DeleteOptions",
)

# Types with a JSON form of their own.
SPECIAL = {
    "meta/v1.Time": "Time",
    "meta/v1.MicroTime": "MicroTime",
    "meta/v1.FieldsV1": "Raw",
    "resource.Quantity": "Quantity",
    "runtime.RawExtension": "Raw",
    "intstr.IntOrString": "IntOrString",
    "types.UID": "string",
    "[]byte": "bytes",
}
SCALARS = {"string", "bool", "int32", "int64", "byte", "Time", "MicroTime", "Raw", "Quantity"}

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (?:= )?((?:\[\]|map\[\w+\]|\*)*[\w.]+)$", re.MULTILINE)
_FIELD = re.compile(r"^\s*(?:\w+\s+)?((?:\[\]|\*|map\[[\w.]+\])*[\w.]+)\s+`([^`]*)`")
_IMPORT = re.compile(r'^\s*(\w+)?\s*"k8s\.io/(?:api/|apimachinery/pkg/apis/)(\w+/\w+)"', re.MULTILINE)
_TAG = re.compile(r'(\w+):"([^"]*)"')

Field = list[str]


class Sources:
    """The parsed packages: structs by name, and what named types stand for."""

    def __init__(self, module_cache: Path, version: str) -> None:
        self.structs: dict[str, str] = {}
        self.named: dict[str, str] = {}
        self.imports: dict[str, dict[str, str]] = {}
        for package, folder in PACKAGES.items():
            module, _, rest = folder.partition("/")
            self._read_package(package, module_cache / f"{module}@{version}" / rest)

    def _read_package(self, package: str, folder: Path) -> None:
        imports = self.imports.setdefault(package, {})
        for file in sorted(folder.glob("*.go")):
            if file.name.startswith(("generated", "zz_")) or file.name.endswith("_test.go"):
                continue
            text = file.read_text(encoding="utf-8")
            for alias, target in _IMPORT.findall(text):
                imports[alias or target.rpartition("/")[2]] = target
            for name, body in _STRUCT.findall(text):
                self.structs[f"{package}.{name}"] = body
            for name, target in _NAMED.findall(text):
                self.named[f"{package}.{name}"] = target

    def resolve(self, package: str, expression: str) -> str:
        """Return the type expression with full struct names, `int64`-like scalars and no named scalars."""
        if expression == "[]byte":
            return SPECIAL[expression]
        for prefix in ("[]", "*"):
            if expression.startswith(prefix):
                return prefix + self.resolve(package, expression.removeprefix(prefix))
        if expression.startswith("map["):
            return "{}" + self.resolve(package, expression.partition("]")[2])
        if expression in SCALARS and f"{package}.{expression}" not in self.named:
            return expression
        alias, dot, name = expression.partition(".")
        full = f"{self.imports[package].get(alias, alias)}.{name}" if dot else f"{package}.{expression}"
        if full in SPECIAL:
            return SPECIAL[full]
        if full in self.structs:
            return full
        return self.resolve(full.partition(".")[0], self.named[full])

    def fields(self, struct: str) -> dict[str, Field]:
        """Return the JSON fields of a struct, inlined structs flattened."""
        package = struct.partition(".")[0]
        found: dict[str, Field] = {}
        for expression, tag_text in self._lines(struct):
            tags = dict(_TAG.findall(tag_text))
            name, *options = tags["json"].split(",")
            if name == "-":
                continue
            target = self.resolve(package, expression)
            if not name:
                found |= self.fields(target)
                continue
            empty = "omitzero" if "omitzero" in options else "omitempty" if "omitempty" in options else ""
            field = [target, empty, tags.get("patchStrategy", ""), tags.get("patchMergeKey", "")]
            while field[-1] == "" and len(field) > 1:
                field.pop()
            found[name] = field
        return found

    def _lines(self, struct: str) -> Iterator[tuple[str, str]]:
        for line in self.structs[struct].splitlines():
            match = _FIELD.match(line)
            if match and "json:" in match[2]:
                yield match[1], match[2]

    def closure(self, roots: tuple[str, ...]) -> dict[str, dict[str, Field]]:
        """Return the roots and every struct they reach, sorted by name."""
        found: dict[str, dict[str, Field]] = {}
        waiting = list(roots)
        while waiting:
            struct = waiting.pop()
            if struct in found or "." not in struct:
                continue
            found[struct] = self.fields(struct)
            waiting.extend(field[0].lstrip("[]*{}") for field in found[struct].values())
        return dict(sorted(found.items()))


def render(module_cache: Path, version: str) -> str:
    """Return the text of `fields.json` for the given version of the k8s.io modules."""
    closure = Sources(module_cache, version).closure(ROOTS)
    lines = (
        f"{json.dumps(name)}: {json.dumps(fields, separators=(',', ':'))}" for name, fields in closure.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(render(Path(sys.argv[1]), sys.argv[2]))
