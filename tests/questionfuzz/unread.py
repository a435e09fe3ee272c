"""Worlds of which not all can be read: an answer that is said without a condition is that about the whole world."""

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from random import Random
from typing import Any

from dra_operator import Cluster, Conclusion, QuestionError
from factories import V1, allocation, claim, manifest, request, taint_rule
from questionfuzz.world import NAMESPACE, Body, World, make_world, pod

KINDS = (
    *("ResourceClaim", "Pod", "Node", "DeviceTaintRule", "Namespace", "PersistentVolume"),
    *("PersistentVolumeClaim", "DeviceClass", "ResourceSlice", "ResourceClaimTemplate", "PodGroup"),
)
NAMESPACED = ("ResourceClaim", "Pod", "PersistentVolumeClaim", "ResourceClaimTemplate", "PodGroup")
DRIVER = "gpu.example.com"
NOW = 1_780_000_000.0
OWNED = "dra-operator.io/owned"
Ask = Callable[[Cluster, World], tuple[Conclusion, tuple["Number", ...]]]
Number = tuple[int | None, bool]
"""A number of an answer, and whether the answer is partial."""


def make_whole_world(seed: object) -> World:
    """Return a world with, beside devices, claims and pods, all that else an answer can depend on."""
    world = make_world(f"unread {seed}")
    random = Random(f"unread {seed}")  # noqa: S311 - a seed makes a world repeatable
    objects = [deepcopy(body) for body in world.objects]
    nodes = [body["metadata"]["name"] for body in objects if body["kind"] == "Node"]
    for body in objects:
        if body["kind"] == "Node":
            body["metadata"]["labels"] = {"zone": random.choice(["a", "b"])}
        if body["kind"] == "ResourceSlice" and body["spec"].get("allNodes") and random.random() < 0.5:
            del body["spec"]["allNodes"]
            term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
            body["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    objects += [*_rules(random, nodes), *_namespaces(random), *_volumes(random, nodes)]
    asked = deepcopy(world.claim)
    if random.random() < 0.2:
        for each in asked["spec"]["devices"]["requests"]:
            if "exactly" in each:
                each["exactly"]["adminAccess"] = True
    objects += [*_waiting(random, asked, world.cpu), *_lost(random, nodes)]
    return World(tuple(objects), asked, random.choice([1, 1, world.copies]), world.cpu)


def _rules(random: Random, nodes: list[str]) -> Iterator[Body]:
    for number in range(random.choice([0, 1, 1, 2])):
        key, effect = random.choice(
            [("k", "NoSchedule"), ("k", "NoExecute"), (OWNED, "NoSchedule"), ("n", "None")]
        )
        selector = {"driver": DRIVER, "pool": random.choice([*nodes, "fabric"])}
        if random.random() < 0.5:
            selector["device"] = f"d{random.randrange(3)}"
        yield taint_rule(
            f"rule-{number}", selector, key=key, effect=effect, version="v1beta2", uid=f"r{number}"
        )


def _namespaces(random: Random) -> Iterator[Body]:
    for name in (NAMESPACE, "other", "default"):
        labels = {"resource.kubernetes.io/admin-access": "true"} if random.random() < 0.7 else {}
        yield manifest("Namespace", name, uid=name, labels=labels)


def _volumes(random: Random, nodes: list[str]) -> Iterator[Body]:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [random.choice("ab")]}]}
    spec: Body = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": {"namespace": NAMESPACE, "name": "data"},
    }
    yield manifest("PersistentVolume", "data", spec, uid="v")
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    metadata = {"name": "data", "namespace": NAMESPACE, "uid": "c", "annotations": bound}
    claimed = {
        "accessModes": ["ReadWriteOnce"],
        "volumeName": "data",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": claimed,
        "status": {"phase": "Bound"},
    }


