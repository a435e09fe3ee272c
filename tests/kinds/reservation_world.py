"""A cluster with reservations for tests: random steps of everybody, and what must never be.

The objects are those of `gatefuzz`, with its operator; kube-scheduler, the claim controller and the garbage collector
are modelled by their rules. What the operator is told lags, its writes take their patches one by one, and it is killed
between any two of them.
"""

import asyncio
import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import FINALIZER, RESERVATION_RESOURCE
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import ApiError
from dra_operator.kinds.reservation_controller import ReservationController
from dra_operator.kinds.world import Inquiry, World
from factories import manifest, request
from gatefuzz.interleaving import Interleaving
from gatefuzz.operator import START, Operator, PendingWrite
from gatefuzz.server import BrokenError, ConflictError, Server, devices_of, is_over, node_of
from pod_world import DRIVER, NAMESPACE, claim, named, node, resource_slice
from pod_world import allocation as allocate
from pod_world import pod as bare_pod

DEVICES = 4
NAMES = ("a", "b")
CLAIM = "ResourceClaim"
Body = dict[str, Any]


class KilledError(Exception):
    """The operator is killed at a write."""


class Cluster(Server):
    """Objects, of which a claim must lose neither devices nor reservations of pods that have not ended."""

    def _check_use(self, before: Body | None, claim: Body) -> None:
        if devices_of(claim) and FINALIZER not in claim["metadata"].get("finalizers", ()):
            raise BrokenError(f"claim {claim['metadata']['name']} has devices and no finalizer")
        running = {each["metadata"]["uid"] for each in self.of_kind("Pod") if not is_over(each)}
        users = set() if before is None else running & {each["uid"] for each in entries_of(before)}
        if users - {each["uid"] for each in entries_of(claim)} or (users and not devices_of(claim)):
            raise BrokenError(f"claim {claim['metadata']['name']} was taken from {users}")


class Session:
    """The API server for a controller of reservations; it is killed at a write if `writes_left` come to an end."""

    def __init__(self, server: Cluster, reservations: dict[str, Body], templates: dict[str, Body]) -> None:
        self.server, self.reservations, self.templates = server, reservations, templates
        self.writes_left: int | None = None

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Body:
        """Answer as the API server."""
        if method != "GET":
            if self.writes_left == 0:
                raise KilledError
            self.writes_left = None if self.writes_left is None else self.writes_left - 1
        parts = path.split("/")
        plural, name = parts[6], parts[7] if len(parts) > 7 else ""
        found = self._answer(method, plural, name, body)
        if found is None:
            raise ApiError(404, "NotFound", path)
        return copy.deepcopy(found)

    def _answer(self, method: str, plural: str, name: str, body: Any) -> Body | None:
        key = (CLAIM, NAMESPACE, name)
        match method, plural:
            case "GET", "devicereservations":
                return self.reservations.get(name)
            case "GET", "resourceclaimtemplates":
                return self.templates.get(name)
            case "GET", _:
                return {"items": self.server.of_kind(CLAIM)}
            case "POST", _:
                if (CLAIM, NAMESPACE, body["metadata"]["name"]) in self.server.objects:
                    raise ApiError(409, "AlreadyExists", "")
                return self.server.put({"status": {}, **body})
            case "DELETE", _:
                found = self.server.objects.get(key)
                wanted = body["preconditions"]
                if found is not None and any(found["metadata"][each] != wanted[each] for each in wanted):
                    raise ApiError(409, "Conflict", "")
                if found is not None:
                    self.server.delete(key)
                return found
        metadata = body["metadata"]
        try:
            return self.server.patch(key, metadata["uid"], metadata["resourceVersion"], body)
        except ConflictError as error:
            raise ApiError(409 if error.body else 404, "Conflict", "") from None


def entries_of(body: Body) -> list[Body]:
    """Return whom a claim is reserved for."""
    return list((body.get("status") or {}).get("reservedFor") or ())


def is_entry(entry: Body) -> bool:
    """Return whether an entry is one of a reservation."""
    return bool(entry["resource"] == RESERVATION_RESOURCE)


