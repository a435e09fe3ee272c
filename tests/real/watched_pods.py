"""Pods and claims that come and go on the real control plane, and what a watcher, or a record, saw of them."""

import threading
import time
from collections import defaultdict
from random import Random

from dra_operator.api.text import seconds_of
from dra_operator.history.schema import MICRO

RESOURCE = "/apis/resource.k8s.io/v1"
MOST_PODS = 8


def facts_of(body):
    """Yield what is true of a pod or a claim that takes time."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if body["kind"] == "ResourceClaim":
        yield from ("held",) if status.get("allocation") else ()
        return
    yield "placed" if spec.get("nodeName") else "waits"
    yield from ("runs",) if status.get("phase") == "Running" and spec.get("nodeName") else ()


class Watched:
    """What watches of pods and claims told: `spans` are [since, until] in seconds by fact and uid, None while it lasts.

    A pod waits from its creation, which is told in whole seconds.
    """

    def __init__(self, client, namespace, seconds):
        self.spans = defaultdict(list)
        for kind, place, plural in (
            ("Pod", "/api/v1", "pods"),
            ("ResourceClaim", RESOURCE, "resourceclaims"),
        ):
            path = f"{place}/namespaces/{namespace}/{plural}"
            threading.Thread(target=self._follow, args=(client, kind, path, seconds), daemon=True).start()

    def _follow(self, client, kind, path, seconds):
        for type_, body in client.watch(path, seconds=seconds):
            now, uid = time.time(), body["metadata"]["uid"]
            created = seconds_of(body["metadata"]["creationTimestamp"])
            true = {*facts_of({**body, "kind": kind})} if type_ != "DELETED" else set()
            for fact in {"held"} if kind == "ResourceClaim" else {"waits", "placed", "runs"}:
                spans = self.spans[fact, uid]
                lasts = bool(spans) and spans[-1][1] is None
                if fact in true and not lasts:
                    spans.append([created if fact == "waits" else now, None])
                elif fact not in true and lasts:
                    spans[-1][1] = now


def recorded_spans(reader, namespace):
    """Return the same out of a record; of waits, what it has of them."""
    found = defaultdict(list)

    def add(fact, row):
        spans, until = found[fact, row.uid], None if row.is_open else row.until / MICRO
        if spans and spans[-1][1] == row.since / MICRO:
            spans[-1][1] = until
        else:
            spans.append([row.since / MICRO, until])

    for row in reader.read_states(reader.span, "Pod", "ResourceClaim"):
        for fact in facts_of(row.body) if row.namespace == namespace else ():
            if fact != "waits":
                add(fact, row)
    for row in reader.read_waits(reader.span):
        if row.namespace == namespace and row.kind == "Pod":
            add("waits", row)
    return found


def farthest(recorded, watched):
    """Return by how many seconds spans are off at most, for each fact; they must be the same spans."""
    found = defaultdict(float)
    spans = {key: each for key, each in watched.items() if each}
    assert recorded.keys() == spans.keys()
    for (fact, uid), each in spans.items():
        mine = recorded[fact, uid]
        assert [until is None for _, until in mine] == [until is None for _, until in each], (fact, uid)
        for one, other in zip(mine, each, strict=True):
            off = [abs(mine - its) for mine, its in zip(one, other, strict=True) if mine is not None]
            found[fact] = max(found[fact], *off)
    return dict(found)


class Life(threading.Thread):
    """Lets pods with a claim each come, run, end and go, and cordons a node at times."""

    def __init__(self, client, namespace, seconds):
        super().__init__(daemon=True)
        self._client, self._until = client, time.monotonic() + seconds
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._claims = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        self._random, self._number = Random(1), 0  # noqa: S311 - a seed makes a run repeatable
        self.error = None

    def run(self):
        """Go on until time is up."""
        try:
            while time.monotonic() < self._until:
                self._step()
                time.sleep(self._random.random() * 0.6)
        except Exception as error:  # noqa: BLE001 - the test raises it
            self.error = error

    def _step(self):
        pods = self._client.get(self._pods)["items"]
        if self._random.random() < 0.05:
            is_cordoned = self._random.random() < 0.5
            self._client.patch("/api/v1/nodes/node-2", {"spec": {"unschedulable": is_cordoned}})
        if len(pods) < MOST_PODS and self._random.random() < 0.4:
            self._create()
        elif pods:
            self._advance(self._random.choice(pods))

    def _create(self):
        self._number += 1
        name = f"job-{self._number}"
        request = {"name": "gpu", "exactly": {"deviceClassName": "example-device-class"}}
        self._client.create(
            self._claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        )
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
        spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        self._client.create(
            self._pods, {"metadata": {"name": name, "labels": {"project": "a"}}, "spec": spec}
        )

    def _advance(self, pod):
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if not pod["spec"].get("nodeName"):
            is_over = self._random.random() < 0.1
        elif not (is_over := phase == "Succeeded"):
            following = "Running" if phase == "Pending" else "Succeeded"
            self._client.patch(f"{self._pods}/{name}/status", {"status": {"phase": following}})
        if is_over:
            self._client.request("DELETE", f"{self._pods}/{name}", query={"gracePeriodSeconds": "0"})
            self._client.delete(f"{self._claims}/{name}")
