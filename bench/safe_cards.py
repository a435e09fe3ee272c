"""Takes devices out of service while hundreds of pods wait in kube-scheduler, and looks whether safe ones stay free.

    python bench/safe_cards.py                    # 20 rounds of 300 pods; an hour
    python bench/safe_cards.py --rounds 2 --quiet 10

kube-scheduler runs at its default rate, so that it stores for a while what it decided before the taints. Once the
devices are safe, as many pods come again. The exit code is 1 if an allocation of a device is there while it is `Safe`,
or if one does not get safe.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from coexistence.stage import running_plane
from kind_crashes import CLAIMS, GROUP, MAINTENANCES, PODS, REQUESTS, TEMPLATES, held

from controlplane import ControlPlane, start_operator
from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import install_component, install_kinds

NODES, DEVICES, CARDS, SECONDS = 50, 8, 16, 600


class Rounds:
    """Rounds of one cluster, and what was found."""

    def __init__(self, plane: ControlPlane, arguments: argparse.Namespace) -> None:
        self.client = plane.client
        self.random = random.Random(arguments.seed)  # noqa: S311 - a load, no secret
        self._pods: int = arguments.pods
        self.faults: list[str] = []

    def set_up(self) -> None:
        """Make devices, room on their nodes, and the template of claims."""
        create_fleet(self.client, nodes=NODES, devices=DEVICES)
        room = {"pods": "110", "cpu": "64", "memory": "64Gi"}
        for number in range(NODES):
            status = {"status": {"allocatable": room, "capacity": room}}
            self.client.patch(f"/api/v1/nodes/node-{number:03}/status", status)
        self.client.create(TEMPLATES, {"metadata": {"name": "one"}, "spec": {"spec": REQUESTS}})

    def run(self, number: int) -> str:
        """Run one, and return what is to be said of it."""
        started = time.monotonic()
        self._create_pods(f"before-{number}")
        name = f"{MAINTENANCES}/round-{number}"
        places = [(node, device) for node in range(NODES) for device in range(DEVICES)]
        devices = [
            {"driver": DRIVER, "pool": f"node-{node:03}", "device": f"dev-{device}"}
            for node, device in self.random.sample(places, CARDS)
        ]
        spec = {"devices": devices, "maxUnavailable": CARDS, "drain": "Evict", "evictAfterSeconds": 0}
        body = {"apiVersion": GROUP, "kind": "DeviceMaintenance", "metadata": {"name": f"round-{number}"}}
        self.client.create(MAINTENANCES, {**body, "spec": spec})
        while (count := self._judge(name)) < CARDS and time.monotonic() < started + SECONDS:
            time.sleep(0.5)
        safe = time.monotonic() - started
        if count < CARDS:
            self.faults.append(f"round {number}: {count} of {CARDS} are safe")
        allocated = len(held(self.client.get(CLAIMS)["items"]))
        self._create_pods(f"after-{number}")
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self._judge(name)
        more = len(held(self.client.get(CLAIMS)["items"])) - allocated
        # All at once would be one long request.
        for pod in self.client.get(PODS)["items"]:
            self.client.delete(f"{PODS}/{pod['metadata']['name']}")
        self.client.delete(name)
        self.client.wait_for(CLAIMS, lambda found: not found["items"], seconds=SECONDS, what="no claim")
        self.client.wait_for(name, lambda found: found is None, seconds=SECONDS, what="the end")
        return f"safe after {safe:.0f} s, {allocated} allocations then, {more} in the 30 s after"

    def _create_pods(self, prefix: str) -> None:
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "device"}]}}
        claim = {"name": "device", "resourceClaimTemplateName": "one"}
        spec = {"containers": [container], "resourceClaims": [claim], "terminationGracePeriodSeconds": 0}
        for number in range(self._pods):
            self.client.create(PODS, {"metadata": {"name": f"{prefix}-{number}"}, "spec": spec})

    def _judge(self, name: str) -> int:
        """Return how many cards are safe; one that was so before and after claims were read must not be held."""
        before, claims, after = self._safe(name), held(self.client.get(CLAIMS)["items"]), self._safe(name)
        for device, names in claims.items():
            card = "/".join(device)
            if card in after and before.get(card) == after[card]:
                self.faults.append(f"{card} is safe since {after[card]}, and held by {', '.join(names)}")
        return len(after)

    def _safe(self, name: str) -> dict[str, str]:
        cards = self.client.get(name).get("status", {}).get("cards", ())
        return {each["name"]: each["since"] for each in cards if each["phase"] == "Safe"}


def main(given: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument(
        "--quiet", type=float, default=120, help="after how long a free device is safe, in seconds"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    with running_plane() as plane:
        install_kinds(plane)
        for path in (MAINTENANCES,):
            plane.client.wait_for(path, lambda found: found is not None, seconds=30, what=path)
        install_component(plane, "device-maintenance")
        plane.start_scheduler()
        rounds = Rounds(plane, arguments)
        rounds.set_up()
        flags = ("--devices=owned", f"--maintenance-quiet-seconds={arguments.quiet}")
        operator = start_operator(plane, plane.directory / "operator.log", *flags)
        try:
            operator.wait_ready(120)
            for number in range(1, arguments.rounds + 1):
                print(f"round {number}: {rounds.run(number)}, {len(rounds.faults)} faults", flush=True)
        finally:
            operator.stop()
    for fault in rounds.faults[:5]:
        print(f"  {fault}")
    print(f"{arguments.rounds} rounds: {len(rounds.faults)} faults")
    return 1 if rounds.faults else 0


if __name__ == "__main__":
    sys.exit(main())
