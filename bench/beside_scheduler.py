"""Runs the operator beside kube-scheduler for minutes, and judges at each event of the watch who holds what.

    python bench/beside_scheduler.py                       # both schedulers: default limits and 5,000 requests a second
    python bench/beside_scheduler.py --scheduler fast --seconds 60 --claims 500 --pods 500
    python bench/beside_scheduler.py --devices all         # nobody owns anything: how it goes wrong

Of 200 devices the operator owns one half, by DeviceTaintRules and the policy of manifests/components/ownership.
Standalone claims and pods with claims are created and deleted, as `coexistence/workload.py` says; an independent reader
(`coexistence/reader.py`) has who holds what at each event. At the end all claims of the operator must be allocated or
have a reason that is true.

The exit code is 1 if an owned device, its capacity or its counters are held beyond what there is; if that happens to
another device in a way that does not happen in `--controls` runs without the operator; or if a claim waits that would
fit. Control runs are made only where there is something to compare.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from coexistence.fleet import CLASSES, SLICES, Fleet
from coexistence.observer import Observer
from coexistence.reader import Violation
from coexistence.stage import SCHEDULERS, Stage, operator_flags, running_plane, set_up
from coexistence.truth import Truth
from coexistence.workload import (
    CLAIMS,
    NAMESPACE,
    TEMPLATES,
    Plan,
    Tally,
    Trait,
    Workload,
    claim_spec,
    is_allocated,
    templates,
)

from controlplane import ControlPlane

SHOWN = 5
"""How many violations of a run are printed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run has shown."""

    violations: Sequence[Violation]
    faults: Sequence[str]

    @property
    def of_owned(self) -> list[Violation]:
        """The violations on owned devices."""
        return [one for one in self.violations if one.is_owned]

    @property
    def kinds_of_others(self) -> set[str]:
        """The kinds of violations on the other devices."""
        return {one.kind for one in self.violations if not one.is_owned}


async def one_run(
    plane: ControlPlane, arguments: argparse.Namespace, scheduler: str, *, with_operator: bool
) -> Outcome:
    """Run the load once on a new control plane."""
    fleet = Fleet(arguments.plain)
    objects = {
        "/api/v1/namespaces": [{"metadata": {"name": NAMESPACE}}],
        CLASSES: fleet.classes(),
        "/api/v1/nodes": fleet.nodes(),
        SLICES: fleet.slices(),
        TEMPLATES: templates(),
    }
    async with set_up(
        plane,
        objects=objects,
        rules=fleet.rules() if arguments.devices == "owned" else [],
        scheduler=scheduler,
        flags=operator_flags(arguments.devices, arguments.settle) if with_operator else None,
    ) as stage:
        started = time.monotonic()
        if with_operator:
            await wait_until_used(stage)
        settled = time.monotonic() - started
        plan = Plan(
            claims=arguments.claims,
            pods=arguments.pods,
            seconds=arguments.seconds,
            lifetime=arguments.lifetime,
            patience=arguments.patience,
            at_once=arguments.at_once,
            seed=arguments.seed,
        )
        workload = Workload(stage.cluster, stage.observer, plan)
        started = time.monotonic()
        await workload.run()
        took = time.monotonic() - started
        faults = []
        if with_operator:
            await workload.add_claims(fleet.devices // 2)
            faults = await faults_at_rest(stage)
        outcome = Outcome(stage.observer.reader.violations, faults)
        name = "with the operator" if with_operator else "control"
        print(f"\n{scheduler} kube-scheduler, {name}: {fleet.devices} devices, {took:.0f} s")
        if with_operator:
            print(f"first allocation after {settled:.1f} s")
        report(stage.observer, workload.tally, outcome)
        return outcome


async def wait_until_used(stage: Stage) -> None:
    """Wait until the operator gives out devices: under a new rule it lets some time pass."""
    probe = {"metadata": {"name": "probe"}, "spec": claim_spec("plain", Trait.NONE)}
    await stage.cluster.create(CLAIMS, probe)
    if not await stage.observer.claims.wait_for(f"{NAMESPACE}/probe", is_allocated, 90):
        claim = stage.observer.claims.by_name.get(f"{NAMESPACE}/probe")
        raise SystemExit(
            f"no device is given out after 90 s: {claim and claim['metadata'].get('annotations')}"
        )
    await stage.cluster.send("DELETE", f"{CLAIMS}/probe")


async def faults_at_rest(stage: Stage) -> list[str]:
    """Wait until the claims do not change, and return what is wrong about those of the operator."""
    if not await stage.observer.rest(quiet=5, seconds=120):
        print("claims still change two minutes after the end of the load")
    truth, used = Truth(stage.stock, stage.observer.reader), set(named_by_pods(stage.observer))
    faults = []
    for key, claim in stage.observer.claims.by_name.items():
        if "ownerReferences" in claim["metadata"] or key in used:
            continue
        if "deletionTimestamp" not in claim["metadata"] and (fault := truth.fault(claim)):
            faults.append(f"{key}: {fault}; {claim['metadata'].get('annotations')}")
    return faults


def named_by_pods(observer: Observer) -> list[str]:
    """Return the standalone claims that pods use: those are kube-scheduler's if they lose their devices."""
    return [
        f"{pod['metadata']['namespace']}/{entry['resourceClaimName']}"
        for pod in observer.pods.by_name.values()
        for entry in pod["spec"].get("resourceClaims") or ()
        if "resourceClaimName" in entry
    ]


