"""Who allocates: the operator, kube-scheduler, or the bare client. One at a time, each a process of its own.

The operator and the bare client act as the same service account, so that the API server authorizes, queues and
audits the requests of both alike; kube-scheduler acts as itself.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from controlplane import ControlPlane, Process, start_operator
from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT

ROOT = Path(__file__).parents[2]
BARE_CLIENT = Path(__file__).with_name("bare_client.py")
FAST: Mapping[str, int] = {"qps": 5000, "burst": 5000}
"""kube-scheduler's `clientConnection` without limits that matter."""


class Decider(Enum):
    """Who allocates."""

    BARE = "bare client"
    OPERATOR = "operator"
    CONFINED_OPERATOR = "confined operator"
    OTHER_OPERATOR = "other operator"
    SCHEDULER = "kube-scheduler"
    FAST_SCHEDULER = "kube-scheduler, 5000 qps"

    @property
    def needs_pods(self) -> bool:
        """True of kube-scheduler, which allocates a claim when a pod needs it."""
        return self in (Decider.SCHEDULER, Decider.FAST_SCHEDULER)


class Load(Enum):
    """How the claims come."""

    STANDING = "standing"
    """They are there when the decider starts."""
    BURST = "burst"
    """They are created, as fast as that goes, while it runs."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be allocated: `count` claims in the collection at `claims`, on nodes with `devices` each."""

    load: Load
    claims: str
    count: int
    devices: int


@dataclass(frozen=True, slots=True)
class Running:
    """A decider that runs. `ready` waits until it takes claims."""

    process: Process
    ready: Callable[[], None]
    stop: Callable[[], object]


class Starter:
    """Starts deciders on a control plane. Logs go to its folder, one file for each start.

    `other` is another checkout of this repository, whose operator is the "other operator".
    """

    def __init__(self, plane: ControlPlane, other: Path | None = None) -> None:
        self._plane = plane
        self._other = other
        self._starts = 0

    def start(self, decider: Decider, job: Job) -> Running:
        """Start a decider."""
        self._starts += 1
        if decider is Decider.BARE:
            return self._bare_client(job)
        if decider in (Decider.OPERATOR, Decider.CONFINED_OPERATOR, Decider.OTHER_OPERATOR):
            checkout = self._other if decider is Decider.OTHER_OPERATOR else ROOT
            # Before what is installed: the checkout this is run from need not be the installed one.
            path = {"PYTHONPATH": f"{checkout}/operator"}
            operator = start_operator(self._plane, self._log("operator"), environment=path)
            return Running(operator, operator.wait_ready, operator.stop)
        scheduler = self._plane.start_scheduler(FAST if decider is Decider.FAST_SCHEDULER else None)
        return Running(scheduler, lambda: None, lambda: self._plane.stop_scheduler(scheduler))

    def _bare_client(self, job: Job) -> Running:
        token = self._plane.directory / "bare-client.token"
        token.write_text(self._plane.token(SERVICE_ACCOUNT, NAMESPACE))
        client = Process(
            "bare client",
            [
                sys.executable,
                BARE_CLIENT,
                f"--server={self._plane.server}",
                f"--authority={self._plane.ca}",
                f"--token={token}",
                f"--claims={job.claims}",
                f"--count={job.count}",
                f"--devices={job.devices}",
                *(("--watch",) if job.load is Load.BURST else ()),
            ],
            log=self._log("bare-client"),
        )
        if job.load is Load.STANDING:
            return Running(client, lambda: None, client.stop)
        return Running(
            client,
            lambda: client.wait_until(lambda: "watching" in client.log_text(), seconds=30),
            client.stop,
        )

    def _log(self, name: str) -> Path:
        return self._plane.directory / f"{name}-{self._starts}.log"
