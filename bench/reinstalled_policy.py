"""Reinstalls the policy around owned devices, then makes 1,000 devices the operator's while kube-scheduler wants them.

    python bench/reinstalled_policy.py                    # three control planes: about a quarter of an hour
    python bench/reinstalled_policy.py --when start       # only before the operator's start; also: run, leader
    python bench/reinstalled_policy.py --by kustomize     # kubectl delete -k and apply -k instead of -f

kube-apiserver of Kubernetes 1.37 stops to follow the DeviceTaintRules when their policy is deleted, and does not begin
again for the policy that is installed next. So policy and binding are deleted and installed again: before the operator
starts, while it runs, or while it runs and another one takes over afterwards. Then 900 pods wait for kube-scheduler,
which decides about all of them at once; as soon as `--unwritten` decisions are unwritten an AllocationPolicy is
created, and with it claims for the operator.

The exit code is 1 if any device is ever held twice, if `/readyz` did not say what it waits for, or if the claims of the
operator have no devices at the end.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import moved_devices
from coexistence.fleet import CLASSES
from coexistence.ownership import POLICIES, policy, rule
from coexistence.stage import Stage, operator_flags, running_plane, set_up
from moved_devices import ENOUGH, MOVING, OURS, RELEASED, Rounds, device_class, objects

from controlplane import OperatorProcess, start_operator
from controlplane.manifests import MANIFESTS, install_kinds

WHEN = ("start", "run", "leader")
"""Before the operator starts, while it runs, and while it runs and another one takes over afterwards."""
UNKNOWN = "does not protect devices of DeviceTaintRule dra-operator-owned-moving.example.com"
"""What `/readyz` says of a rule that the API server does not follow."""
REFRESH_SECONDS = 3.0
"""How long kube-apiserver takes at most to see that a policy is gone: it looks each second."""


class Reinstallation(Rounds):
    """One stage on which the policy is reinstalled."""

    def __init__(self, stage: Stage, arguments: argparse.Namespace) -> None:
        super().__init__(stage, arguments)
        self._by = arguments.by
        self._wants = arguments.claims
        self._flags = (
            *operator_flags("owned", arguments.settle),
            f"--ownership-quiet-seconds={arguments.quiet}",
        )
        self._said = set[str]()

    async def reinstall(self) -> None:
        """Delete policy and binding, and install them again once the API server has seen it."""
        await asyncio.to_thread(self._kubectl, "delete")
        await asyncio.sleep(REFRESH_SECONDS)
        await asyncio.to_thread(self._kubectl, "apply")
        await asyncio.sleep(REFRESH_SECONDS)

    def _kubectl(self, verb: str) -> None:
        plane, component = self._stage.plane, MANIFESTS / "components" / "ownership"
        if self._by == "file":
            plane.kubectl(verb, "-f", str(component / "policy.yaml"))
            return
        with tempfile.TemporaryDirectory() as folder:
            reference = os.path.relpath(component, Path(folder).resolve())
            (Path(folder) / "kustomization.yaml").write_text(f"components:\n- {reference}\n")
            plane.kubectl(verb, "-k", folder)

    async def start_operator(self, name: str) -> OperatorProcess:
        """Start an operator and wait until it is ready."""
        plane = self._stage.plane
        started = start_operator(plane, plane.directory / f"{name}.log", *self._flags)
        await asyncio.to_thread(started.wait_ready, 120)
        return started

    async def run(self, when: str) -> bool:
        """Reinstall the policy, create the rule under load, and return whether all is right."""
        await self.prepare()
        if when == "start":
            await self.reinstall()
            operator = await self.start_operator("first")
        else:
            operator = await self.start_operator("first")
            # Its fence is known, and in use.
            await self._claims_of_ours("before", OURS, self._few)
            await self.reinstall()
        if when == "leader":
            operator.kill()
            operator = await self.start_operator("second")
        watching = asyncio.create_task(self._follow_readyz(operator))
        try:
            return await self._load()
        finally:
            watching.cancel()
            operator.stop()

    async def _load(self) -> bool:
        names = [f"pod-{index:04}" for index in range(self._pods_at_once)]
        await self._create_pods(names)
        await self._wait_for_idle_scheduler()
        await self._cluster.create(CLASSES, device_class(RELEASED, MOVING))
        unwritten = await self._wait_for_decisions()
        started = time.monotonic()
        await self._cluster.create(POLICIES, policy("moving", driver=MOVING))
        await self._wait_for_rule()
        reader = self._stage.observer.reader
        reader.owned |= self._moving
        by_others = reader.by_others
        await self._claims_of_ours("moved", MOVING, self._wants, seconds=600)
        took = time.monotonic() - started
        # What kube-scheduler has decided may still be written.
        await self._stage.observer.rest(quiet=10, seconds=300)
        allocated = self._allocated(moved_devices.numbered("moved", self._wants))
        foreign = reader.by_others - by_others
        print(
            f"{unwritten} decided and unwritten at the rule; the first of our claims allocated after {took:.0f} s,"
            f" {allocated} of {self._wants} at the end; {foreign} stored by others on owned devices;"
            f" {len(reader.violations)} held twice",
            flush=True,
        )
        for line in [*self._said, *reader.violations[:5]]:
            print(f"  {line}")
        is_said = any(UNKNOWN in line for line in self._said)
        return is_said and allocated >= ENOUGH and not reader.violations

    async def _follow_readyz(self, operator: OperatorProcess) -> None:
        while True:
            with_status = await asyncio.to_thread(_readyz, operator)
            self._said.update(line for line in with_status if line)
            await asyncio.sleep(1)


def _readyz(operator: OperatorProcess) -> Sequence[str]:
    try:
        return operator.http("/readyz")[1].splitlines()
    except OSError:
        return ()


async def staged(arguments: argparse.Namespace, when: str) -> bool:
    """Run on a control plane of its own."""
    with running_plane() as plane:
        install_kinds(plane)
        async with set_up(
            plane,
            objects=objects(arguments.devices),
            rules=[rule("ours", driver=OURS)],
            scheduler="default",
            flags=None,
        ) as stage:
            print(f"\nreinstalled by {arguments.by} ({when})", flush=True)
            return await Reinstallation(stage, arguments).run(when)


def main(given: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--when", choices=(*WHEN, "all"), default="all", help="when the policy is reinstalled"
    )
    parser.add_argument("--by", choices=("file", "kustomize"), default="file", help="how it is")
    parser.add_argument("--devices", type=int, default=1000, help="devices that change hands")
    parser.add_argument("--pods", type=int, default=900)
    parser.add_argument("--claims", type=int, default=300, help="claims of ours for the same devices")
    parser.add_argument(
        "--unwritten", type=int, default=500, help="decided and unwritten at the rule's creation"
    )
    parser.add_argument("--settle", type=float, help="the operator's --ownership-settle-seconds")
    parser.add_argument("--quiet", type=float, default=40, help="the operator's --ownership-quiet-seconds")
    arguments = parser.parse_args(given)
    chosen = WHEN if arguments.when == "all" else [arguments.when]
    right = [asyncio.run(staged(arguments, when)) for when in chosen]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
