"""The load: standalone claims for the operator and pods for kube-scheduler, created and deleted at random times.

The pods have no kubelet: the workload ends them itself, one half by their phase, one half by deletion. One in twenty
asks for all devices of a node, has two claims (a standalone claim has two requests), loses its claim while it holds
devices, or tolerates every taint. Some pods use a claim that the operator has allocated.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from live.client import Cluster, RefusedError
from live.objects import API, Body, allocation_of

from coexistence.observer import Observer

NAMESPACE = "load"
CLAIMS = f"{API}/namespaces/{NAMESPACE}/resourceclaims"
TEMPLATES = f"{API}/namespaces/{NAMESPACE}/resourceclaimtemplates"
POD_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
AT_ONCE = "?gracePeriodSeconds=0"


class Trait(Enum):
    """What is special about one in twenty claims or pods."""

    NONE = "none"
    ALL = "all"
    TWO = "two"
    DELETED_WHILE_HELD = "deleted"
    TOLERATES = "tolerates"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much, for how long. Lifetimes and patience are in seconds.

    `at_once` claims and pods exist at most: a machine that is too slow for the plan takes longer instead.
    """

    claims: int
    pods: int
    seconds: float
    lifetime: float
    patience: float
    at_once: int
    seed: int


@dataclass(slots=True)
class Tally:
    """What has become of the load."""

    claims: int = 0
    claims_allocated: int = 0
    pods: int = 0
    pods_bound: int = 0
    deleted_while_held: int = 0
    traits: dict[str, int] = field(default_factory=dict)


def request(kind: str, trait: Trait, name: str = "devices") -> Body:
    """Return one request of a claim."""
    exactly: Body = {"deviceClassName": kind}
    if trait is Trait.ALL:
        exactly["allocationMode"] = "All"
    if trait is Trait.TOLERATES:
        exactly["tolerations"] = [{"operator": "Exists"}]
    if kind == "share":
        exactly["capacity"] = {"requests": {"units": "3"}}
    return {"name": name, "exactly": exactly}


def claim_spec(kind: str, trait: Trait) -> Body:
    """Return the spec of a standalone claim."""
    names = ("first", "second") if trait is Trait.TWO else ("devices",)
    return {"devices": {"requests": [request(kind, trait, name) for name in names]}}


def templates() -> list[Body]:
    """Return the templates of which the pods' claims are made."""
    return [
        {
            "metadata": {"name": _template(kind, trait)},
            "spec": {"spec": {"devices": {"requests": [request(kind, trait)]}}},
        }
        for kind in ("plain", "partition", "share")
        for trait in (Trait.NONE, Trait.ALL, Trait.TOLERATES)
    ]


def _template(kind: str, trait: Trait) -> str:
    return f"{kind}-{trait.value}"


def pod(name: str, entries: list[Body]) -> Body:
    """Return a pod that uses claims."""
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"claims": [{"name": one["name"]} for one in entries]},
                }
            ],
            "resourceClaims": entries,
        },
    }


def is_allocated(claim: Body | None) -> bool:
    """Tell whether a claim exists and has devices."""
    return claim is not None and allocation_of(claim) is not None


def is_bound(one: Body | None) -> bool:
    """Tell whether a pod exists and has a node."""
    return one is not None and bool(one["spec"].get("nodeName"))