class History(Interleaving):
    """A random history, made again by its seed."""

    def __init__(self, seed: object) -> None:
        super().__init__(seed, Cluster())
        self.reservations: dict[str, Body] = {}
        self.templates: dict[str, Body] = {}
        self.session = Session(self.server, self.reservations, self.templates)
        self.late: list[PendingWrite] = []
        self.known: list[Body] = []
        """What Kopf had of reservations."""
        self.events: list[str] = []
        self._count = 0
        self.make_template()
        self.operator = Operator(self.server, self.clock, 0)
        self.controller = self._build_controller()

    def _build_controller(self) -> ReservationController:
        """Return one that asks the operator of now, which runs a cycle for that."""
        operator = self.operator

        def put(inquiry: Inquiry) -> None:
            operator.observe(inquiry)
            operator.run()

        async def may_write() -> None:
            """Permit it: the Lease is held."""

        served = Served(KINDS[CLAIM], "v1")
        world = World(self.session, put, may_write, lambda _: served, self.record, operator.metrics)  # type: ignore[arg-type]
        return ReservationController(world, now=lambda: START + timedelta(seconds=self.clock()))

    def record(self, _subject: object, _kind: str, reason: str, _message: str) -> None:
        """Take in an Event."""
        self.events.append(reason)

    def choose(self) -> tuple[Callable[[], None], ...]:
        """Return the steps, each as often as it is to be taken."""
        steps = {
            self.reconcile: 10, self.run_cycle: 6, self.send: 10, self.tell: 8, self.kill: 1, self.send_late: 1,
            self.create_reservation: 2, self.edit_reservation: 2, self.delete_reservation: 1,
            self.make_template: 1, self.create_pod: 3, self.schedule: 5, self.refuse: 1, self.finish: 3,
            self.clear: 4, self.delete_claim: 1, self.create_other: 1, self.change_device: 2, self.wait: 2,
        }  # fmt: skip
        return tuple(step for step, often in steps.items() for _ in range(often))

    def step(self) -> None:
        """Do something."""
        chosen = self.random.choice(self.choose())
        self.trace.append(chosen.__name__)
        chosen()

    # --- the operator

    def reconcile(self) -> None:
        """Reconcile a reservation as Kopf has it, which may be killed at a write."""
        if not self.reservations:
            return
        body = self.reservations[self.random.choice(sorted(self.reservations))]
        self.known = [*self.known[-5:], copy.deepcopy(body)]
        if self.random.random() < 0.2:
            # A timer that began a while ago.
            asyncio.run(self.controller.reconcile(self.random.choice(self.known)))
        if self.random.random() < 0.2:
            self.session.writes_left = self.random.randint(0, 3)
        try:
            self.reconcile_one(body)
        except KilledError:
            self.kill()
        self.session.writes_left = None

    def reconcile_one(self, body: Body) -> None:
        """Reconcile a reservation, write its status, and let it go when that is due."""
        # Before its handlers run.
        body["metadata"]["finalizers"] = ["dra-operator.io/kopf"]
        found = asyncio.run(self.controller.reconcile(copy.deepcopy(body)))
        body["status"] = found.status
        if found.is_released and body["metadata"].get("deletionTimestamp"):
            del self.reservations[body["metadata"]["name"]]

    def kill(self) -> None:
        """Kill the operator: of each write a patch may be stored later. Another one begins."""
        self.late += [each for each in self.operator.pending if self.random.random() < 0.7]
        self.operator = Operator(self.server, self.clock, self.operator.number + 1)
        self.controller = self._build_controller()

    def send_late(self) -> None:
        """Let a patch of a killed operator reach the API server, which is its last."""
        if self.late:
            self.late.pop(self.random.randrange(len(self.late))).step(self.server)

    # --- people

    def create_reservation(self) -> None:
        """Create a reservation, with an end or without."""
        free = [name for name in NAMES if name not in self.reservations]
        if not free:
            return
        self._count += 1
        created = START + timedelta(seconds=self.clock())
        metadata = {"name": free[0], "namespace": NAMESPACE, "uid": f"dr-{self._count}", "generation": 1}
        spec = {"resourceClaimTemplateName": "gpu", "copies": self.random.randint(1, 3)}
        spec["ifLost"] = self.random.choice(("Wait", "Replace"))
        if self.random.random() < 0.4:
            spec["ttlSeconds"] = self.random.choice((1, 60, 600))
        self.reservations[free[0]] = {
            "metadata": {**metadata, "creationTimestamp": created.isoformat()}, "spec": spec,
        }  # fmt: skip

    def edit_reservation(self) -> None:
        """Change copies, end, or what becomes of lost devices."""
        for body in self.reservations.values():
            spec = body["spec"]
            spec["copies"] = self.random.randint(1, 3)
            spec["ifLost"] = self.random.choice(("Wait", "Replace"))
            spec.pop("ttlSeconds", None)
            spec.pop("until", None)
            if self.random.random() < 0.3:
                spec["until"] = (START + timedelta(seconds=self.clock() + 30)).isoformat()

    def delete_reservation(self) -> None:
        """Delete a reservation, perhaps one of which nobody has taken notice; with `--cascade=orphan` at times."""
        if not self.reservations:
            return
        body = self.reservations[self.random.choice(sorted(self.reservations))]
        metadata = body["metadata"]
        if not metadata.get("finalizers"):
            del self.reservations[metadata["name"]]
            return
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if self.random.random() < 0.2:
            for found in self.server.of_kind(CLAIM):
                owners = found["metadata"].get("ownerReferences") or ()
                if any(each["uid"] == metadata["uid"] for each in owners) and entries_of(found):
                    self.server.put({**found, "metadata": {**found["metadata"], "ownerReferences": []}})

    def make_template(self) -> None:
        """Make the template anew under its name, or take it away."""
        if self.templates.pop("gpu", None) is None or self.random.random() < 0.7:
            self._count += 1
            spec = {
                "spec": {
                    "devices": {"requests": [request("gpu", DRIVER, allocationMode="ExactCount", count=1)]}
                }
            }
            self.templates["gpu"] = manifest("ResourceClaimTemplate", "gpu", spec, uid=f"t-{self._count}")

    def delete_claim(self) -> None:
        """Delete a claim by hand."""
        if found := self.server.of_kind(CLAIM):
            self.server.delete((CLAIM, NAMESPACE, self.random.choice(found)["metadata"]["name"]))

    def create_other(self) -> None:
        """Create a claim that has the name of a copy."""
        name = f"{self.random.choice(NAMES)}-{self.random.randint(0, 2)}"
        if (CLAIM, NAMESPACE, name) not in self.server.objects:
            self._count += 1
            self.server.put(claim(name, uid=f"other-{self._count}"))

    def change_device(self) -> None:
        """Lose a node or get it back, or have devices tainted so that pods must not use them, or no more."""
        if self.random.random() < 0.5:
            taint = {"key": "broken", "effect": "NoExecute"}
            taints = self.random.choice(([], [taint]))
            self.server.put(resource_slice(self.random.choice(("n1", "n2")), "gpu-0", "gpu-1", taints=taints))
        elif ("Node", "", "n1") in self.server.objects:
            self.lose("n1")
        else:
            self.server.put(node("n1"))

    def lose(self, name: str) -> None:
        """Delete a node; its pods go with it."""
        self.server.delete(("Node", "", name))
        for pod in self.server.of_kind("Pod"):
            if pod["spec"].get("nodeName") == name:
                self.server.delete(("Pod", NAMESPACE, pod["metadata"]["name"]))

    def wait(self) -> None:
        """Let time pass."""
        self.clock.now += self.random.choice((0.1, 2.0, 40.0, 300.0))

    # --- Kubernetes

    def create_pod(self) -> None:
        """Create a pod that names a copy."""
        if len(self.server.of_kind("Pod")) < 4:
            self._count += 1
            name = f"{self.random.choice(NAMES)}-{self.random.randint(0, 2)}"
            body = bare_pod(f"p{self._count}", named("gpu", name))
            self.server.put(body)

    def schedule(self) -> None:
        """Bind a pod whose claim is allocated; allocate it if nobody did, as kube-scheduler."""
        pods = [
            each for each in self.server.of_kind("Pod") if not (is_over(each) or each["spec"].get("nodeName"))
        ]
        if not pods:
            return
        pod = self.random.choice(pods)
        (found,) = self.server.claims_of(pod)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        status = found["status"]
        if not devices_of(found):
            # The operator is told at once: devices of its own nobody else chooses.
            held = {each for body in self.server.of_kind(CLAIM) for each in devices_of(body)}
            if "n2/gpu-1" in held or self.operator.pending or self.late or self.random.random() < 0.5:
                return
            finalizers = {*found["metadata"].get("finalizers", ()), FINALIZER}
            found["metadata"]["finalizers"] = sorted(finalizers)
            status = {"allocation": allocate("n2", "gpu-1")}
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        found = self.server.put({**found, "status": {**status, "reservedFor": [*entries_of(found), user]}})
        self.operator.tell(len(self.server.events))
        if ("Node", "", node_of(found)) in self.server.objects:
            self.server.put({**pod, "spec": {**pod["spec"], "nodeName": node_of(found)}})

    def refuse(self) -> None:
        """Take back an allocation that nobody has reserved, as kube-scheduler does for a pod without a node."""
        for pod in self.server.of_kind("Pod"):
            for found in self.server.claims_of(pod):
                if found is not None and devices_of(found) and not entries_of(found):
                    self.server.put({**found, "status": {}})

    def finish(self) -> None:
        """End a pod."""
        if pods := self.server.of_kind("Pod"):
            self.server.delete(("Pod", NAMESPACE, self.random.choice(pods)["metadata"]["name"]))

    def clear(self) -> None:
        """Prune and clear claims as the claim controller, and delete those whose owner is gone."""
        pods = {each["metadata"]["uid"] for each in self.server.of_kind("Pod") if not is_over(each)}
        owners = {each["metadata"]["uid"] for each in self.reservations.values()}
        for found in self.server.of_kind(CLAIM):
            metadata, status, entries = found["metadata"], dict(found.get("status") or {}), entries_of(found)
            left = [each for each in entries if is_entry(each) or each["uid"] in pods]
            kept = list(metadata.get("finalizers") or ())
            if len(left) < len(entries) or (metadata.get("deletionTimestamp") and not left and kept):
                status["reservedFor"] = left
                if not left:
                    status.pop("allocation", None)
                    kept = [each for each in kept if each != FINALIZER]
                self.server.put({**found, "metadata": {**metadata, "finalizers": kept}, "status": status})
            of = [each["uid"] for each in metadata.get("ownerReferences") or ()]
            if of and not owners & {*of} and not metadata.get("deletionTimestamp"):
                self.server.delete((CLAIM, NAMESPACE, metadata["name"]))

    # --- the end

    def settle(self) -> None:
        """Let everything come to rest: pods end, what was lost is back, and claims of others are gone."""
        for pod in self.server.of_kind("Pod"):
            self.server.delete(("Pod", NAMESPACE, pod["metadata"]["name"]))
        if ("Node", "", "n1") not in self.server.objects:
            self.server.put(node("n1"))
        if not self.templates:
            self.make_template()
        for found in self.server.of_kind(CLAIM):
            if found["metadata"]["uid"].startswith("other"):
                self.server.delete((CLAIM, NAMESPACE, found["metadata"]["name"]))
        for name in ("n1", "n2"):
            self.server.put(resource_slice(name, "gpu-0", "gpu-1"))
        self.late = []
        for _ in range(8):
            self.clock.now += 121.0
            for body in [*self.reservations.values()]:
                self.reconcile_one(body)
            self.clear()
            self.rest()

    def check_end(self) -> None:
        """Check that what is asked for is held, as far as there are devices, and nothing else."""
        held = 0
        for body in self.reservations.values():
            uid, copies = body["metadata"]["uid"], body["spec"]["copies"]
            own = [
                each
                for each in self.server.of_kind(CLAIM)
                if any(of["uid"] == uid for of in entries_of(each))
            ]
            is_over = body["status"]["phase"] == "Expired"
            if len(own) > (0 if is_over else copies):
                raise BrokenError(f"{body['metadata']['name']} holds {len(own)} of {copies}")
            if body["metadata"].get("deletionTimestamp"):
                raise BrokenError(f"{body['metadata']['name']} is deleted and still there")
            if body["status"]["ready"] != f"{len(own)}/{copies}":
                raise BrokenError(f"{body['metadata']['name']} says {body['status']['ready']} of {len(own)}")
            held += len(own)
        living = [each for each in self.reservations.values() if each["status"]["phase"] != "Expired"]
        wanted = sum(each["spec"]["copies"] for each in living)
        if held != min(wanted, DEVICES):
            raise BrokenError(f"{held} copies are held of {wanted}")
        for found in self.server.of_kind(CLAIM):
            self._check_claim(found, {each["metadata"]["uid"] for each in living})
        if defects := self.operator.metrics_of_errors():
            raise BrokenError(f"defects: {defects}")

    def _check_claim(self, found: Body, living: set[str]) -> None:
        name, uids = found["metadata"]["name"], {each["uid"] for each in entries_of(found)}
        if not uids <= living:
            raise BrokenError(f"claim {name} has an entry that was left behind")
        if found["metadata"].get("deletionTimestamp"):
            raise BrokenError(f"claim {name} is still being deleted")
        if devices_of(found) and not uids:
            raise BrokenError(f"claim {name} holds devices for nobody")


def run_history(seed: object, count: int = 70) -> History:
    """Run a history of so many steps. Raises BrokenError with the steps that led there."""
    history = History(seed)
    history.run(f"history {seed}", count)
    return history
