"""A control plane with kube-controller-manager, kube-scheduler, owned devices, and operators that come and go."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from coexistence.fleet import SLICES
from coexistence.observer import Observer
from coexistence.ownership import RULES, selected
from coexistence.reader import Reader, published
from coexistence.stage import sum_of
from live.client import Cluster
from live.objects import Body

from controlplane import ControlPlane, OperatorProcess, Process, install_component, start_operator
from controlplane.manifests import MANIFESTS, install_fence
from handover.fleet import EVENTS, Fleet
from handover.judge import Judge

READY_SECONDS = 180.0


def install(plane: ControlPlane) -> None:
    """Apply the rights for gated pods, and the policies that confine the operator and protect its devices."""
    install_component(plane, "gates")
    plane.kubectl("apply", f"--filename={MANIFESTS / 'components' / 'gates' / 'policy.yaml'}")
    install_fence(plane)


@dataclass(slots=True)
class Operators:
    """Starts operators and ends them; each start has a log of its own."""

    plane: ControlPlane
    flags: tuple[str, ...]
    running: dict[str, OperatorProcess] = field(default_factory=dict)
    starts: int = 0

    def start(self, identity: str) -> OperatorProcess:
        """Start an operator under a name that the Lease knows it by."""
        self.starts += 1
        log = self.plane.directory / f"operator-{self.starts:03}.log"
        environment = {"POD_NAME": identity, "POD_UID": "one"}
        operator = start_operator(
            self.plane,
            log,
            "--claims=gated",
            "--devices=owned",
            "--ownership-settle-seconds=5",
            *self.flags,
            environment=environment,
        )
        self.running[identity] = operator
        return operator

    def kill(self, identity: str) -> None:
        """End an operator as a power cut would."""
        self.running.pop(identity).kill()

    def stop(self) -> None:
        """Stop all that run."""
        while self.running:
            self.running.popitem()[1].stop()

    async def wait_leading(self, seconds: float = READY_SECONDS) -> str:
        """Return the name of the operator that decides, as soon as one does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for identity, operator in [*self.running.items()]:
                with suppress(OSError):
                    text = (await asyncio.to_thread(operator.http, "/metrics"))[1]
                    if "dra_operator_leading 1.0" in text and await asyncio.to_thread(operator.ready):
                        return identity
            await asyncio.sleep(0.2)
        tails = "\n".join(operator.log_tail() for operator in self.running.values())
        raise SystemExit(f"no operator decides after {seconds:g} s:\n{tails}")


@dataclass(slots=True)
class Stage:
    """What runs."""

    plane: ControlPlane
    cluster: Cluster
    observer: Observer
    judge: Judge
    scheduler: Process
    operators: Operators

    async def scheduler_metric(self, name: str, labels: str = "") -> float:
        """Return the sum of a metric of kube-scheduler, of the series that have `labels` in their name."""
        return sum_of(await asyncio.to_thread(self.plane.scheduler_metrics), name, labels)

    async def events(self) -> dict[str, list[str]]:
        """Return the Events of pods, by name, each as reason and message, the newest last."""
        found: dict[str, list[tuple[str, str]]] = {}
        for event in await self.cluster.list(EVENTS):
            if event["involvedObject"]["kind"] == "Pod":
                at = event.get("lastTimestamp") or event.get("eventTime") or ""
                text = f"{event['reason']}: {event.get('message', '')}"
                found.setdefault(event["involvedObject"]["name"], []).append((at, text))
        return {name: [text for _, text in sorted(items)] for name, items in found.items()}

    async def until(self, condition: Callable[[], bool], *, seconds: float) -> bool:
        """Wait until a condition is true of what was observed; return whether it came to be in time."""
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - conditions of any kind
            await asyncio.sleep(0.2)
        return condition()

    async def rest(self, quiet: float, seconds: float) -> bool:
        """Return whether neither claims nor pods change for `quiet` seconds, within `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            last = max(self.observer.claims.last_change, self.observer.pods.last_change)
            if time.monotonic() - last >= quiet:
                return True
            await asyncio.sleep(0.5)
        return False


@asynccontextmanager
async def set_up(
    plane: ControlPlane,
    fleet: Fleet,
    *,
    connection: Mapping[str, int] | None,
    flags: tuple[str, ...] = (),
) -> AsyncIterator[Stage]:
    """Create the fleet, its policies and rules, and start kube-scheduler and one operator, which decides."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(plane.server, plane.ca, plane.tokens["admin"]))
        for collection, bodies in fleet.objects().items():
            await cluster.create_all(collection, bodies)
        install(plane)
        for body in fleet.rules():
            await cluster.create(RULES, body)
        stock = published(await cluster.list(SLICES))
        observer = Observer(cluster, Reader(stock, selected(fleet.rules(), stock.devices)))
        judge = Judge(fleet, observer)
        await stack.enter_async_context(observer.watching())
        scheduler = plane.start_scheduler(connection)
        stack.callback(plane.stop_scheduler, scheduler)
        operators = Operators(plane, flags)
        stack.callback(operators.stop)
        operators.start("operator-a")
        await operators.wait_leading()
        yield Stage(plane, cluster, observer, judge, scheduler, operators)


def pick(random: random.Random, mean: float) -> float:
    """Return a time with this mean."""
    return mean * random.uniform(0.5, 1.5)


def node_of(body: Body | None) -> str:
    """Return the node of a pod; empty if it is not there, or has none."""
    return "" if body is None else str(body["spec"].get("nodeName") or "")