def report(observer: Observer, tally: Tally, outcome: Outcome) -> None:
    """Print what one run has shown."""
    standalone = [
        claim for claim in observer.claims.by_name.values() if "ownerReferences" not in claim["metadata"]
    ]
    allocated = sum(map(is_allocated, standalone))
    reader = observer.reader
    print(
        f"{tally.claims} standalone claims created, {tally.claims_allocated} allocated in time;"
        f" {tally.pods} pods created, {tally.pods_bound} bound in time;"
        f" {tally.deleted_while_held} claims deleted while they held devices; {dict(tally.traits)}"
    )
    print(
        f"{reader.events} events of claims, {reader.allocations[True]} allocations on owned devices"
        f" ({reader.by_others} by others), {reader.allocations[False]} on others;"
        f" watches resumed {observer.resumed} times"
    )
    print(
        f"at the end {allocated} standalone claims allocated, {len(standalone) - allocated} waiting,"
        f" {len(outcome.faults)} of them without a true reason"
    )
    for side, owned in (("owned", True), ("other", False)):
        counts = Counter(one.kind for one in outcome.violations if one.is_owned is owned)
        kinds = ", ".join(f"{counts[kind]} {kind}" for kind in ("device", "counter", "capacity"))
        print(f"held beyond what there is, {side} devices: {kinds}")
    for line in [*outcome.violations[:SHOWN], *outcome.faults[:SHOWN]]:
        print(f"  {line}")
    sys.stdout.flush()


def judged(arguments: argparse.Namespace, scheduler: str) -> bool:
    """Run beside one kube-scheduler, and without the operator where needed; return whether all is right."""

    def run(*, with_operator: bool) -> Outcome:
        with running_plane() as plane:
            return asyncio.run(one_run(plane, arguments, scheduler, with_operator=with_operator))

    outcome = run(with_operator=True)
    left = set(outcome.kinds_of_others)
    for _ in range(arguments.controls if left else 0):
        left -= run(with_operator=False).kinds_of_others
    for kind in sorted(left):
        print(f"{scheduler} kube-scheduler: {kind} of devices that are not owned, in no control run")
    return not (outcome.of_owned or left or outcome.faults)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--scheduler", choices=(*SCHEDULERS, "both"), default="both")
    made.add_argument("--devices", choices=("owned", "all"), default="owned", help="of the operator")
    made.add_argument("--seconds", type=float, default=300, help="how long claims and pods are created")
    made.add_argument("--claims", type=int, default=2500, help="standalone claims")
    made.add_argument("--pods", type=int, default=2500)
    made.add_argument("--plain", type=int, default=20, help="plain nodes of each side, of four devices")
    made.add_argument("--lifetime", type=float, default=10, help="mean of the lifetimes, seconds")
    made.add_argument("--patience", type=float, default=20, help="until what waits is deleted, seconds")
    made.add_argument("--at-once", type=int, default=600, help="claims and pods that exist at most")
    made.add_argument("--settle", type=float, help="the operator's --ownership-settle-seconds")
    made.add_argument("--controls", type=int, default=3, help="control runs")
    made.add_argument("--seed", type=int, default=1)
    return made


def main(given: Sequence[str] | None = None) -> int:
    """Run the load on control planes of its own."""
    arguments = parser().parse_args(given)
    names = SCHEDULERS if arguments.scheduler == "both" else [arguments.scheduler]
    right = [judged(arguments, name) for name in names]
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    print(f"\n{os.cpu_count()} cores, load averages at the end {load}")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
