"""Histories at random, as rows of a record: nodes, slices, classes, rules and pods without claims, and jobs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from dra_operator.history.reader import Span, StateRow
from dra_operator.history.timeline import Changes
from factories import GPU, claim, device_class, manifest, pod, request, resource_slice, selectors, taint_rule

Body = dict[str, Any]
END: Final = 60
NODES: Final = ("n0", "n1", "n2", "n3")


@dataclass(frozen=True)
class Plan:
    """A job: when it comes, for how long it runs (None: for ever), and its pod and claims; no pod: a claim alone."""

    name: str
    arrival: int
    duration: int | None
    never_ran: bool
    owner: str
    priority: int
    pod: Body | None
    claims: tuple[Body, ...]
    shared: tuple[str, ...]


@dataclass
class World:
    """A history: what there is from when to when, jobs by arrival and name, claims that several share, and a change."""

    random: Random
    objects: list[tuple[int, int, Body]] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    shared: dict[str, Body] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    span: Span = field(default_factory=lambda: Span(0, END))
    gaps: list[Span] = field(default_factory=list)

    def read_states(self, span: Span, *kinds: str) -> Iterator[StateRow]:
        """Yield rows as a record does."""
        rows = [*self._rows()]
        for kind, since, until, body in sorted(rows, key=lambda row: row[1]):
            if kinds and kind not in kinds:
                continue
            metadata = body["metadata"]
            names = metadata.get("namespace", ""), metadata["name"], metadata.get("uid", metadata["name"])
            if since < span.until and until > span.since:
                yield StateRow(kind, *names, since, until, body, since == 0, until >= END)

    def _rows(self) -> Iterator[tuple[str, int, int, Body]]:
        for since, until, body in self.objects:
            yield body["kind"], since, until, body
        for body in self.shared.values():
            yield "ResourceClaim", 0, END, body
        for plan in self.plans:
            yield from self._rows_of(plan)

    def _rows_of(self, plan: Plan) -> Iterator[tuple[str, int, int, Body]]:
        started = END if plan.never_ran else plan.arrival + 1
        ended = END if plan.never_ran or plan.duration is None else started + plan.duration
        for body in plan.claims:
            if plan.pod is None and not plan.never_ran:
                yield "ResourceClaim", plan.arrival, started, body
                status = {"allocation": {"devices": {"results": []}}}
                yield "ResourceClaim", started, ended, {**body, "status": status}
            else:
                yield "ResourceClaim", plan.arrival, ended + 5 if ended < END else END, body
        if plan.pod is None:
            return
        spec = plan.pod["spec"]
        if plan.arrival > 2 and plan.priority:
            gates = [{"name": "example.com/gate"}]
            yield (
                "Pod",
                plan.arrival - 2,
                plan.arrival,
                {**plan.pod, "spec": {**spec, "schedulingGates": gates}},
            )
        yield "Pod", plan.arrival, started, plan.pod
        if not plan.never_ran:
            bound = {**plan.pod, "spec": {**spec, "nodeName": "n0"}}
            yield "Pod", started, ended, bound
            if plan.duration is not None and plan.duration % 2:
                yield (
                    "Pod",
                    ended,
                    ended + 3,
                    {**bound, "status": {**plan.pod["status"], "phase": "Succeeded"}},
                )


def make_world(seed: str) -> World:
    """Return the world of a seed."""
    random = Random(seed)  # noqa: S311 - a case of a seed
    world = World(random)
    nodes = NODES[: random.randint(1, 3)]
    world.objects.append((0, END, device_class()))
    model = device_class("model", f'device.attributes["{GPU}"].model == "a"')
    _add(world, model, lambda: device_class("model", f'device.attributes["{GPU}"].model == "b"'), rarely=True)
    for name in nodes:
        cpu = random.choice((1, 2, 3, 8))
        _add(world, _node(random, name, cpu), lambda name=name, cpu=cpu: _node(random, name, cpu))
        is_cut = random.random() < 0.3
        world.objects += [(0, END, _counters(name))] if is_cut else []

        def cut(name: str = name, is_cut: bool = is_cut) -> Body:  # noqa: FBT001 - bound to this node
            return _slice(random, name, is_cut=is_cut)

        _add(world, cut(), cut)
    if random.random() < 0.3:
        body = resource_slice("everywhere", _devices(random, ""), pool="net", allNodes=True)
        world.objects.append((0, END, body))
    if random.random() < 0.3:
        since = random.randrange(END)
        rule = taint_rule("rule", {"driver": GPU, "pool": random.choice(nodes)})
        world.objects.append((since, random.randint(since + 1, END), rule))
    _add_residents(world, nodes)
    _add_jobs(world)
    if random.random() < 0.6:
        world.changes = _change(random, nodes)
    return world


def _add(world: World, body: Body, make: Any, *, rarely: bool = False) -> None:
    """Let an object be there, with changes, and perhaps not all the time."""
    random = world.random
    times = sorted(
        {random.randrange(1, END) for _ in range(random.choice((0, 0, 1, 2) if not rarely else (0, 0, 0, 1)))}
    )
    for since, until in zip((0, *times), (*times, END), strict=True):
        if since == 0 or random.random() < 0.8:
            world.objects.append((since, until, body))
        body = make()


def _node(random: Random, name: str, cpu: int) -> Body:
    status = {
        "conditions": [{"type": "Ready", "status": "True" if random.random() < 0.95 else "False"}],
        "allocatable": {"cpu": str(random.choice((cpu, cpu, cpu, 1))), "pods": random.choice(("2", "110"))},
    }
    spec: Body = {"unschedulable": True} if random.random() < 0.15 else {}
    if random.random() < 0.1:
        spec["taints"] = [{"key": "busy", "effect": "NoSchedule"}]
    return manifest("Node", name, spec, status=status, labels={"zone": random.choice("xy")})


def _devices(random: Random, prefix: str) -> list[Body]:
    found: list[Body] = []
    for number in range(random.randint(2, 5)):
        device: Body = {
            "name": f"{prefix}d{number}",
            "capacity": {"memory": {"value": str(random.randint(2, 4))}},
        }
        if random.random() < 0.985:
            device["attributes"] = {
                "model": {"string": random.choice("aab")},
                "rail": {"int": random.randint(0, 1)},
            }
        if random.random() < 0.25:
            device["allowMultipleAllocations"] = True
        if random.random() < 0.1:
            device["taints"] = [{"key": "hot", "effect": random.choice(("NoSchedule", "NoExecute"))}]
        found.append(device)
    return found


def _slice(random: Random, node: str, *, is_cut: bool = False) -> Body:
    """Return the slice of a node; of a card that is cut, another one has the counters."""
    devices = _devices(random, "")
    for device in devices if is_cut else ():
        counters = {"slots": {"value": str(random.randint(1, 3))}}
        device["consumesCounters"] = [{"counterSet": "card", "counters": counters}]
    return resource_slice(f"slice-{node}", devices, pool=node, nodeName=node, count=2 if is_cut else 1)


def _counters(node: str) -> Body:
    body = resource_slice(f"counters-{node}", [], pool=node, nodeName=node, count=2)
    del body["spec"]["devices"]
    body["spec"]["sharedCounters"] = [{"name": "card", "counters": {"slots": {"value": "4"}}}]
    return body


def _add_residents(world: World, nodes: tuple[str, ...]) -> None:
    """Let pods without claims come and go: numbers of equal ones on a node."""
    random = world.random
    for shape, cpu in (("s1", "1"), ("s2", "500m")):
        containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
        spec = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": "x"},
            "spec": {"containers": containers},
        }
        world.objects.append((0, END, {"kind": "PodShape", "metadata": {"name": shape}, "spec": spec}))
    for node in nodes:
        for shape in ("s1", "s2"):
            since = 0
            while random.random() < 0.6 and since < END - 2:
                since = random.randrange(since, END - 1)
                until = random.randint(since + 1, END)
                body = {
                    "kind": "PodSum",
                    "metadata": {"name": f"{node}/{shape}"},
                    "spec": {shape: random.randint(1, 2)},
                }
                world.objects.append((since, until, body))
                since = until


def _asked(random: Random, name: str) -> Body:
    fields: Body = {"count": random.choice((1, 1, 1, 2)), "allocationMode": "ExactCount"}
    if random.random() < 0.1:
        fields = {"allocationMode": "All"}
    if random.random() < 0.4:
        fields["capacity"] = {"requests": {"memory": str(random.randint(1, 3))}}
    expressions = (
        [f'device.attributes["{GPU}"].model == "{random.choice("ab")}"'] if random.random() < 0.3 else []
    )
    return request(name, random.choice(("gpu", "gpu", "model")), *expressions, **fields)


def _claim(random: Random, name: str, **metadata: Any) -> Body:
    requests = [_asked(random, f"r{number}") for number in range(random.choice((1, 1, 2)))]
    constraints = [{"matchAttribute": f"{GPU}/rail"}] if random.random() < 0.15 else []
    return claim(name, *requests, constraints=constraints, namespace="team", uid=f"claim-{name}", **metadata)


def _add_jobs(world: World) -> None:
    random = world.random
    shares = random.random() < 0.5
    for number in range(random.choice((1, 2)) if shares else 0):
        asked = request("gpu", "gpu")
        body = claim(f"shared-{number}", asked, namespace="team", uid=f"claim-shared-{number}")
        world.shared[f"shared-{number}"] = (
            body if random.random() < 0.6 else _claim(random, f"shared-{number}")
        )
    shapes = [random.randrange(10**6) for _ in range(random.randint(1, 4))]
    plans = []
    for number in range(random.randint(3, 14)):
        name, shape = f"job-{number:02}", Random(random.choice(shapes))  # noqa: S311
        owner = random.choice(("a", "b"))
        arrival = random.randrange(0, END - 5)
        duration = random.choice((None, *range(1, 13), *range(1, 13)))
        common = (name, arrival, duration, random.random() < 0.15, owner, random.randint(0, 1))
        kind = shape.random()
        if kind < 0.15:
            alone = _claim(shape, name, ownerReferences=[])
            plans.append(Plan(*common[:5], 0, None, (alone,), ()))
            continue
        entries, claims = [], []
        if kind < (0.4 if shares else 0.9):
            reference = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": name,
                "uid": f"pod-{name}",
                "controller": True,
            }
            claims.append(_claim(shape, f"{name}-own", ownerReferences=[reference]))
            entries.append({"name": "own", "resourceClaimTemplateName": "template"})
        shared = [each for each in world.shared if shape.random() < 0.7] if kind > 0.25 else []
        entries += [{"name": each, "resourceClaimName": each} for each in shared]
        plans.append(Plan(*common, _pod(shape, common, entries, bool(claims)), tuple(claims), tuple(shared)))
    used = {name for plan in plans for name in plan.shared}
    world.shared = {name: body for name, body in world.shared.items() if name in used}
    world.plans = sorted(plans, key=lambda plan: (plan.arrival, plan.name))


def _pod(shape: Random, common: tuple[Any, ...], entries: list[Body], has_own: bool) -> Body:  # noqa: FBT001
    name, owner, priority = common[0], common[4], common[5]
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
    body = pod(name, *entries, namespace="team", uid=f"pod-{name}", ownerReferences=[controller])
    cpu = shape.choice(("0", "500m", "500m", "1"))
    body["spec"] |= {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        "priority": priority,
    }
    if shape.random() < 0.2:
        body["spec"]["nodeSelector"] = {"zone": "x"}
    if shape.random() < 0.2:
        body["spec"]["tolerations"] = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    named = [{"name": "own", "resourceClaimName": f"{name}-own"}] if has_own else []
    body["status"] = {"resourceClaimStatuses": named, "phase": "Pending"}
    return body


def _change(random: Random, nodes: tuple[str, ...]) -> Changes:
    """Return other nodes, slices or classes."""
    added: list[Body] = []
    removed = set()
    if random.random() < 0.5:
        added += [_node(random, "n9", 2), _slice(random, "n9")]
    if random.random() < 0.4:
        added.append(_slice(random, random.choice(nodes)))
    if random.random() < 0.2:
        added.append(
            device_class("gpu", *[each["cel"]["expression"] for each in selectors('device.driver == "none"')])
        )
    if random.random() < 0.3:
        removed.add(("Node", random.choice(nodes)))
    if random.random() < 0.2:
        removed.add(("ResourceSlice", f"slice-{random.choice(nodes)}"))
    return Changes(tuple(added), frozenset(removed))
