"""What is named on the command line: objects as `KIND/NAME`, label selectors; and what answers say of them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from dra_operator.api.durations import age
from dra_operator.api.text import shown

if TYPE_CHECKING:
    from dra_operator.pods.objects import Manifest
    from dra_operator.questions.state import ClusterState

KINDS: Final = {
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "ResourceClaim"),
    **dict.fromkeys(
        ("template", "templates", "resourceclaimtemplate", "resourceclaimtemplates"), "ResourceClaimTemplate"
    ),
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("class", "classes", "deviceclass", "deviceclasses"), "DeviceClass"),
    **dict.fromkeys(("node", "nodes", "no"), "Node"),
    **dict.fromkeys(("pool", "pools"), "pool"),
    **dict.fromkeys(("device", "devices"), "device"),
    **dict.fromkeys(("driver", "drivers"), "driver"),
    **dict.fromkeys(("rule", "rules", "devicetaintrule", "devicetaintrules"), "DeviceTaintRule"),
}
"""What an object may be called by, and its kind; pool, device and driver are no kinds of the API."""


COPIED: Final = {
    "template/": "ResourceClaimTemplate",
    "class/": "DeviceClass",
    "claim/": "ResourceClaim",
    "pod/": "Pod",
}
"""What there can be copies of, by what stands before its name."""


class Subject(NamedTuple):
    """An object that somebody names."""

    kind: str
    name: str


def parse_subject(text: str, kinds: tuple[str, ...]) -> Subject:
    """Return the object that `KIND/NAME` names, of one of some kinds. Raises UsageError."""
    word, slash, name = text.partition("/")
    # As kubectl prints it: resourceclaim.resource.k8s.io/train-0.
    kind = KINDS.get(word.partition(".")[0].lower())
    allowed = " or ".join(f"{_short(each)}/NAME" for each in kinds)
    if not slash or not name or kind not in kinds:
        raise click.UsageError(f"{shown(text)} names no object: write {allowed}")
    return Subject(kind, name)


def _short(kind: str) -> str:
    return next(word for word, each in KINDS.items() if each == kind)


def resolve_subject(text: str, namespace: str) -> "str | list[Manifest]":
    """Return what is named, for the questions: an object of the cluster, or those of a file. Raises ClickException."""
    from dra_operator.cli.kubectl.source import read_manifests  # noqa: PLC0415 - after reading
    from dra_operator.questions.manifests import Unreadable  # noqa: PLC0415

    word, slash, _ = text.partition("/")
    if slash and word.partition(".")[0].lower() in KINDS:
        kind, name = parse_subject(text, tuple(COPIED.values()))
        return f"{kind}/{name}" if kind == "DeviceClass" else f"{kind}/{full_name(name, namespace)}"
    found = read_manifests([text], namespace)
    if problems := [each.message for each in found if isinstance(each, Unreadable)]:
        hint = "" if slash or "." in text else f"; an object is named KIND/NAME, as template/{text}"
        raise click.ClickException("\n".join(f"{problem}{hint}" for problem in problems))
    return [each for each in found if not isinstance(each, Unreadable)]


def remove(cluster: "ClusterState", without: Sequence[str], namespace: str) -> "ClusterState":
    """Return a cluster as if some objects were gone. Raises UsageError, QuestionError."""
    if not without:
        return cluster
    names: dict[str, list[str]] = {"ResourceClaim": [], "Pod": [], "Node": [], "driver": []}
    for text in without:
        kind, name = parse_subject(text, tuple(names))
        names[kind].append(full_name(name, namespace) if kind in ("ResourceClaim", "Pod") else name)
    return cluster.without(
        claims=names["ResourceClaim"], pods=names["Pod"], nodes=names["Node"], drivers=names["driver"]
    )


def full_name(name: str, namespace: str) -> str:
    """Return namespace and name of an object that may be named with its namespace."""
    return name if "/" in name else f"{namespace}/{name}"


def labels_test(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return the test of objects, as on the wire, that a label selector is. Raises ClickException if it is none."""
    if not text:
        return lambda _body: True
    from dra_operator.sim.errors import StatusError  # noqa: PLC0415 - seldom
    from dra_operator.sim.selectors import parse_labels  # noqa: PLC0415

    try:
        return parse_labels(text)
    except StatusError as error:
        raise click.ClickException(
            f"-l {shown(text)} is no label selector: write KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY or !KEY, "
            "with commas between"
        ) from error


def nodes_with_labels(cluster: "ClusterState", text: str) -> frozenset[str]:
    """Return the names of the nodes that a label selector selects. Raises ClickException if it is none."""
    matches = labels_test(text)
    return frozenset(
        record.obj.metadata.name for record in cluster.objects.of_kind("Node") if matches(record.body)
    )


def no_device_line(name: str, devices: str = "no device") -> str:
    """Return that a class selects none of some devices, and what to do next."""
    return f"class {name} selects {devices}: kubectl dra lint class/{name}"


def age_at(timestamp: str | None, now: float) -> str:
    """Return how long before a time, in seconds since 1970, an RFC 3339 timestamp was, as kubectl writes ages."""
    return age(timestamp, datetime.fromtimestamp(now, UTC))