def _waiting(random: Random, asked: Body, cpu: str) -> Iterator[Body]:
    """Yield a claim that waits, a pod that waits with it, one that names no claim that is there, and a template."""
    yield {**deepcopy(asked), "metadata": {"name": "open", "namespace": NAMESPACE, "uid": "open"}}
    yield {**deepcopy(asked), "metadata": {"name": "alone", "namespace": NAMESPACE, "uid": "alone"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    for name, used in (("waiting", "open"), ("lost", "nothing")):
        fields: Body = {"resourceClaims": [{"name": "c", "resourceClaimName": used}]}
        if random.random() < 0.3:
            fields["volumes"] = volumes
        if random.random() < 0.2:
            fields["schedulingGates"] = [{"name": "dra-operator.io/allocation"}]
        body = pod(name, "", cpu, **fields)
        body["metadata"] |= {"uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        yield body
    metadata = {"name": "t", "namespace": NAMESPACE, "uid": "t"}
    spec = {"spec": deepcopy(asked["spec"])}
    yield {"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def _lost(random: Random, nodes: list[str]) -> Iterator[Body]:
    """Yield claims of what is mostly not there any more, and objects whose deletion hangs."""
    for number in range(random.choice([0, 0, 1, 2])):
        where = random.choice([*nodes, "gone"])
        result = {"request": "gpu", "driver": DRIVER, "pool": where, "device": "d9"}
        status: Body = {"allocation": allocation(result, node=where)}
        if random.random() < 0.5:
            status["reservedFor"] = [{"resource": "pods", "name": "nobody", "uid": "nobody"}]
        namespace = random.choice([NAMESPACE, "other"])
        metadata = {"namespace": namespace, "uid": f"x{number}"}
        if random.random() < 0.2:
            metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}
        yield claim(f"x{number}", request(), status=status, **metadata)
    if random.random() < 0.2:
        metadata = {"uid": "d", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}
        yield manifest("DeviceClass", "dying", {}, **metadata)


# --- the questions


def _fit(subject: Callable[[World], Any]) -> Ask:
    def ask(cluster: Cluster, world: World) -> tuple[Conclusion, tuple[Number, ...]]:
        answer = cluster.fit(subject(world), world.copies)
        return answer.conclusion, ((answer.fitting, bool(answer.partial)),)

    return ask


def _headroom(cluster: Cluster, world: World) -> tuple[Conclusion, tuple[Number, ...]]:
    answer = cluster.headroom(world.claim)
    return answer.conclusion, ((None if answer.unlimited else answer.more, bool(answer.partial)),)


def _explain(subject: Callable[[World], Any]) -> Ask:
    return lambda cluster, world: (cluster.explain(subject(world), None).conclusion, ())


def _impact(**change: Any) -> Ask:
    def ask(cluster: Cluster, world: World) -> tuple[Conclusion, tuple[Number, ...]]:
        report = cluster.impact(**change)
        return report.conclusion, ((report.used, bool(report.partial)),)

    return ask


def _holders(**query: Any) -> Ask:
    def ask(cluster: Cluster, world: World) -> tuple[Conclusion, tuple[Number, ...]]:
        report = cluster.holders(**query)
        return report.conclusion, ((len(report.holders), bool(report.partial)),)

    return ask


def _usage(grouping: str) -> Ask:
    def ask(cluster: Cluster, world: World) -> tuple[Conclusion, tuple[Number, ...]]:
        report = cluster.usage(grouping)
        free = sum(row.free or 0 for row in report.rows)
        return Conclusion.CANNOT_SAY, ((free, report.is_at_most),)

    return ask


def _pod_with_volume(world: World) -> list[Body]:
    body = world.pod()
    body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return [world.template(), body]


_RULE = taint_rule("new", {"driver": DRIVER, "pool": "n0"}, key="k", version="v1beta2")
_EVICTING = taint_rule("rule-0", {"driver": DRIVER}, key="k", effect="NoExecute", version="v1beta2")
_CLASS = manifest("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": "false"}}]})

