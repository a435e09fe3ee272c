"""One case: a small cluster, random steps, and what is left when everything has come to rest."""

import itertools
from collections.abc import Callable
from typing import Any

from gatefuzz.interleaving import Interleaving
from gatefuzz.operator import Operator, PendingWrite
from gatefuzz.server import (
    FINALIZER,
    GANG,
    GANG_SIZE,
    GATE,
    BrokenError,
    Server,
    devices_of,
    gang_name,
    is_gated,
    is_over,
    is_refused,
    is_under_way,
    node_of,
    nominated_node,
)
from pod_world import claim, named
from pod_world import pod as bare_pod

NAMESPACE = "team"
_DOUBT = 121.0
"""Seconds after which nothing of a killed operator can be stored any more."""
_ROUNDS_WITH_LOSSES = 4
"""In so many rounds of the end pods lose their nodes, and the operator is killed."""


class Case(Interleaving):
    """The cluster and the operators of one case."""

    def __init__(self, seed: object, *, has_gangs: bool = False) -> None:
        super().__init__(seed, Server(), cpu="3")
        self.late: list[tuple[float, PendingWrite]] = []
        """Writes of killed operators, each with the time from which it cannot be stored any more."""
        self._count = 0
        self._made = 0
        self._has_gangs = has_gangs
        self.server.put(claim("shared"))
        for _ in range(self.random.randint(1, 3)):
            self.create_pod()
        self.operator = Operator(self.server, self.clock, 0)
        self.operators = 1

    # --- steps

    def step(self) -> None:
        """Do something."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (8, self.run_cycle),
            (12, self.send),
            (8, self.tell),
            (2, self.kill),
            (2, self.send_late),
            (2, self.create_pod),
            (3 * self._has_gangs, self.create_gang),
            (1 * self._has_gangs, self.complete_gang),
            (1, self.delete_pod),
            (3, self.schedule),
            (2, self.refuse),
            (1, self.finish),
            (2, self.reserve_for_finished),
            (1, self.cordon),
            (1, self.nominate),
            (1, self.wait),
        ]
        weights = [weight for weight, _ in steps]
        ((_, chosen),) = self.random.choices(steps, weights)
        self.trace.append(chosen.__name__)
        chosen()

    def kill(self) -> None:
        """Kill the operator: of each write one patch may be stored later. Another one begins."""
        for pending in self.operator.pending:
            if self.random.random() < 0.7:
                self.late.append((self.clock() + _DOUBT - 1, pending))
        self.operator = Operator(self.server, self.clock, self.operators)
        self.operators += 1

    def send_late(self) -> None:
        """Let a patch of a killed operator reach the API server, which is its last."""
        self.late = [(until, pending) for until, pending in self.late if self.clock() < until]
        if self.late:
            _, pending = self.late.pop(self.random.randrange(len(self.late)))
            pending.step(self.server)

    def create_pod(self) -> None:
        """Create a gated pod with one or two claims of its own, and perhaps the shared one."""
        if len(self.server.of_kind("Pod")) > 4:
            return
        self._count += 1
        name = f"p{self._count}"
        claims = [f"{name}-{number}" for number in range(self.random.randint(1, 2))]
        for each in claims:
            self.server.put(claim(each, owner=f"uid-{name}", uid=f"uid-{each}"))
        if self.random.random() < 0.3:
            claims.append("shared")
        body = bare_pod(name, *[named(each, each) for each in claims], cpu="1")
        body["metadata"]["uid"] = f"uid-{name}"
        body["spec"]["schedulingGates"] = [{"name": GATE}]
        self.server.put(body)

    def create_gang(self) -> None:
        """Create a gang of two or three gated pods; one may ask for no devices, the last may be missing."""
        if len(self.server.of_kind("Pod")) > 3:
            return
        size = self.random.randint(2, 3)
        for number in range(size - (self.random.random() < 0.3)):
            self._create_member(f"gang-{self._count}", size, number)
        self._count += 1

    def complete_gang(self) -> None:
        """Create a pod that a gang lacks, as its controller."""
        for pod in self.server.of_kind("Pod"):
            if (gang := gang_name(pod)) and len(self.server.gang_of(pod)) < int(
                pod["metadata"]["annotations"][GANG_SIZE]
            ):
                self._create_member(gang, int(pod["metadata"]["annotations"][GANG_SIZE]), 1)
                return

    def _create_member(self, gang: str, size: int, number: int) -> None:
        self._made += 1
        name = f"{gang}-m{self._made}"
        wanted = 0 if not number and self.random.random() < 0.3 else 1
        claims = [f"{name}-{each}" for each in range(wanted)]
        for each in claims:
            self.server.put(claim(each, owner=f"uid-{name}", uid=f"uid-{each}"))
        body = bare_pod(name, *[named(each, each) for each in claims], cpu="1")
        body["metadata"] |= {"uid": f"uid-{name}", "annotations": {GANG: gang, GANG_SIZE: str(size)}}
        body["spec"]["schedulingGates"] = [{"name": GATE}]
        self.server.put(body)

    def delete_pod(self) -> None:
        """Delete a pod, and what was made for it; kube-controller-manager clears what it had."""
        pods = self.server.of_kind("Pod")
        if pods:
            self._end(self.random.choice(pods))

    def _end(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        self.server.delete(("Pod", NAMESPACE, name))
        self.prune()
        for body in self.server.of_kind("ResourceClaim"):
            if body["metadata"]["name"].startswith(f"{name}-"):
                self.server.delete(("ResourceClaim", NAMESPACE, body["metadata"]["name"]))
        self.release()

    def prune(self) -> None:
        """Take back reservations of pods that are over, and the allocation with the last, as the claim controller."""
        pods = {pod["metadata"]["name"] for pod in self.server.of_kind("Pod") if not is_over(pod)}
        for body in self.server.of_kind("ResourceClaim"):
            status = body.get("status") or {}
            reserved = status.get("reservedFor") or []
            left = [each for each in reserved if each["name"] in pods]
            if len(left) == len(reserved):
                continue
            changed = {**status, "reservedFor": left}
            if not left:
                changed.pop("allocation", None)
            kept = [each for each in body["metadata"].get("finalizers", ()) if left or each != FINALIZER]
            metadata = {**body["metadata"], "finalizers": kept}
            self.server.put({**body, "metadata": metadata, "status": changed})

    def release(self) -> None:
        """Clear claims that are being deleted and that nobody uses, as the claim controller."""
        for body in self.server.of_kind("ResourceClaim"):
            if body["metadata"].get("deletionTimestamp") and not (body["status"] or {}).get("reservedFor"):
                metadata = {**body["metadata"], "finalizers": []}
                self.server.put({**body, "metadata": metadata, "status": {}})

    def schedule(self) -> None:
        """Bind a pod that was let go, with its claims reserved, as kube-scheduler."""
        pods = [
            pod
            for pod in self.server.of_kind("Pod")
            if not (is_gated(pod) or is_over(pod) or is_refused(pod) or pod["spec"].get("nodeName"))
        ]
        if not pods:
            return
        pod = self.random.choice(pods)
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        nodes = set()
        for found in self.server.claims_of(pod):
            if found is None or not devices_of(found):
                return
            nodes.add(node_of(found))
            reserved = found["status"].get("reservedFor") or []
            if consumer in reserved:
                continue
            reserved = [*reserved, consumer]
            self.server.put({**found, "status": {**found["status"], "reservedFor": reserved}})
        if not nodes:
            nodes.add(nominated_node(pod) or "n1")
        if len(nodes) != 1:
            raise BrokenError(
                f"pod {pod['metadata']['name']} cannot use its claims, which are on {sorted(nodes)}"
            )
        self.server.put({**pod, "spec": {**pod["spec"], "nodeName": nodes.pop()}})

    def refuse(self) -> None:
        """Find no node for a pod that was let go: its nomination goes, and what one claim has, as in PostFilter.

        A claim that is reserved for others stays.
        """
        pods = [
            pod
            for pod in self.server.of_kind("Pod")
            if not (is_gated(pod) or is_over(pod) or pod["spec"].get("nodeName"))
        ]
        if not pods:
            return
        pod = self.random.choice(pods)
        uid = pod["metadata"]["uid"]
        claims = [
            found
            for found in self.server.claims_of(pod)
            if found is not None
            and devices_of(found)
            and all(each["uid"] == uid for each in found["status"].get("reservedFor") or ())
        ]
        if not claims:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no node",
        }
        metadata = {**pod["metadata"], "managedFields": []}
        self.server.put({**pod, "metadata": metadata, "status": {"conditions": [condition]}})
        self.server.put({**self.random.choice(claims), "status": {}})

    def finish(self) -> None:
        """Let a pod that runs end. It stays listed until it is deleted."""
        pods = [pod for pod in self.server.of_kind("Pod") if pod["spec"].get("nodeName") and not is_over(pod)]
        if pods:
            pod = self.random.choice(pods)
            self.server.put({**pod, "status": {**pod["status"], "phase": "Succeeded"}})
            self.prune()

    def reserve_for_finished(self) -> None:
        """Reserve what is allocated for pods that have run, and take that back, as the claim controller."""
        for pod in self.server.of_kind("Pod"):
            if pod["status"].get("phase") != "Succeeded":
                continue
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            for found in self.server.claims_of(pod):
                if found is None or not devices_of(found):
                    continue
                reserved = found["status"].get("reservedFor") or ()
                if all(each["uid"] != uid for each in reserved):
                    consumer = {"resource": "pods", "name": name, "uid": uid}
                    status = {**found["status"], "reservedFor": [*reserved, consumer]}
                    self.server.put({**found, "status": status})
        self.prune()

    def cordon(self) -> None:
        """Cordon a node, or uncordon it."""
        body = self.random.choice(self.server.of_kind("Node"))
        spec = {} if body["spec"].get("unschedulable") else {"unschedulable": True}
        self.server.put({**body, "spec": spec})

    def nominate(self) -> None:
        """Nominate a gated pod to a node, as an autoscaler does."""
        pods = [pod for pod in self.server.of_kind("Pod") if is_gated(pod) and not is_over(pod)]
        node = self.random.choice(("n1", "n2"))
        if pods and nominated_node(pod := self.random.choice(pods)) != node:
            status = {**pod["status"], "nominatedNodeName": node}
            self.server.put({**pod, "metadata": {**pod["metadata"], "managedFields": []}, "status": status})

    def wait(self) -> None:
        """Let time pass."""
        self.clock.now += self.random.choice((0.1, 2.0, 40.0))

    # --- the end

    def settle(self) -> None:
        """Let everything come to rest: nothing is late any more, all nodes can be used, and all is told."""
        for body in self.server.of_kind("Node"):
            self.server.put({**body, "spec": {}})
        for number in range(16):
            self.rest()
            if number < _ROUNDS_WITH_LOSSES and self.random.random() < 0.5:
                # Most pods are let go here.
                self.refuse()
                if self.random.random() < 0.5:
                    self.kill()
            self.clock.now += 40.0
            self.late = []
            for _ in self.server.of_kind("Pod"):
                self.schedule()
        self.rest()

    def check_end(self) -> None:
        """Check that every pod that fits was let go, and that nothing is left behind."""
        held = {device: 1 for body in self.server.of_kind("ResourceClaim") for device in devices_of(body)}
        free = {name: 2 - sum(device.startswith(f"{name}/") for device in held) for name in ("n1", "n2")}
        for pod in self.server.of_kind("Pod"):
            if is_gated(pod):
                self._check_waiting(pod, free)
            elif is_refused(pod) and not is_over(pod):
                self._check_refused(pod)
            elif not is_over(pod) and not pod["spec"].get("nodeName"):
                raise BrokenError(
                    f"pod {pod['metadata']['name']} was let go, and kube-scheduler cannot place it"
                )
        for place, count in self.operator.metrics_of_errors():
            raise BrokenError(f"{count} defects: {place}")

    def _check_refused(self, pod: dict[str, Any]) -> None:
        """Check that a pod that lost its node has given back what is its own, and was told so after the last kill."""
        name = pod["metadata"]["name"]
        for body in self.server.claims_of(pod):
            if body is not None and body["metadata"]["name"] != "shared" and devices_of(body):
                raise BrokenError(f"pod {name} cannot be placed and holds devices")
        if (name, "HandedBack") not in self.operator.told:
            raise BrokenError(f"pod {name} lost its node, and nobody says so")

    def _check_waiting(self, pod: dict[str, Any], free: dict[str, int]) -> None:
        name = pod["metadata"]["name"]
        found = self.server.claims_of(pod)
        members = self.server.gang_of(pod)
        counted = [
            each for each in members if is_gated(each) or is_under_way(each, self.server.claims_of(each))
        ]
        own = [body for body in found if body is not None and body["metadata"]["name"] != "shared"]
        if nominated_node(pod) and pod["metadata"].get("managedFields"):
            raise BrokenError(f"pod {name} waits and is nominated by an operator")
        asked = sum(body is not None and not devices_of(body) for body in found)
        shared = next(
            (body for body in found if body is not None and body["metadata"]["name"] == "shared"), None
        )
        if shared is not None and not devices_of(shared) and any(map(is_refused, self._users_of_shared())):
            # It is decided with gated pods alone, and until then the pod keeps what its other claims have.
            return
        if any(devices_of(body) for body in own):
            raise BrokenError(f"pod {name} waits and holds devices")
        nodes = [node_of(shared)] if shared is not None and devices_of(shared) else ["n1", "n2"]
        used = {
            each: sum(
                each in (other["spec"].get("nodeName"), other["status"].get("nominatedNodeName"))
                for other in self.server.of_kind("Pod")
                if not is_over(other)
            )
            for each in nodes
        }
        if members and len(counted) < int(pod["metadata"]["annotations"][GANG_SIZE]):
            return
        if members and all(map(is_gated, counted)):
            wants = [len(self.server.claims_of(each)) for each in counted]
            if any(
                all(
                    sum(want for want, at in zip(wants, places, strict=True) if at == each) <= free[each]
                    and used[each] + places.count(each) <= 3
                    for each in nodes
                )
                for places in itertools.product(nodes, repeat=len(counted))
            ):
                raise BrokenError(f"the gang of pod {name} waits although it fits")
            return
        for each in nodes:
            if free[each] >= asked and used[each] < 3:
                raise BrokenError(f"pod {name} waits although it fits on {each}")

    def _users_of_shared(self) -> list[dict[str, Any]]:
        """Return the pods that name the shared claim and are not over."""
        return [
            pod
            for pod in self.server.of_kind("Pod")
            if not is_over(pod)
            and any(each["resourceClaimName"] == "shared" for each in pod["spec"]["resourceClaims"])
        ]


def run_case(seed: object, count: int = 80, *, has_gangs: bool = False) -> Case:
    """Run a case of so many steps, with gangs or not. Raises BrokenError with the steps that led there."""
    case = Case(seed, has_gangs=has_gangs)
    case.run(f"case {seed}", count)
    return case
