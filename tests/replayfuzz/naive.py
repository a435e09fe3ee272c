"""A simulation that keeps nothing: at each event a state is made anew, and all that waits is decided in it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

from dra_operator.allocator.decision import Allocated, Decider
from dra_operator.api.types import AllocationResult
from dra_operator.api.write import allocation_to_wire
from dra_operator.history.reader import Moment, build_state
from dra_operator.pods.node_fit import read_requirements
from dra_operator.pods.pod_decision import PodDecider, PodDecision
from dra_operator.questions.state import with_enough
from replayfuzz.world import END, Body, Plan, World

Devices = tuple[tuple[str, str], ...]


@dataclass
class Simulation:
    """What runs, since when, and until when; claims of pods by name, with what they have."""

    world: World
    by_priority: bool
    results: dict[str, tuple[int, str, Devices]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    held: dict[str, AllocationResult] = field(default_factory=dict)

    def run(self) -> None:
        """Let everything happen."""
        waiting: list[Plan] = []
        objects = [*self.objects()]
        times = {plan.arrival for plan in self.world.plans} | {0}
        times |= {at for since, until, _ in objects for at in (since, until)}
        while times and (at := min(times)) < END:
            times.discard(at)
            for name in [name for name, end in self.ends.items() if end <= at]:
                self.end(name)
            waiting += [plan for plan in self.world.plans if plan.arrival == at]
            if self.by_priority:
                waiting.sort(key=lambda plan: (-plan.priority, plan.arrival, plan.name))
            there = [body for since, until, body in objects if since <= at < until]
            for plan in [*waiting]:
                if self.start(plan, there, at):
                    waiting.remove(plan)
                    if plan.name in self.ends:
                        times.add(self.ends[plan.name])

    def objects(self) -> Iterator[tuple[int, int, Body]]:
        """Yield what there is, as changed."""
        added, removed = self.world.changes.added, self.world.changes.removed
        pools = {each["spec"]["pool"]["name"] for each in added if each["kind"] == "ResourceSlice"}
        names = {(each["kind"], each["metadata"]["name"]) for each in added} | removed
        yield from ((0, END, body) for body in added)
        for since, until, body in self.world.objects:
            if (body["kind"], body["metadata"]["name"]) in names:
                continue
            if body["kind"] == "ResourceSlice":
                spec = body["spec"]
                if spec["pool"]["name"] in pools or ("Node", spec.get("nodeName")) in removed:
                    continue
            yield since, until, body

    def bodies(self, there: list[Body]) -> Iterator[Body]:
        """Yield the objects of the cluster, with pods that run and claims that have devices."""
        shapes = {each["metadata"]["name"]: each["spec"] for each in there if each["kind"] == "PodShape"}
        for body in there:
            if body["kind"] == "PodSum":
                node = body["metadata"]["name"].partition("/")[0]
                for shape, number in body["spec"].items():
                    for index in range(number):
                        name = f"{node}-{shape}-{index}"
                        spec = {**shapes[shape]["spec"], "nodeName": node}
                        yield {**shapes[shape], "metadata": {"name": name, "namespace": "x"}, "spec": spec}
            elif body["kind"] == "Node":
                yield dict(with_enough(body))
            elif body["kind"] != "PodShape":
                yield body
        for plan in self.world.plans:
            for claim in plan.claims:
                yield self.with_status(claim)
            if plan.pod is not None and plan.name in self.nodes:
                yield {**plan.pod, "spec": {**plan.pod["spec"], "nodeName": self.nodes[plan.name]}}
        for claim in self.world.shared.values():
            yield self.with_status(claim)

    def with_status(self, claim: Body) -> Body:
        """Return a claim with what it has."""
        held = self.held.get(claim["metadata"]["name"])
        return claim if held is None else {**claim, "status": {"allocation": allocation_to_wire(held)}}

    def start(self, plan: Plan, there: list[Body], at: int) -> bool:
        """Start a job if it fits."""
        state = build_state(Moment(0, tuple(self.bodies(there)), {}, ""))
        if plan.pod is None:
            (body,) = plan.claims
            claim = state.find_claim(("team", body["metadata"]["name"]))
            decision = state.allocators[Decider.OPERATOR].allocate([claim], decider=Decider.OPERATOR)
            if not isinstance(decision, Allocated):
                return False
            node, found = decision.node, {claim.metadata.name: decision.results[0]}
        else:
            decider = Decider.KUBE_SCHEDULER
            explainer = state.explainers[decider]
            deciding = PodDecider(explainer, state.pods, state.find_claim, lambda _: True, decider)
            (record,) = build_state(Moment(0, (plan.pod,), {}, "")).objects.of_kind("Pod")
            placed = deciding.find_node(record.obj, read_requirements(plan.pod))
            if not isinstance(placed, PodDecision):
                return False
            node, found = placed.node, {**placed.allocations}
        self.held |= found
        names = [each["metadata"]["name"] for each in plan.claims]
        devices = [
            (result.pool, result.device) for name in names for result in self.held[name].devices.results
        ]
        self.results[plan.name] = at, node, tuple(devices)
        self.nodes[plan.name] = node
        duration = self.duration(plan)
        if duration is not None:
            self.ends[plan.name] = at + duration
        return True

    def end(self, name: str) -> None:
        """End a job, and what it shared if it was the last one."""
        del self.ends[name], self.nodes[name]
        (plan,) = [each for each in self.world.plans if each.name == name]
        for claim in plan.claims:
            del self.held[claim["metadata"]["name"]]
        for claim in plan.shared:
            if not any(claim in each.shared for each in self.world.plans if each.name in self.nodes):
                del self.held[claim]

    def duration(self, plan: Plan) -> int | None:
        """Return for how long a job runs: one that never did, as long as the median of those like it."""
        if not plan.never_ran:
            return recorded(plan)
        plans = [each for each in self.world.plans if not each.never_ran and recorded(each) is not None]
        alike: list[list[Plan]] = [
            [each for each in plans if plan.pod and each.pod and each.owner == plan.owner],
            [each for each in plans if class_of(self.world, each) == class_of(self.world, plan)],
            plans,
        ]
        found = next((each for each in alike if each), None)
        return None if found is None else median_low([recorded(each) or 0 for each in found])


def recorded(plan: Plan) -> int | None:
    """Return for how long a job runs by the record; what lasts to its end stays."""
    is_longer = plan.duration is not None and plan.arrival + 1 + plan.duration >= END
    return None if is_longer else plan.duration


def class_of(world: World, plan: Plan) -> Any:
    """Return the class of the first request of a job."""
    for body in (*plan.claims, *(world.shared[name] for name in plan.shared)):
        return body["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"]
    return None