QUESTIONS: Mapping[str, Ask] = {
    "fit of a claim": _fit(lambda world: world.claim),
    "fit of a class": _fit(lambda _: "DeviceClass/gpu"),
    "fit of a pod": _fit(lambda world: [world.template(), world.pod()]),
    "fit of a pod with a volume": _fit(_pod_with_volume),
    "headroom": _headroom,
    "explain a copy": _explain(lambda world: [world.template(), world.pod()]),
    "explain a class": _explain(lambda _: "DeviceClass/few"),
    "explain a pod": _explain(lambda _: f"Pod/{NAMESPACE}/waiting"),
    "explain a pod without its claim": _explain(lambda _: f"Pod/{NAMESPACE}/lost"),
    "explain a claim of a pod": _explain(lambda _: f"ResourceClaim/{NAMESPACE}/open"),
    "explain a claim": _explain(lambda _: f"ResourceClaim/{NAMESPACE}/alone"),
    "explain an allocated claim": _explain(lambda _: f"ResourceClaim/{NAMESPACE}/x0"),
    "explain a claim that holds something": _explain(lambda _: f"ResourceClaim/{NAMESPACE}/h0"),
    "impact of a drained node": _impact(drained_node="n0"),
    "impact of a removed driver": _impact(removed_driver=DRIVER),
    "impact of a rule": _impact(rule=_RULE),
    "impact of a changed rule": _impact(rule=_EVICTING),
    "impact of a class": _impact(device_class=_CLASS),
    "holders": _holders(),
    "holders on a node": _holders(node="n0"),
    "holders of a class": _holders(device_class="few"),
    "holders of a pool": _holders(pool="n0"),
    "idle holders": lambda cluster, _: (cluster.holders().idle().conclusion, ()),
    "usage": _usage("node"),
    "usage by class": _usage("class"),
    "audit": lambda cluster, _: (cluster.audit().conclusion, ()),
    "lint": lambda cluster, _: (cluster.lint().conclusion, ()),
    "lint of a claim": lambda cluster, world: (cluster.lint(world.claim).conclusion, ()),
}


def load(objects: Collection[Body], unread: Mapping[str, str] | None = None) -> Cluster:
    """Return the cluster that some objects of an API server make."""
    return Cluster.load(objects, unread=unread or {}, listed=KINDS, now=NOW)


def hide(world: World, kinds: Collection[str], *, is_namespace_read: bool) -> Cluster:
    """Return the cluster as somebody sees it who may not read some kinds, or of these only what is in the namespace."""
    left = [
        body
        for body in world.objects
        if body["kind"] not in kinds
        or (
            is_namespace_read
            and body["kind"] in NAMESPACED
            and body["metadata"].get("namespace") == NAMESPACE
        )
    ]
    return load(left, dict.fromkeys(kinds, "not permitted"))


def _ask(name: str, cluster: Cluster, world: World) -> tuple[Conclusion, tuple[Number, ...]] | None:
    try:
        return QUESTIONS[name](cluster, world)
    except QuestionError:
        return None


def find_unsound(world: World, kinds: Collection[str]) -> Iterator[str]:
    """Yield the answers without some kinds that are said as if all had been read, and are not those of the whole."""
    everything = load(world.objects)
    whole = {name: answer for name in QUESTIONS if (answer := _ask(name, everything, world)) is not None}
    for is_namespace_read in (False, True):
        cluster = hide(world, kinds, is_namespace_read=is_namespace_read)
        for name, (expected, numbers) in whole.items():
            # Not to answer is never wrong.
            if (answer := _ask(name, cluster, world)) is None:
                continue
            found, others = answer
            where = f"{name}, without {', '.join(kinds)}{' of others' if is_namespace_read else ''}"
            if found not in (Conclusion.CANNOT_SAY, expected) and expected is not Conclusion.CANNOT_SAY:
                yield f"{where}: {found.value}, and of the whole {expected.value}"
            for (number, is_partial), (true, _) in zip(others, numbers, strict=True):
                if number is None or true is None:
                    continue
                if number != true and not is_partial:
                    yield f"{where}: {number}, and of the whole {true}"
