"""Loading: manifests become the objects of a cluster, or a line that says what is wrong with them.

An object that passed no API server gets what that would have given it: a namespace, a name for its `generateName` and
defaults. One that cannot be read, with an unknown field or with values that the API server would refuse is named with
place, field and value, and the others are still read. An unknown field of an object with a uid tells of a newer server:
it is left out, as the operator leaves it out of what it watches, and that is said.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from dra_operator.api.convert import apply_defaults, to_v1, version_of
from dra_operator.api.core import Metadata, Node, Pod
from dra_operator.api.kinds import KINDS, RESOURCE_GROUP, Kind
from dra_operator.api.read import TYPES, ObjectError, path_in_version, read_object
from dra_operator.api.types import (
    DeviceClaim,
    DeviceClass,
    DeviceSelector,
    ResourceClaim,
    ResourceClaimTemplate,
)
from dra_operator.api.validation.checks import Refusal
from dra_operator.api.validation.refusals import all_derived, find_refusals
from dra_operator.api.validation.unknown_fields import find_unknown_fields
from dra_operator.cel.advice import describe
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_derived_attribute, compile_program
from dra_operator.cel.run.meter import COST_LIMIT
from dra_operator.cel.syntax.parser import MAX_BYTES
from dra_operator.cel.types.environment import Environment
from dra_operator.pods.claims import with_name
from dra_operator.pods.node_fit import read_requirements, read_whole_node
from dra_operator.pods.objects import Key, Manifest, ObjectRecord, Place
from dra_operator.pods.workloads import (
    Workload,
    asks_for_claims,
    daemon_pods,
    describe_unknown,
    find_known,
    find_workload,
    may_make_pods,
    part,
)
from dra_operator.questions.contents import (
    DEFAULT_NAMESPACE,
    NAMELESS,
    VOLUME_KINDS,
    LoadResult,
    add_body,
    add_of_operator,
    add_volume,
)
from dra_operator.questions.manifests import Found, Unreadable, template_hint

_NEW = Environment(expressions="new")
_MOST_KEPT = 4096

_TOO_COMPLEX = f"can cost more than the {COST_LIMIT:,} that are admitted: write it more simply"
_TOO_COMPLEX_TOGETHER = (
    f"derived attributes can cost more than {COST_LIMIT:,} together: write them more simply"
)


def find_refused_expressions(obj: object) -> Iterator[Refusal]:
    """Yield what is refused of the expressions of a class, a claim or a template that no API server has taken yet."""
    match obj:
        case DeviceClass(metadata=Metadata(uid="")):
            yield from _selectors(obj.spec.selectors, "spec.selectors")
        case ResourceClaim(metadata=Metadata(uid="")) if obj.status.allocation is None:
            yield from _claim(obj.spec.devices, "spec.devices")
        case ResourceClaimTemplate(metadata=Metadata(uid="")):
            yield from _claim(obj.spec.spec.devices, "spec.spec.devices")
        case _:
            pass


def _claim(devices: DeviceClaim, path: str) -> Iterator[Refusal]:
    for number, request in enumerate(devices.requests):
        at = f"{path}.requests[{number}]"
        if request.exactly is not None:
            yield from _selectors(request.exactly.selectors, f"{at}.exactly.selectors")
        for index, item in enumerate(request.first_available):
            yield from _selectors(item.selectors, f"{at}.firstAvailable[{index}].selectors")
    yield from _derived(devices, path)


def _selectors(selectors: Iterable[DeviceSelector], path: str) -> Iterator[Refusal]:
    for index, selector in enumerate(selectors):
        if selector.cel is not None and _is_too_complex(selector.cel.expression):
            yield Refusal(f"{path}[{index}].cel.expression", None, _TOO_COMPLEX)


# Of thousands of claims in a file, most ask for the same.
@lru_cache(maxsize=_MOST_KEPT)
def _is_too_complex(selector: str) -> bool:
    if not _is_looked_at(selector):
        return False
    try:
        return compile_program(selector, _NEW).estimate().high > COST_LIMIT
    except CelError:
        return False


def _derived(devices: DeviceClaim, path: str) -> Iterator[Refusal]:
    found: list[Refusal] = []
    total = 0
    for place, _, attributes in all_derived(devices, path):
        for index, item in enumerate(attributes):
            at = f"{place}[{index}].expression"
            if not _is_looked_at(item.expression):
                continue
            try:
                program = compile_derived_attribute(item.expression, _NEW).program
            except CelError as error:
                found.append(Refusal(at, None, describe(item.expression, error, environment=_NEW)))
                continue
            cost = program.estimate().high
            total += cost
            if cost > COST_LIMIT:
                found.append(Refusal(at, None, _TOO_COMPLEX))
    if total > COST_LIMIT and not found:
        found.append(Refusal(path, None, _TOO_COMPLEX_TOGETHER))
    yield from found


def _is_looked_at(expression: str) -> bool:
    """True if there is something to compile, and not too much."""
    return 0 < len(expression.encode(errors="surrogatepass")) <= MAX_BYTES


_FORMER = dict.fromkeys(("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"), ("v1alpha3",))
"""Versions that no server of today offers, and old files still have."""
_BEFORE_THOSE = (f"{RESOURCE_GROUP}/v1alpha1", f"{RESOURCE_GROUP}/v1alpha2")
_REWRITE = "; until Kubernetes 1.30 its fields were others: write it anew"
_NO_RESOURCE_CLASS = '"ResourceClass" is no kind since Kubernetes 1.31: write a DeviceClass'
_OTHERS_OF_THE_GROUP = ("ResourcePoolStatusRequest",)
_KUSTOMIZATION = "Kustomization"
_INDEX = re.compile(r'\[(\d+|"([^"\\]|\\.)*")\]')


_LeftOut: TypeAlias = defaultdict[tuple[str, str], list[str]]
"""Lines about fields that objects of API servers have and we do not know, by kind and path.

