"""A control plane with devices, kube-controller-manager, kube-scheduler and, but for control runs, the operator."""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from live.client import Cluster
from live.objects import Body

from coexistence.fleet import SLICES
from coexistence.observer import Observer
from coexistence.ownership import RULES, selected
from coexistence.reader import Published, Reader, published
from controlplane import ControlPlane, OperatorProcess, Process, find_or_build, install_access, start_operator
from controlplane.manifests import install_fence
from controlplane.plane import running_control_plane
from controlplane.serving import EVERYTHING, Serving
from dra_operator.api.names import OWNED_TOLERATIONS_POLICY

FAST_MANAGER = ("--kube-api-qps=1000", "--kube-api-burst=1000")
"""kube-controller-manager makes and ends the pods' claims; at its default limits it would throttle the load."""
SCHEDULERS: Mapping[str, Mapping[str, int] | None] = {
    "default": None,
    "fast": {"qps": 5000, "burst": 5000},
}
UNENFORCED = replace(EVERYTHING, without_admission=("ValidatingAdmissionPolicy",))
"""An API server that stores policies, and asks none."""


@contextmanager
def running_plane(serving: Serving = EVERYTHING) -> Iterator[ControlPlane]:
    """Run a control plane with the operator's access and kube-controller-manager; kube-scheduler comes later."""
    with (
        tempfile.TemporaryDirectory(prefix="coexistence-") as folder,
        running_control_plane(find_or_build(), Path(folder), serving) as plane,
    ):
        install_access(plane)
        plane.start_controller_manager(*FAST_MANAGER)
        yield plane


def operator_flags(devices: str, settle: float | None) -> tuple[str, ...]:
    """Return the flags of an operator that allocates `owned` or `all` devices; `settle` None is its default."""
    given = () if settle is None else (f"--ownership-settle-seconds={settle}",)
    return (f"--devices={devices}", *given)


@dataclass(slots=True)
class Stage:
    """What runs. `operator` is None in a control run."""

    plane: ControlPlane
    cluster: Cluster
    observer: Observer
    stock: Published
    scheduler: Process
    operator: OperatorProcess | None

    async def scheduler_metric(self, name: str, labels: str = "") -> float:
        """Return the sum of a metric of kube-scheduler, of the series that have `labels` in their name."""
        return sum_of(await asyncio.to_thread(self.plane.scheduler_metrics), name, labels)


def sum_of(text: str, name: str, labels: str = "") -> float:
    """Return the sum of the series of a metric in the text format."""
    found = re.findall(rf"^{name}(\{{[^}}]*\}})? (\S+)", text, re.MULTILINE)
    return sum(float(value) for series, value in found if labels in series)


@asynccontextmanager
async def set_up(
    plane: ControlPlane,
    *,
    objects: Mapping[str, list[Body]],
    rules: list[Body],
    scheduler: str,
    flags: tuple[str, ...] | None,
) -> AsyncIterator[Stage]:
    """Create the objects, collection by collection, then the fence if there are rules, and start everybody.

    Without `flags` there is no operator. The reader knows the devices of `rules` as owned.
    """
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(plane.server, plane.ca, plane.tokens["admin"]))
        for collection, bodies in objects.items():
            await cluster.create_all(collection, bodies)
        stock = published(await cluster.list(SLICES))
        if rules:
            install_fence(plane)
            # Some pods of the load tolerate every taint, so that the fence is tried.
            plane.kubectl(
                "patch",
                f"validatingadmissionpolicybinding/{OWNED_TOLERATIONS_POLICY}",
                '--patch={"spec": {"validationActions": ["Warn"]}}',
            )
        for body in rules:
            await cluster.create(RULES, body)
        observer = Observer(cluster, Reader(stock, selected(rules, stock.devices)))
        await stack.enter_async_context(observer.watching())
        running = plane.start_scheduler(SCHEDULERS[scheduler])
        stack.callback(plane.stop_scheduler, running)
        operator = None
        if flags is not None:
            operator = start_operator(plane, plane.directory / "operator.log", *flags)
            stack.callback(operator.stop)
            await asyncio.to_thread(operator.wait_ready, 120)
        yield Stage(plane, cluster, observer, stock, running, operator)
