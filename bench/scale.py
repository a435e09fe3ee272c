"""Measures the operator in a large cluster: start, memory, events, passes, and claims that come and go.

    python bench/scale.py                        # 5,000 nodes, 40,000 devices, 10,000 claims
    python bench/scale.py --cycles 100000        # and creates, decides and deletes that many claims
    python bench/scale.py --replaced 20000       # and replaces nodes, while claims wait that none of them can help
    python bench/scale.py --pods 50000           # and explains pods (`--explain all`) in a cluster with so many
    python bench/scale.py --nodes 100 --claims 900 --allocated 700 --waiting 1000    # and pods that wait at once
    python bench/scale.py --nodes 100 --claims 200 --allocated 150 --events 1000 --cycles 500

An API server in memory, in another process, holds the cluster; the operator is the real one, `dra-operator run`, in a
process of its own. It reports:

- start: from the start of the process until `/readyz` answers 200, when everything has been listed; and the number of
  claims that were waiting then
- memory: resident after the sync, and at the peak, as the kernel counts them
- idle: from the moment a claim is stored until its allocation is
- events: how many changes per second of claims (a label) and of slices (a new generation, so the whole slice) get from
  the store into decisions, while a claim waits for the last one; CPU time of the operator per event
- passes: the mean duration
- cycles: resident memory as claims come and go, and its growth per cycle over the second half
- replaced: the same as nodes come and go with their slices and the claims that have devices there; and how long the
  claims waited that came instead
- pods: changes of running pods taken in per second; and how long it takes until each of many pods that begin to wait
  at once is told why, and how long claims wait meanwhile

Times are not judged. The exit code is 1 if a count is wrong: a claim not decided, or decided wrongly, a device
allocated twice, an error in the operator.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from scaling.cluster import DEVICES
from scaling.process import Operator, Server

SETTLE_SECONDS = 3.0
READY_SECONDS = 300.0


class Measurement:
    """One run: the figures are printed as they come; `wrong` collects what must not be."""

    def __init__(self, server: Server, operator: Operator) -> None:
        self.wrong: list[str] = []
        self._server = server
        self._operator = operator

    def start(self) -> None:
        """Wait until the operator is ready and the claims that wait are decided."""
        seconds = self._operator.wait_ready(READY_SECONDS)
        print(
            f"start: ready after {seconds:.1f} s ({self._operator.cpu():.1f} s of processor time);"
            f" resident {self._operator.resident():.0f} MiB, peak {self._operator.peak():.0f} MiB"
        )
        pending = self._done("pending")
        print(
            f"start: {pending['claims']} claims were waiting: {pending['allocated']} allocated,"
            f" all decided {pending['seconds']:.1f} s later"
        )
        self.equal("waiting claims allocated", pending["allocated"], pending["claims"])
        time.sleep(SETTLE_SECONDS)
        print(
            f"memory: resident {self._operator.resident():.0f} MiB once synced and settled,"
            f" peak {self._operator.peak():.0f} MiB"
        )

    def idle(self, count: int) -> None:
        """Measure single claims."""
        found = self._done("idle", count=count)
        self.equal("idle claims allocated", found["count"], count)
        print(f"idle: {count} claims: median {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms")

    def events(self, kind: str, events: int) -> None:
        """Measure a burst of changes of `kind`: claims or slices."""
        before = self._operator.cpu()
        found = self._done(kind, events=events)
        cpu = self._operator.cpu() - before
        print(
            f"events: {events} of {kind}: {events / found['seconds']:,.0f} a second,"
            f" {cpu / events * 1e6:.0f} us of processor time each"
        )

    def cycles(self, count: int, *, at_once: int, rate: float, report: int) -> None:
        """Let claims come and go."""
        points: list[tuple[int, float]] = []
        cpu = self._operator.cpu()
        last: Mapping[str, Any] = {"gone": 0}
        for last in self._answers("cycles", count=count, at_once=at_once, rate=rate, report=report):
            resident = self._operator.resident()
            points.append((last["gone"], resident))
            print(f"cycles: {last['gone']:>7} gone after {last['seconds']:5.0f} s: {resident:.1f} MiB")
        self.equal("claims gone", last["gone"], count)
        if not points:
            return
        used = self._operator.cpu() - cpu
        print(
            f"cycles: {last['gone']} claims, {last['allocated']} allocated and {last['hopeless']} told why not, in"
            f" {last['seconds']:.0f} s: {last['gone'] / last['seconds']:.0f} a second,"
            f" {used / count * 1000:.2f} ms of processor time each"
        )
        _print_growth("cycles", points)

    def replaced(self, count: int, *, hopeless: int, rate: float, report: int) -> None:
        """Let nodes come and go."""
        points: list[tuple[int, float]] = []
        cpu, waits = 0.0, {}
        for answer in self._answers("replace", count=count, hopeless=hopeless, rate=rate, report=report):
            if "p50" in answer:
                waits = answer
                continue
            cpu = cpu or self._operator.cpu()
            points.append((answer["gone"], self._operator.resident()))
            print(
                f"replaced: {answer['gone']:>7} gone after {answer['seconds']:5.0f} s: {points[-1][1]:.1f} MiB"
            )
        print(
            f"replaced: {count} nodes beside {hopeless} claims that wait:"
            f" {(self._operator.cpu() - cpu) / count * 1000:.2f} ms of processor time each;"
            f" {waits['count']} claims came instead: median {waits['p50']:.1f} ms, p99 {waits['p99']:.1f} ms"
        )
        _print_growth("replaced", points)

    def pods(self, events: int, rate: float) -> None:
        """Measure a burst of changes of running pods."""
        before = self._operator.cpu()
        found = self._done("pods", events=events, rate=rate)
        cpu = self._operator.cpu() - before
        print(
            f"pods: {events} changes: {events / found['seconds']:,.0f} a second (at most {rate:,.0f} were made),"
            f" {cpu / events * 1e6:.0f} us of processor time each; resident {self._operator.resident():.0f} MiB"
        )

    def waiting(self, count: int, jobs: int) -> None:
        """Measure pods that begin to wait at once."""
        found = self._done("waiting", count=count, jobs=jobs)
        print(
            f"waiting: {found['count']} pods of {jobs} Jobs told why they wait after {found['seconds']:.1f} s;"
            f" claims meanwhile: median {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms"
        )

    def finish(self) -> None:
        """Print what the operator counted itself."""
        metric = self._operator.metric
        passes = metric("dra_operator_pass_seconds_count")
        mean = metric("dra_operator_pass_seconds_sum") / max(passes, 1) * 1000
        decisions = metric("dra_operator_decision_seconds_count")
        decision = metric("dra_operator_decision_seconds_sum") / max(decisions, 1) * 1000
        print(
            f"passes: {passes:.0f}, {mean:.1f} ms in the mean; {decisions:.0f} decisions, {decision:.3f} ms each"
        )
        self.equal("errors of the operator", metric("dra_operator_errors_total"), 0)
        self.equal("devices held twice", metric("dra_operator_device_collisions"), 0)
        print(f"memory: peak {self._operator.peak():.0f} MiB in all")

    def equal(self, what: str, found: float, expected: float) -> None:
        """Note what is wrong if a figure is not what it has to be."""
        if found != expected:
            self.wrong.append(f"{what}: {found:g}, and not {expected:g}")

    def _done(self, job: str, **parameters: Any) -> Mapping[str, Any]:
        """Have a job of one answer done."""
        (answer,) = self._answers(job, **parameters)
        return answer

    def _answers(self, job: str, **parameters: Any) -> Iterator[Mapping[str, Any]]:
        """Have a job done and yield its answers as they come; note what was wrong."""
        for answer in self._server.do(job, **parameters):
            if answer.get("done"):
                self.wrong += answer["wrong"]
            else:
                yield answer


def _print_growth(what: str, points: Sequence[tuple[int, float]]) -> None:
    """Print how resident memory grew with how many are gone."""
    half = points[len(points) // 2 :]
    print(
        f"{what}: resident {points[0][1]:.0f} MiB after {points[0][0]}, {points[-1][1]:.0f} MiB at the end;"
        f" {slope(half) * 1024:+.3f} KiB each over the second half"
    )


def slope(points: Sequence[tuple[int, float]]) -> float:
    """Return how much the second number grows by the first, by least squares; 0 for fewer than two points."""
    if len(points) < 2:
        return 0.0
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def run(arguments: argparse.Namespace, directory: Path) -> list[str]:
    """Measure, and return what was wrong."""
    kubeconfig = directory / "kubeconfig"
    server = Server(
        kubeconfig,
        nodes=arguments.nodes,
        claims=arguments.claims,
        allocated=arguments.allocated,
        pods=arguments.pods,
    )
    options = ["--explain", "all"] if arguments.pods or arguments.waiting else []
    try:
        print(
            f"cluster: {arguments.nodes} nodes, {arguments.nodes * DEVICES} devices, {arguments.claims} claims"
        )
        operator = Operator(kubeconfig, arguments.log or directory / "operator.log", *options)
        try:
            measurement = Measurement(server, operator)
            measurement.start()
            measurement.idle(arguments.idle)
            for kind in ("claims", "slices"):
                measurement.events(kind, arguments.events)
            if arguments.pods:
                measurement.pods(arguments.events, arguments.pod_rate)
            if arguments.waiting:
                measurement.waiting(arguments.waiting, arguments.jobs)
            if arguments.cycles:
                report = max(1, arguments.cycles // 20)
                measurement.cycles(
                    arguments.cycles, at_once=arguments.at_once, rate=arguments.rate, report=report
                )
            if arguments.replaced:
                measurement.replaced(
                    arguments.replaced,
                    hopeless=arguments.hopeless,
                    rate=arguments.rate,
                    report=max(1, arguments.replaced // 20),
                )
            measurement.finish()
        finally:
            code = operator.stop()
    finally:
        server.stop()
    return measurement.wrong + ([f"the operator ended with exit code {code}"] if code else [])


def main(texts: Sequence[str] | None = None) -> int:
    """Run the measurement; return 1 if a count was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--claims", type=int, default=10_000)
    parser.add_argument("--allocated", type=int, default=9_000, help="claims that hold a device at the start")
    parser.add_argument("--idle", type=int, default=50, help="claims created one after the other")
    parser.add_argument("--events", type=int, default=20_000, help="changes in each burst")
    parser.add_argument("--cycles", type=int, default=0, help="claims that come and go")
    parser.add_argument(
        "--at-once", type=int, default=100, help="claims of the cycles that exist at the same time"
    )
    parser.add_argument(
        "--rate", type=float, default=300.0, help="most claims created, or nodes replaced, per second"
    )
    parser.add_argument("--replaced", type=int, default=0, help="nodes that are replaced")
    parser.add_argument(
        "--hopeless", type=int, default=100, help="claims that wait for what no node has meanwhile"
    )
    parser.add_argument("--pods", type=int, default=0, help="running pods; explains pods")
    parser.add_argument("--pod-rate", type=float, default=4000.0, help="most changes of pods per second")
    parser.add_argument(
        "--waiting", type=int, default=0, help="pods that begin to wait at once; explains pods"
    )
    parser.add_argument("--jobs", type=int, default=20, help="of so many Jobs")
    parser.add_argument("--log", type=Path, help="keep the operator's log in this file")
    arguments = parser.parse_args(texts)
    with tempfile.TemporaryDirectory() as temporary:
        wrong = run(arguments, Path(temporary))
    for line in wrong[:20]:
        print(f"wrong: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