class Workload:
    """One run of a plan."""

    def __init__(self, cluster: Cluster, observer: Observer, plan: Plan) -> None:
        self._cluster = cluster
        self._observer = observer
        self._plan = plan
        self._random = random.Random(plan.seed)  # noqa: S311 - a load, no secret
        self._ending = asyncio.Event()
        self.tally = Tally()

    async def run(self) -> None:
        """Create and delete for as long as the plan says; what then exists stays."""
        everything = [(self._live_claim, number) for number in range(self._plan.claims)]
        everything += [(self._live_pod, number) for number in range(self._plan.pods)]
        self._random.shuffle(everything)
        room = asyncio.Semaphore(self._plan.at_once)
        async with asyncio.TaskGroup() as tasks:
            async for live, number in self._paced(everything):
                await room.acquire()
                tasks.create_task(live(number)).add_done_callback(lambda _: room.release())
            self._ending.set()

    async def add_claims(self, count: int) -> None:
        """Create standalone claims that stay, of all kinds."""
        for number in range(count):
            trait = self._trait()
            spec = claim_spec(self._kind(trait), trait)
            body = {"metadata": {"name": f"last-{number:04}"}, "spec": spec}
            await self._cluster.create(CLAIMS, body)

    async def _paced(
        self, everything: list[tuple[Callable[[int], Awaitable[None]], int]]
    ) -> AsyncIterator[tuple[Callable[[int], Awaitable[None]], int]]:
        started = time.monotonic()
        for index, one in enumerate(everything):
            due = started + self._plan.seconds * index / len(everything)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            yield one

    async def _live_claim(self, number: int) -> None:
        trait, name = self._trait(), f"claim-{number:05}"
        body = {"metadata": {"name": name}, "spec": claim_spec(self._kind(trait), trait)}
        await self._cluster.create(CLAIMS, body)
        self.tally.claims += 1
        key = f"{NAMESPACE}/{name}"
        got = await self._observer.claims.wait_for(key, is_allocated, self._plan.patience)
        self.tally.claims_allocated += got
        if trait is Trait.DELETED_WHILE_HELD and got:
            await self._cluster.delete(f"{CLAIMS}/{name}")
            self.tally.deleted_while_held += 1
            return
        if await self._lives_on():
            await self._cluster.delete(f"{CLAIMS}/{name}")

    async def _live_pod(self, number: int) -> None:
        trait, name = self._trait(), f"pod-{number:05}"
        await self._cluster.create(POD_PATH, pod(name, self._entries(trait)))
        self.tally.pods += 1
        key = f"{NAMESPACE}/{name}"
        bound = await self._observer.pods.wait_for(key, is_bound, self._plan.patience)
        self.tally.pods_bound += bound
        if not await self._lives_on():
            return
        if bound and trait is Trait.DELETED_WHILE_HELD:
            await self._delete_claims_of(key)
            if not await self._lives_on():
                return
        if bound and self._random.random() < 0.5:
            await self._succeed(f"{POD_PATH}/{name}")
            await asyncio.sleep(1)
        await self._cluster.delete(f"{POD_PATH}/{name}{AT_ONCE}")

    async def _delete_claims_of(self, pod_key: str) -> None:
        """Delete the claims that a pod holds, under it."""
        body = self._observer.pods.by_name.get(pod_key) or {}
        for status in (body.get("status") or {}).get("resourceClaimStatuses") or ():
            if status.get("resourceClaimName"):
                await self._cluster.delete(f"{CLAIMS}/{status['resourceClaimName']}")
                self.tally.deleted_while_held += 1

    def _entries(self, trait: Trait) -> list[Body]:
        """Return the claims of a pod: made of a template, and for some one that the operator has allocated."""
        first = {
            "name": "first",
            "resourceClaimTemplateName": _template(self._kind(trait), _of_template(trait)),
        }
        if trait is not Trait.TWO:
            return [first]
        second = {"name": "second", "resourceClaimTemplateName": _template("plain", Trait.NONE)}
        shared = self._allocated_standalone()
        if shared is None or self._random.random() < 0.5:
            return [first, second]
        name, node = shared
        ours = {"name": "ours", "resourceClaimName": name}
        return [ours, second] if node.startswith("mixed") else [ours]

    def _allocated_standalone(self) -> tuple[str, str] | None:
        """Return name and pool of an allocated standalone claim, one of a mixed node if there is one."""
        found = [
            (claim["metadata"]["name"], allocation_of(claim)["devices"]["results"][0]["pool"])  # type: ignore[index]
            for claim in self._observer.claims.by_name.values()
            if is_allocated(claim)
            and claim["metadata"]["name"].startswith("claim-")
            and "deletionTimestamp" not in claim["metadata"]
        ]
        mixed = [one for one in found if one[1].startswith("mixed")]
        return self._random.choice(mixed or found) if found else None

    async def _lives_on(self) -> bool:
        """Wait for a lifetime; return False if the run ends before."""
        seconds = self._plan.lifetime * self._random.uniform(0.5, 1.5)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)
        return not self._ending.is_set()

    async def _succeed(self, path: str) -> None:
        with suppress(RefusedError):
            await self._cluster.send(
                "PATCH",
                f"{path}/status",
                {"status": {"phase": "Succeeded"}},
                "application/merge-patch+json",
            )

    def _trait(self) -> Trait:
        drawn = self._random.random()
        special = (Trait.ALL, Trait.TWO, Trait.DELETED_WHILE_HELD, Trait.TOLERATES)
        trait = special[int(drawn * 20)] if drawn < 0.2 else Trait.NONE
        self.tally.traits[trait.value] = self.tally.traits.get(trait.value, 0) + 1
        return trait

    def _kind(self, trait: Trait) -> str:
        """Return the kind of devices; all and two are asked of the plain ones, which nodes have enough of."""
        if trait in (Trait.ALL, Trait.TWO):
            return "plain"
        return self._random.choices(("plain", "partition", "share"), (80, 10, 10))[0]


def _of_template(trait: Trait) -> Trait:
    return trait if trait in (Trait.ALL, Trait.TOLERATES) else Trait.NONE