A new field of devices is in thousands of them: indices aside, it is one field.
"""


def gather(found: Iterable[Found]) -> LoadResult:
    """Return the objects of some manifests. One that is there twice counts as it stands last."""
    gathered = LoadResult()
    left_out = _LeftOut(list)
    names = Counter[tuple[str, ...]]()
    others: Counter[tuple[bool, str]] = Counter()
    for each in found:
        if isinstance(each, Unreadable):
            gathered.errors.append(each.message)
            continue
        item = with_name(each, names)
        if _is_kustomization(item):
            others[False, _KUSTOMIZATION] += 1
        elif item.body.get("kind") in VOLUME_KINDS and item.body.get("apiVersion") == "v1":
            add_volume(gathered, item)
        # Of what is kept as it is written, workloads have pods as well.
        elif add_of_operator(gathered, item.body) or (
            add_body(gathered, item.body) and find_known(item.body) is None
        ):
            continue
        elif not _is_foreign(item.body):
            _add(gathered, left_out, item)
        elif (workload := find_workload(item)) is None:
            if find_known(item.body) is None and not _is_stored(item.body) and asks_for_claims(item.body):
                gathered.errors.append(f"{item.place}: {describe_unknown(item.body)}")
            else:
                others[may_make_pods(item.body), str(item.body["kind"])] += 1
        elif workload.known.is_for_each_node:
            gathered.daemon_sets.append(workload)
        else:
            add_pods(gathered, workload, workload.pods())
    for first, *more in left_out.values():
        gathered.notes.append(f"{first} ({len(more) + 1} times in all)" if more else first)
    for makes_pods, told in (
        (False, "ignored"),
        (True, "ignored, and so are any pods that they would create"),
    ):
        counts = [f"{others[key]} {key[1]}" for key in sorted(others) if key[0] is makes_pods]
        if counts:
            gathered.notes.append(f"{told}: {', '.join(counts)}")
    if any(kind == _KUSTOMIZATION for _, kind in others):
        gathered.notes.append("a Kustomization changes nothing here: give what `kubectl kustomize` prints")
    return gathered


def add_daemon_pods(gathered: LoadResult, nodes: Mapping[str, Node]) -> None:
    """Take the pods that DaemonSets have on some nodes instead of them."""
    for workload in gathered.daemon_sets:
        add_pods(gathered, workload, daemon_pods(workload, gathered, nodes))


def add_pods(gathered: LoadResult, workload: Workload, pods: Iterable[Manifest]) -> None:
    """Take the pods of a workload instead of it; what is wrong with one is wrong with all, and is told once."""
    known, has_pods = len(gathered.errors), False
    try:
        for pod in pods:
            has_pods = True
            _add(gathered, _LeftOut(list), pod)
            if len(gathered.errors) > known:
                return
    except ObjectError as error:
        gathered.errors.append(f"{workload.manifest.place}: {error}{template_hint(error.value)}")
        return
    if not has_pods and asks_for_claims(workload.manifest.body):
        subject = f'{workload.known.kind} "{workload.name}"'
        gathered.notes.append(
            f"{workload.manifest.place}: {subject}: has no pods, so none of its claims is decided"
        )


def _add(gathered: LoadResult, left_out: _LeftOut, manifest: Manifest) -> None:
    mistakes: list[ObjectError] = []
    record = None
    try:
        body = _checked(manifest.body)
        is_stored = _is_stored(body)
        # What comes straight from an API server was never edited, and most time would be spent here.
        for unknown in () if is_stored and not manifest.place.file else find_unknown_fields(body):
            if is_stored:
                told = f"unknown field, ignored as by the operator{unknown.hint}"
                line = f"{manifest.place}: {_problem(body, unknown.path, told)}"
                left_out[str(body["kind"]), _INDEX.sub("[]", unknown.path)].append(line)
            else:
                mistakes.append(_problem(body, unknown.path, unknown.message))
        record = _read(manifest.place, body)
        others = list(_refusals(record, version_of(body)))
    except ObjectError as error:
        others = [error]
    # What else is wrong with the owner of an unknown field may be so because of that.
    owners = tuple([mistake.field.rpartition(".")[0] for mistake in mistakes])
    mistakes += [other for other in others if not other.field.startswith(owners)]
    if record is None or mistakes:
        gathered.errors += [
            f"{manifest.place}: {mistake}{template_hint(mistake.value)}" for mistake in mistakes
        ]
        gathered.refused.add(str(manifest.body.get("kind")))
        return
    metadata = record.obj.metadata
    key = (type(record.obj).__name__, metadata.namespace, metadata.name)
    if key in gathered.records:
        former = gathered.records.pop(key).place
        gathered.notes.append(f"{manifest.place}: {_name(key)} replaces the one in {former}")
        gathered.replaced.append(f"{former}: {_name(key)} is written again in {manifest.place}, which counts")
    gathered.records[key] = record


def _is_kustomization(manifest: Manifest) -> bool:
    """True for what kustomize knows by the name of its file, so that it needs no kind."""
    if "kind" in manifest.body:
        return False
    return Path(manifest.place.file).name in ("kustomization.yaml", "kustomization.yml")


def _is_foreign(body: Mapping[str, Any]) -> bool:
    """True for an object of another kind, which may well stand beside ours.

    One of ours in another group of Kubernetes is a slip: there it is no kind. In any other group it is somebody else's.
    """
    kind, api_version = body.get("kind"), body.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(api_version, str) or not kind or not api_version:
        return False
    group = api_version.rpartition("/")[0]
    if kind in TYPES:
        return "." in group and not group.endswith(".k8s.io")
    return group != RESOURCE_GROUP or kind in _OTHERS_OF_THE_GROUP


def _read(place: Place, body: Mapping[str, Any]) -> ObjectRecord:
    """Return what a body stands for. Raises ObjectError."""
    obj = read_object(body)
    kind = KINDS[type(obj).__name__]
    namespace = (obj.metadata.namespace or DEFAULT_NAMESPACE) if kind.namespaced else ""
    name = obj.metadata.name
    if not name:
        raise ObjectError(kind.kind, namespace, "", "metadata.name", value=None, message=NAMELESS)
    if obj.metadata.namespace != namespace:
        obj = replace(obj, metadata=replace(obj.metadata, namespace=namespace))
    obj = apply_defaults(obj)
    body = to_v1(body)
    if kind.namespaced and body["metadata"].get("namespace") != namespace:
        body = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
    if isinstance(obj, Pod):
        read_requirements(body)
    elif isinstance(obj, Node):
        read_whole_node(body)
    return ObjectRecord(place, body, obj)


def _checked(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a body whose kind and version are known. Raises ObjectError for another."""
    kind, api_version = body.get("kind"), body.get("apiVersion")
    if kind == "ResourceClass":
        raise ObjectError("object", *_full_name(body), "kind", value=kind, message=_NO_RESOURCE_CLASS)
    if not isinstance(kind, str) or kind not in TYPES:
        return body  # The reader has the words for it.
    known = KINDS[kind]
    allowed = [known.api_version(version) for version in _versions(known)]
    if api_version in allowed:
        return body
    place = _full_name(body)
    problem = f'"{api_version}" is none of {", ".join(allowed)}' if api_version else "is required"
    hint = _REWRITE if api_version in _BEFORE_THOSE else _other_case(body, "apiVersion")
    raise ObjectError(kind, *place, "apiVersion", value=api_version, message=problem + hint)


