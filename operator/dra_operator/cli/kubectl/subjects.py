"""What is named on the command line: objects as `KIND/NAME`, label selectors; and what answers say of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dra_operator.api.text import age, did_you_mean, shown
from dra_operator.cli.kubectl.options import complete_subjects, option

if TYPE_CHECKING:
    from dra_operator.cli.kubectl.answering import Question
    from dra_operator.pods.objects import Manifest
    from dra_operator.pods.workloads import KnownWorkload
    from dra_operator.questions.state import ClusterState

KINDS: Final = {
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "ResourceClaim"),
    **dict.fromkeys(
        ("template", "templates", "resourceclaimtemplate", "resourceclaimtemplates"), "ResourceClaimTemplate"
    ),
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("class", "classes", "deviceclass", "deviceclasses"), "DeviceClass"),
    **dict.fromkeys(("node", "nodes", "no"), "Node"),
    **dict.fromkeys(("namespace", "namespaces", "ns"), "Namespace"),
    **dict.fromkeys(("pool", "pools"), "pool"),
    **dict.fromkeys(("device", "devices"), "device"),
    **dict.fromkeys(("driver", "drivers"), "driver"),
    **dict.fromkeys(("policy", "allocationpolicy", "allocationpolicies", "ap"), "AllocationPolicy"),
    **dict.fromkeys(("reservation", "devicereservation", "devicereservations", "dr"), "DeviceReservation"),
    **dict.fromkeys(("maintenance", "devicemaintenance", "devicemaintenances", "dm"), "DeviceMaintenance"),
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


def parse_subject(text: str, kinds: tuple[str, ...]) -> tuple[str, str]:
    """Return kind and name of the object that `KIND/NAME` names, of one of some kinds. Raises UsageError."""
    word, slash, name = text.partition("/")
    # As kubectl prints it: resourceclaim.resource.k8s.io/train-0.
    kind = KINDS.get(word.partition(".")[0].lower())
    allowed = " or ".join(f"{_short(each)}/NAME" for each in kinds)
    if not slash or not name or kind not in kinds:
        raise click.UsageError(f"{shown(text)} names no object: write {allowed}")
    return kind, name


def kubectl_name(kind: str, name: str) -> str:
    """Return an object as `kubectl -o name` prints it: resourceclaim.resource.k8s.io/train-0."""
    from dra_operator.api.kinds import KINDS as API_KINDS

    group = API_KINDS[kind].group if kind in API_KINDS else ""
    return f"{kind.lower()}{'.' if group else ''}{group}/{name}"


def one_subject(words: Sequence[str]) -> str:
    """Return the object that is named, empty for none. Raises UsageError for several, as `pod NAME` of kubectl."""
    if len(words) == 2 and words[0].partition(".")[0].lower() in KINDS:
        raise click.UsageError(f"an object is named KIND/NAME: write {words[0]}/{words[1]}")
    if len(words) > 1:
        raise click.UsageError(f"one object at a time: {shown(words[1])} is one too many")
    return words[0] if words else ""


def _short(kind: str) -> str:
    return next(word for word, each in KINDS.items() if each == kind)


def is_object(text: str) -> bool:
    """Return whether a text is KIND/NAME, and no file in a folder of that name."""
    word, slash, _ = text.partition("/")
    return bool(slash) and word.partition(".")[0].lower() in KINDS and not Path(text).is_file()


def find_workload_name(text: str, namespace: str) -> "tuple[KnownWorkload, str, str] | None":
    """Return the kind, namespace and name of a workload that `KIND/NAME` names, or None for anything else."""
    from dra_operator.pods.workloads import find_named

    word, slash, name = text.partition("/")
    if not slash or not name or word.partition(".")[0].lower() in KINDS or Path(text).is_file():
        return None
    known = find_named(word)
    own, _, bare = full_name(name, namespace).rpartition("/")
    return None if known is None else (known, own, bare)


def resolve_subject(question: "Question", text: str) -> "str | list[Manifest]":
    """Return what is named, for the questions: an object of the cluster, or those of a file. Raises ClickException."""
    from dra_operator.cli.kubectl.source import read_manifests
    from dra_operator.questions.manifests import sort_found

    if is_object(text):
        kind, name = parse_subject(text, tuple(COPIED.values()))
        if kind != "DeviceClass":
            return f"{kind}/{find_name(question, (kind,), name)[1]}"
        check_class(question.cluster, name)
        return f"{kind}/{name}"
    found, problems = sort_found(read_manifests([text], question.own_namespace))
    if problems:
        hint = "" if "/" in text or "." in text else f"; an object is named KIND/NAME, as template/{text}"
        raise click.ClickException("\n".join(f"{problem}{hint}" for problem in problems))
    return found


def find_name(question: "Question", kinds: Sequence[str], name: str) -> tuple[str, str]:
    """Return kind, and namespace and name, of an object of the first of some kinds that has one of a name.

    With -A all namespaces count. Raises ClickException where there is none, or several of a kind with -A.
    """
    records = question.cluster.objects.records
    own, _, bare = full_name(name, question.own_namespace).rpartition("/")
    is_everywhere = question.options.all_namespaces and "/" not in name
    for kind in kinds:
        if is_everywhere:
            found = [key for key in records if key[0] == kind and key[2] == bare]
            if len(found) > 1:
                where = ", ".join(sorted(key[1] for key in found))
                raise click.ClickException(
                    f'{kind} "{bare}" is in several namespaces ({where}): choose one with -n'
                )
            if found:
                return kind, f"{found[0][1]}/{bare}"
        elif (kind, own, bare) in records:
            return kind, f"{own}/{bare}"
    for kind in kinds:
        if kind in question.cluster.unread:
            # It may be there: who asks for it says why it cannot be read.
            return kind, f"{own}/{bare}"
    where = "" if is_everywhere else f' in namespace "{own}"'
    subject = kinds[0] if len(kinds) == 1 else "claim, pod or file"
    raise click.ClickException(
        f'there is no {subject} "{bare}"{where}; {hint_at(question, kinds, own, bare)}'
    )


def check_class(cluster: "ClusterState", name: str) -> None:
    """Raise ClickException for a class that is not there, with the one that was probably meant."""
    if name in cluster.inventory.classes or "DeviceClass" in cluster.unread:
        return
    near = find_meant(name, cluster.inventory.classes)
    raise click.ClickException(f'there is no DeviceClass "{name}"{did_you_mean(near)}')


def hint_at(question: "Question", kinds: Sequence[str], own: str, name: str) -> str:
    """Return what to write instead of a name that no object has."""
    keys = [key for key in question.cluster.objects.records if key[0] in kinds]
    if others := sorted({key[1] for key in keys if key[2] == name and key[1] != own}):
        return f"there is one in {', '.join(others)}: -n {others[0]}"
    near = find_meant(name, [key[2] for key in keys if key[1] == own or question.options.all_namespaces])
    return f'did you mean "{near}"?' if near else "-n names another namespace"


def find_meant(name: str, names: Iterable[str]) -> str:
    """Return the object that was probably meant by a name that none has: one alike, or the only one with more to it."""
    from dra_operator.api.text import near_object

    known = sorted(set(names))
    longer = [each for each in known if each.startswith(name)]
    return near_object(name, known) or (longer[0] if len(longer) == 1 else "")


def without_option() -> click.Option:
    """Return the option of what is taken as gone, for `remove`."""
    return option(
        "--without",
        metavar="KIND/NAME",
        multiple=True,
        shell_complete=complete_subjects({"claim/": "ResourceClaim", "pod/": "Pod", "node/": "Node"}),
        help="As if claim/NAME, pod/NAME, node/NAME or driver/NAME were gone. May be repeated.",
    )


def value_option() -> click.Option:
    """Return the option of the value of an attribute."""
    return option("--value", metavar="TEXT", help="Only devices with an attribute of this value, as a UUID.")


def copied(metavar: str) -> click.Argument:
    """Return the argument of what there are to be copies of, for `resolve_subject`."""
    return click.Argument(["subject"], metavar=metavar, shell_complete=complete_subjects(COPIED))


def remove(question: "Question", without: Sequence[str]) -> "ClusterState":
    """Return the cluster as if some objects were gone. Raises UsageError, ClickException, QuestionError."""
    if not without:
        return question.cluster
    names: dict[str, list[str]] = {"ResourceClaim": [], "Pod": [], "Node": [], "driver": []}
    for text in without:
        kind, name = parse_subject(text, tuple(names))
        is_namespaced = kind in ("ResourceClaim", "Pod")
        names[kind].append(find_name(question, (kind,), name)[1] if is_namespaced else name)
    return question.cluster.without(
        claims=names["ResourceClaim"], pods=names["Pod"], nodes=names["Node"], drivers=names["driver"]
    )


def full_name(name: str, namespace: str) -> str:
    """Return namespace and name of an object that may be named with its namespace."""
    return name if "/" in name else f"{namespace}/{name}"


def labels_test(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return the test of objects, as on the wire, that a label selector is. Raises ClickException if it is none."""
    from dra_operator.api import node_selector

    try:
        return node_selector.labels_test(text) or (lambda _body: True)
    except ValueError as error:
        raise click.ClickException(
            f"-l {shown(text)} is no label selector: write KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY or !KEY, "
            "with commas between"
        ) from error


