"""Makes 1,000 devices the operator's and gives them back, again and again, while kube-scheduler decides about them.

    python bench/moved_devices.py                 # 50 rounds: hours
    python bench/moved_devices.py --rounds 3
    python bench/moved_devices.py --rounds 1 --no-fence   # must fail: what kube-scheduler has decided is written late

kube-scheduler runs at its default limits, so it decides faster than it writes. A round creates 1,000 pods whose class
does not exist, then the class, so that kube-scheduler decides about all of them at once, and an AllocationPolicy as
soon as `--unwritten` decisions are unwritten. Then the operator allocates on the devices, and kube-scheduler beside
them. With claims of ours half written and pods waiting the policy is deleted; then kube-scheduler gets the devices, in
each second round as they are given back in use.

The exit code is 1 if any device is ever held twice, if not enough rounds had `--unwritten` decided and unwritten
allocations at the policy's creation, if a rule is gone while claims hold its devices and nobody asked for that, or if
a side has not got twenty devices after a move. With `--no-fence` policy and binding are stored, so that the operator
waits no longer than with them, but the API server asks no policy.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from coexistence.fleet import CLASSES, SLICES
from coexistence.ownership import POLICIES, RULES, policy, rule
from coexistence.stage import UNENFORCED, Stage, operator_flags, running_plane, set_up
from coexistence.workload import (
    AT_ONCE,
    CLAIMS,
    NAMESPACE,
    POD_PATH,
    is_allocated,
    is_bound,
    pod,
)
from live.client import RefusedError, for_each
from live.objects import Body
from live.objects import node as live_node

from controlplane.manifests import install_kinds
from controlplane.serving import EVERYTHING

MOVING, OTHER, OURS = "moving.example.com", "other.example.com", "ours.example.com"
"""Drivers: of the devices that change hands, of those that stay kube-scheduler's, and of those that stay ours."""
RELEASED = "released.example.com"
"""The class that the pods' claims ask for; it comes and goes, with the moving devices in it."""
OPTED_OUT = {"dra-operator.io/allocate": "false"}
PER_NODE = 64
"""The fewer nodes, the faster kube-scheduler decides."""
HOLD_SECONDS = 10
"""How long claims hold devices whose policy is deleted."""
ENOUGH = 20
"""How many allocations each side must get after each move."""


@dataclass(frozen=True, slots=True)
class Move:
    """What one move has shown."""

    name: str
    unwritten: int | None
    operator: int
    scheduler: int
    moving: float
    seconds: float

    def __str__(self) -> str:
        unwritten = "" if self.unwritten is None else f"{self.unwritten} decided and unwritten, "
        return (
            f"{self.name}: {unwritten}moved after {self.moving:.1f} s; then {self.operator} allocations by the"
            f" operator, {self.scheduler} by kube-scheduler, in {self.seconds:.0f} s"
        )