def _other_case(body: Mapping[str, Any], field: str) -> str:
    """Return that a field is there in other letters, which make it another field, or an empty text."""
    found = [name for name in body if name != field and str(name).lower() == field.lower()]
    return f'; "{found[0]}" is no field: write {field}' if found else ""


def _is_stored(body: Mapping[str, Any]) -> bool:
    """True for an object that an API server has taken: nobody else gives a uid."""
    return bool(part(body, "metadata").get("uid"))


def _problem(body: Mapping[str, Any], path: str, message: str) -> ObjectError:
    return ObjectError(str(body["kind"]), *_full_name(body), path, value=None, message=message)


def _refusals(record: ObjectRecord, version: str) -> Iterator[ObjectError]:
    kind, metadata = type(record.obj).__name__, record.obj.metadata
    for refusal in chain(find_refusals(record.obj, record.body), find_refused_expressions(record.obj)):
        path = path_in_version(refusal.path, kind, version)
        name = metadata.namespace, metadata.name
        yield ObjectError(kind, *name, path, value=refusal.value, message=refusal.message)


def _full_name(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = part(body, "metadata")
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _versions(kind: Kind) -> tuple[str, ...]:
    return kind.versions + _FORMER.get(kind.kind, ())


def _name(key: Key) -> str:
    kind, namespace, name = key
    return f'{kind} "{namespace}/{name}"' if namespace else f'{kind} "{name}"'
