"""Kills the operator again and again while AllocationPolicies come, change and go, and claims hold their devices.

    python bench/policy_crashes.py                 # 30 kills; about ten minutes
    python bench/policy_crashes.py --kills 5 --seed 7

Policies name whole drivers, pools and single devices, and overlap. Claims of the operator come and go; `kill -9` hits
it at random, also before it is ready, and it is started again at once.

The exit code is 1 if a rule goes while claims hold devices that it alone owned, if two claims ever hold one device, if
the policies that are left have not settled on exactly the rules that they name, or if a policy, a rule or a finalizer
is left when all are deleted.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from coexistence.stage import running_plane
from live.objects import Body

from controlplane import ControlPlane, OperatorProcess, start_operator
from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import POLICIES, RULES, install_fence, install_kinds

NODES, DEVICES, MOST_POLICIES, MOST_CLAIMS = 4, 4, 4, 12
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ENTRIES = (
    {"driver": DRIVER},
    *({"driver": DRIVER, "pool": f"node-{number:03}"} for number in range(NODES)),
    {"driver": DRIVER, "device": "dev-0"},
    {"driver": "other.example.com"},
)
END_SECONDS = 240
GUARD = "dra-operator.io/allocation-policy"


class Crashes:
    """A control plane with policies and claims, and an operator that is killed."""

    def __init__(self, plane: ControlPlane, arguments: argparse.Namespace) -> None:
        self.plane, self.client = plane, plane.client
        self.random = random.Random(arguments.seed)  # noqa: S311 - a load, no secret
        self._interval: float = arguments.interval
        self._numbers = iter(range(1_000_000))
        self._guarded: set[tuple[str, ...]] = set()
        self._operator: OperatorProcess | None = None
        self.faults: list[str] = []
        self.allocated: set[str] = set()
        self.policies = 0

    # --- the operator

    def start(self) -> None:
        """Start the operator."""
        log = self.plane.directory / f"operator-{next(self._numbers)}.log"
        self._operator = start_operator(self.plane, log, "--devices=owned", "--ownership-settle-seconds=1")

    def kill(self) -> None:
        """Kill it after some time of work, or before it is ready."""
        assert self._operator is not None
        if self.random.random() < 0.2:
            self.work(self.random.uniform(0.5, 4))
        else:
            self._operator.wait_ready(120)
            self.work(self.random.uniform(0, 2 * self._interval))
        self._operator.kill()

    def stop(self) -> None:
        """End it."""
        if self._operator is not None:
            self._operator.stop()

    # --- the load

    def work(self, seconds: float) -> None:
        """Change something and judge what there is, again and again."""
        deadline = time.monotonic() + seconds
        steps = [self._apply, self._delete_policy, self._create_claim, self._create_claim, self._end_claim]
        while time.monotonic() < deadline:
            self.random.choice(steps)()
            self.judge()

    def _apply(self) -> None:
        """Create a policy, or change one."""
        there = self._items(POLICIES)
        devices = self.random.sample(ENTRIES, self.random.randint(1, 3))
        if len(there) < MOST_POLICIES:
            self.policies += 1
            metadata = {"name": f"policy-{next(self._numbers)}"}
            body = {
                "apiVersion": "dra-operator.io/v1alpha1",
                "kind": "AllocationPolicy",
                "metadata": metadata,
            }
            self.client.create(POLICIES, {**body, "spec": {"devices": devices}})
        elif living := [each for each in there if "deletionTimestamp" not in each["metadata"]]:
            name = self.random.choice(living)["metadata"]["name"]
            self.client.patch(f"{POLICIES}/{name}", {"spec": {"devices": devices}})

    def _delete_policy(self) -> None:
        if self.random.random() < 0.3 and (there := self._items(POLICIES)):
            self.client.delete(f"{POLICIES}/{self.random.choice(there)['metadata']['name']}")

    def _create_claim(self) -> None:
        if len(self._items(CLAIMS)) < MOST_CLAIMS:
            request = {"name": "device", "exactly": {"deviceClassName": DRIVER}}
            metadata = {"name": f"claim-{next(self._numbers)}"}
            self.client.create(CLAIMS, {"metadata": metadata, "spec": {"devices": {"requests": [request]}}})

    def _end_claim(self) -> None:
        if self.random.random() < 0.7 and (there := self._items(CLAIMS)):
            self.client.delete(f"{CLAIMS}/{self.random.choice(there)['metadata']['name']}")

    # --- the judge

    def judge(self) -> None:
        """Look for devices with two holders, and for held ones that no rule owns any more."""
        # A claim that is there before the rules are read and after them held its devices in between.
        before, rules, after = held(self._items(CLAIMS)), self._items(RULES), held(self._items(CLAIMS))
        for device, claims in after.items():
            if len(claims) > 1:
                self.faults.append(f"{'/'.join(device)} has two holders: {', '.join(claims)}")
            self.allocated.update(claims)
        owned = {device for device in after if any(owns(rule, device) for rule in rules)}
        for device, claims in after.items():
            if device in self._guarded - owned and {*claims} & {*before.get(device, ())}:
                self.faults.append(f"{'/'.join(device)} is held by {', '.join(claims)}, and its rule is gone")
        guarding = [rule for rule in rules if GUARD in rule["metadata"].get("finalizers", ())]
        self._guarded = {device for device in owned if any(owns(rule, device) for rule in guarding)}

    def judge_policies(self) -> None:
        """Wait until what is left has settled, on exactly the rules that are named."""
        # By it the API server can be asked whether it knows the rules.
        request = {"name": "device", "exactly": {"deviceClassName": "absent.example.com"}}
        self.client.create(
            CLAIMS, {"metadata": {"name": "waits"}, "spec": {"devices": {"requests": [request]}}}
        )
        self._await(lambda: {*self._misfits()}, "policies that have not settled, or rules that are not named")

    def _misfits(self) -> Iterator[str]:
        living = [each for each in self._items(POLICIES) if "deletionTimestamp" not in each["metadata"]]
        for policy in living:
            conditions = {
                each["type"]: each["status"] for each in policy.get("status", {}).get("conditions", ())
            }
            if conditions.get("Settled") != "True" or conditions.get("Fenced") != "True":
                yield f"{policy['metadata']['name']}: {conditions}"
        wanted = {str(sorted(entry.items())) for policy in living for entry in policy["spec"]["devices"]}
        found = {
            str(sorted(rule["spec"]["deviceSelector"].items()))
            for rule in self._items(RULES)
            if "deletionTimestamp" not in rule["metadata"]
        }
        yield from wanted ^ found

    def judge_end(self) -> None:
        """Delete everything, and wait until nothing is left."""
        for claim in self._items(CLAIMS):
            self.client.delete(f"{CLAIMS}/{claim['metadata']['name']}")
        for policy in self._items(POLICIES):
            self.client.delete(f"{POLICIES}/{policy['metadata']['name']}")
        for collection in (POLICIES, RULES, CLAIMS):
            self._await(lambda path=collection: self._items(path), f"left in {collection}")

    def _await(self, find: Callable[[], Iterable[object]], what: str) -> None:
        """Wait until nothing is found; what is left after the time is a fault."""
        deadline = time.monotonic() + END_SECONDS
        while left := find():
            if time.monotonic() > deadline:
                self.faults.append(f"{what}: {left}")
                return
            time.sleep(1)

    def _items(self, path: str) -> list[Body]:
        items: list[Body] = self.client.get(path)["items"]
        return items


def held(claims: Iterable[Body]) -> dict[tuple[str, str, str], list[str]]:
    """Return the claims that hold each device."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for claim in claims:
        allocation = claim.get("status", {}).get("allocation") or {}
        for each in allocation.get("devices", {}).get("results", ()):
            key = each["driver"], each["pool"], each["device"]
            found.setdefault(key, []).append(claim["metadata"]["name"])
    return found