def nodes_with_labels(cluster: "ClusterState", text: str) -> frozenset[str]:
    """Return the names of the nodes that a label selector selects.

    Raises ClickException if it is none, or if nodes cannot be read.
    """
    matches = labels_test(text)
    if missing := cluster.unread.get("Node"):
        raise click.ClickException(f"-l {shown(text)} selects nodes: {missing}")
    return frozenset(
        record.obj.metadata.name for record in cluster.objects.of_kind("Node") if matches(record.body)
    )


def no_device_line(name: str, devices: str = "no device") -> str:
    """Return that a class selects none of some devices, and what to do next."""
    return f"class {name} selects {devices}: kubectl dra lint class/{name}"


def not_free(question: "Question") -> str:
    """Return why fewer devices may be free than are counted."""
    if "ResourceClaim" in question.cluster.unread:
        return "devices of claims that cannot be read may be in use"
    return "nodes and taint rules that cannot be read may keep devices from claims"


def source_flags(question: "Question") -> str:
    """Return the options that ask the same snapshot or record again, of the same time also where that was relative."""
    options, at = question.options, question.options.at
    if at:
        from dra_operator.history.reader import parse_duration, time_text
        from dra_operator.history.schema import MICRO

        at = at if parse_duration(at) is None else time_text(round(question.cluster.now * MICRO))
    asked = (("snapshot", options.snapshot), ("history", options.history), ("at", at))
    return "".join([f" --{name} {value}" for name, value in asked if value])


def age_at(timestamp: str | None, now: float) -> str:
    """Return how long before a time, in seconds since 1970, an RFC 3339 timestamp was, as kubectl writes ages."""
    return age(timestamp, datetime.fromtimestamp(now, UTC))