class Rounds:
    """The moves, on one stage."""

    def __init__(self, stage: Stage, arguments: argparse.Namespace) -> None:
        self._stage = stage
        self._cluster = stage.cluster
        self._claims = stage.observer.claims
        self._pods = stage.observer.pods
        self._pods_at_once = arguments.pods
        self._wanted = arguments.unwritten
        # How many claims of ours, and pods, want the moving devices when they move.
        self._busy = max(ENOUGH, min(100, arguments.devices // 8))
        self._few = ENOUGH + 10
        self.rules_lost = 0
        self._moving = {device for device in stage.stock.devices if device.driver == MOVING}

    async def prepare(self) -> None:
        """Create the claims of the pods; they stay, and are not the operator's."""
        names = [f"pod-{index:04}" for index in range(self._pods_at_once)]
        await self._create_claims(names, RELEASED, OPTED_OUT)
        await self._create_claims(numbered("beside", self._few), OTHER, OPTED_OUT)
        await self._create_claims(numbered("after", self._few), MOVING, OPTED_OUT)

    async def take(self, number: int) -> Move:
        """Create the pods, then the policy, and let both sides allocate."""
        names = [f"pod-{index:04}" for index in range(self._pods_at_once)]
        await self._create_pods(names)
        await self._wait_for_idle_scheduler()
        started = time.monotonic()
        await self._cluster.create(CLASSES, device_class(RELEASED, MOVING))
        unwritten = await self._wait_for_decisions()
        decided = time.monotonic()
        await self._cluster.create(POLICIES, policy("moving", driver=MOVING))
        await self._wait_for_rule()
        self._stage.observer.reader.owned |= self._moving
        operator = await self._claims_of_ours(f"owned-{number}", MOVING, self._busy)
        beside = numbered("beside", self._few)
        await self._create_pods(beside)
        scheduler = await self._until(lambda: self._bound(beside), ENOUGH, 300)
        return Move("taken", unwritten, operator, scheduler, decided - started, time.monotonic() - decided)

    async def give_back(self, number: int) -> Move:
        """Delete the policy while claims of ours are being written, and let both sides allocate.

        In every second round the devices are given back in use, else once the claims have ended.
        """
        names = [f"pod-{index:04}" for index in range(self._busy, self._pods_at_once)]
        await self._delete_all([f"{POD_PATH}/{name}{AT_ONCE}" for name in names])
        await self._delete_all([f"{CLAIMS}/{name}" for name in numbered(f"owned-{number}", self._busy)])
        after = numbered("after", self._few)
        await self._create_pods(after)
        started = time.monotonic()
        leaving = numbered(f"leaving-{number}", self._busy)
        await self._create_claims(leaving, MOVING)
        await self._cluster.delete(f"{POLICIES}/moving")
        if number % 2:
            patch = {"metadata": {"annotations": {"dra-operator.io/give-back": "in-use"}}}
            await self._cluster.patch_all(POLICIES, ["moving"], patch)
        else:
            await self._hold_and_end(leaving)
        await self._wait_gone(f"{POLICIES}/moving")
        gone = time.monotonic()
        self._stage.observer.reader.owned -= self._moving
        scheduler = await self._until(lambda: self._bound(after), ENOUGH, 300)
        operator = await self._claims_of_ours(f"after-{number}", OURS, self._few)
        return Move("given back", None, operator, scheduler, gone - started, time.monotonic() - gone)

    async def _hold_and_end(self, claims: list[str]) -> None:
        """End all claims, those of pods by their pods; as long as one holds a device, a rule must own it."""
        await asyncio.sleep(HOLD_SECONDS)
        if self._allocated(claims) and not await self._rules():
            self.rules_lost += 1
        await self._delete_all([f"{CLAIMS}/{name}" for name in claims])
        names = [f"pod-{index:04}" for index in range(self._busy)]
        await self._delete_all([f"{POD_PATH}/{name}{AT_ONCE}" for name in names])

    async def _wait_for_rule(self) -> None:
        """Wait until the operator has made the rule of the policy."""
        deadline = time.monotonic() + 60
        while not await self._rules():
            if time.monotonic() > deadline:
                raise SystemExit("the policy has no rule after a minute")
            await asyncio.sleep(0.05)

    async def _rules(self) -> list[Body]:
        """Return the rules that own the moving devices."""
        found = await self._cluster.list(RULES)
        return [each for each in found if each["spec"]["deviceSelector"] == {"driver": MOVING}]

    async def clear(self) -> None:
        """Delete all pods and claims of ours and the class, and wait until the devices are free."""
        await self._cluster.delete(f"{CLASSES}/{RELEASED}")
        await self._cluster.send("DELETE", f"{POD_PATH}{AT_ONCE}")
        ours = [
            key.partition("/")[2] for key, claim in self._claims.by_name.items() if not _is_opted_out(claim)
        ]
        await self._delete_all([f"{CLAIMS}/{name}" for name in ours])
        left = await self._until(lambda: -len(self._in_use()), 0, 300)
        if left:
            print(f"{-left} claims still hold devices: {', '.join(self._in_use()[:3])}")

    def _in_use(self) -> list[str]:
        """Return the claims that hold devices or are ours."""
        return [
            key
            for key, claim in self._claims.by_name.items()
            if is_allocated(claim) or not _is_opted_out(claim)
        ]

    async def _wait_for_idle_scheduler(self) -> None:
        """Wait until kube-scheduler has put all pods aside, and has no writes on their way."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            aside = await self._stage.scheduler_metric("scheduler_pending_pods", 'queue="unschedulable"')
            if aside >= self._pods_at_once:
                return
            await asyncio.sleep(0.5)
        raise SystemExit(
            f"kube-scheduler has looked at {aside:g} of {self._pods_at_once} pods in five minutes"
        )

    async def _wait_for_decisions(self) -> int:
        """Wait for so many decisions of kube-scheduler as are wanted and return the highest number seen."""
        deadline = time.monotonic() + 60
        unwritten = 0
        while unwritten < self._wanted and time.monotonic() < deadline:
            unwritten = max(unwritten, await self._unwritten())
            await asyncio.sleep(0.05)
        return unwritten

    async def _unwritten(self) -> int:
        """Return how many pods kube-scheduler has decided about whose claims do not have their devices yet."""
        binding = await self._stage.scheduler_metric("scheduler_goroutines", 'operation="binding"')
        return int(binding) - sum(map(self._is_being_bound, self._claims.by_name.values()))

    def _is_being_bound(self, claim: Body) -> bool:
        """Tell whether a claim is reserved for a pod that has no node yet."""
        users = (claim.get("status") or {}).get("reservedFor") or ()
        pods = (self._pods.by_name.get(f"{NAMESPACE}/{user['name']}") for user in users)
        return any(pod is not None and not is_bound(pod) for pod in pods)

    async def _claims_of_ours(
        self, prefix: str, device_class: str, count: int, *, seconds: float = 120
    ) -> int:
        names = numbered(prefix, count)
        await self._create_claims(names, device_class)
        return await self._until(lambda: self._allocated(names), min(count, ENOUGH), seconds)

    async def _create_claims(
        self, names: list[str], device_class: str, labels: Mapping[str, str] | None = None
    ) -> None:
        request = {"name": "devices", "exactly": {"deviceClassName": device_class}}
        bodies = [
            {
                "metadata": {"name": name, "labels": dict(labels or {})},
                "spec": {"devices": {"requests": [request]}},
            }
            for name in names
        ]
        await self._cluster.create_all(CLAIMS, bodies)

    async def _create_pods(self, names: list[str]) -> None:
        """Create pods, each for the claim of its name."""
        bodies = [pod(name, [{"name": "devices", "resourceClaimName": name}]) for name in names]
        await self._cluster.create_all(POD_PATH, bodies)

    async def _delete_all(self, paths: list[str]) -> None:
        await for_each(paths, self._cluster.delete)

    async def _until(self, count: Callable[[], int], enough: int, seconds: float) -> int:
        """Wait until a count is high enough, or time is up, and return it."""
        deadline = time.monotonic() + seconds
        while count() < enough and time.monotonic() < deadline:  # noqa: ASYNC110 - counts of any kind
            await asyncio.sleep(0.1)
        return count()

    def _bound(self, names: Iterable[str]) -> int:
        return sum(is_bound(self._pods.by_name.get(f"{NAMESPACE}/{name}")) for name in names)

    def _allocated(self, names: Iterable[str]) -> int:
        return sum(is_allocated(self._claims.by_name.get(f"{NAMESPACE}/{name}")) for name in names)

    async def _wait_gone(self, path: str, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        with suppress(RefusedError):
            while time.monotonic() < deadline:
                body = await self._cluster.send("GET", path)
                await asyncio.sleep(0.1)
            raise SystemExit(f"{path} is still there after {seconds:g} s: {body['metadata']}")


def numbered(prefix: str, count: int) -> list[str]:
    """Return the names of so many claims or pods."""
    return [f"{prefix}-{index:03}" for index in range(count)]


def _is_opted_out(claim: Body) -> bool:
    return OPTED_OUT.items() <= claim["metadata"].get("labels", {}).items()


def device_class(name: str, driver: str) -> Body:
    """Return a class of all devices of a driver."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {"metadata": {"name": name}, "spec": {"selectors": [selector]}}


def objects(moving: int) -> dict[str, list[Body]]:
    """Return a cluster with so many moving devices, and the devices of one node on each side that stay."""
    drivers = {MOVING: -(-moving // PER_NODE), OTHER: 1, OURS: 1}
    nodes = [
        (driver, f"{driver.partition('.')[0]}-{number:03}")
        for driver, count in drivers.items()
        for number in range(count)
    ]
    return {
        "/api/v1/namespaces": [{"metadata": {"name": NAMESPACE}}],
        CLASSES: [device_class(driver, driver) for driver in drivers],
        "/api/v1/nodes": [live_node(name) for _, name in nodes],
        SLICES: [_slice(driver, name) for driver, name in nodes],
    }


def _slice(driver: str, node: str) -> Body:
    devices = [
        {"name": f"gpu-{index}", "attributes": {"kind": {"string": "plain"}}} for index in range(PER_NODE)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": node},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": devices},
    }


async def run(arguments: argparse.Namespace, stage: Stage) -> bool:
    """Make the moves, print them, and return whether all is right.

    A round with too few unwritten decisions, as on a busy machine, does not count and is made up for.
    """
    reader, rounds = stage.observer.reader, Rounds(stage, arguments)
    await rounds.prepare()
    right, counted = True, 0
    for number in range(1, 2 * arguments.rounds + 1):
        for move in (rounds.take, rounds.give_back):
            by_others = reader.by_others
            shown = await move(number)
            print(
                f"round {number}, {shown}; {reader.by_others - by_others} stored by others on owned devices;"
                f" {len(reader.violations)} held twice",
                flush=True,
            )
            right &= min(shown.operator, shown.scheduler) >= ENOUGH
            counted += shown.unwritten is not None and shown.unwritten >= arguments.unwritten
        if counted == arguments.rounds:
            break
        await rounds.clear()
    for violation in reader.violations[:5]:
        print(f"  {violation}")
    print(
        f"{counted} rounds, {reader.events} events of claims, {reader.allocations[True]} allocations"
        f" on owned devices ({reader.by_others} by others), {reader.allocations[False]} on others;"
        f" {len(reader.violations)} devices held twice, {rounds.rules_lost} rules gone too early"
    )
    return right and counted == arguments.rounds and not reader.violations and not rounds.rules_lost


async def staged(arguments: argparse.Namespace) -> bool:
    """Run on a control plane of its own."""
    with running_plane(UNENFORCED if arguments.no_fence else EVERYTHING) as plane:
        install_kinds(plane)
        async with set_up(
            plane,
            objects=objects(arguments.devices),
            rules=[rule("ours", driver=OURS)],
            scheduler="default",
            flags=operator_flags("owned", arguments.settle),
        ) as stage:
            return await run(arguments, stage)


def main(given: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--devices", type=int, default=1000, help="devices that change hands")
    parser.add_argument("--pods", type=int, default=1000, help="pods at each creation of the policy")
    parser.add_argument("--unwritten", type=int, default=500, help="decided and unwritten at each creation")
    parser.add_argument("--no-fence", action="store_true", help="the API server asks no policy")
    parser.add_argument("--settle", type=float, help="the operator's --ownership-settle-seconds")
    arguments = parser.parse_args(given)
    right = asyncio.run(staged(arguments))
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    print(f"{os.cpu_count()} cores, load averages at the end {load}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