def owns(rule: Body, device: tuple[str, str, str]) -> bool:
    """Tell whether a rule owns a device."""
    selector = rule["spec"]["deviceSelector"]
    named = zip(("driver", "pool", "device"), device, strict=True)
    return all(selector.get(field, value) == value for field, value in named)


def main(given: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument(
        "--interval", type=float, default=6, help="how long the operator works, on average, in seconds"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    started = time.monotonic()
    with running_plane() as plane:
        install_kinds(plane)
        install_fence(plane)
        create_fleet(plane.client, nodes=NODES, devices=DEVICES)
        crashes = Crashes(plane, arguments)
        crashes.start()
        try:
            for number in range(1, arguments.kills + 1):
                crashes.kill()
                crashes.start()
                print(
                    f"kill {number}: {crashes.policies} policies, {len(crashes.allocated)} claims allocated",
                    flush=True,
                )
            crashes.judge_policies()
            crashes.judge_end()
        finally:
            crashes.stop()
    for fault in crashes.faults[:5]:
        print(f"  {fault}")
    print(
        f"{arguments.kills} kills in {time.monotonic() - started:.0f} s: {crashes.policies} policies created,"
        f" {len(crashes.allocated)} claims allocated; {len(crashes.faults)} faults"
    )
    return 1 if crashes.faults else 0


if __name__ == "__main__":
    sys.exit(main())
