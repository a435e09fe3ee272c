"""DeviceMaintenance on two real nodes: the pods of one card move, all others run on in the same containers."""

import pytest
import yaml

from controlplane import KubectlError
from controlplane.manifests import RULES, install_component, install_kinds
from controlplane.node.images import GUEST
from controlplane.node.pod_scene import POD_SECONDS
from controlplane.scene import RESOURCE

FLAGS = ("--devices=owned", "--maintenance-quiet-seconds=3")
GPUS = tuple({"name": f"gpu-{number}"} for number in range(4))


@pytest.fixture(scope="module", autouse=True)
def kind(plane):
    """Install the kinds before the operator of the module starts."""
    install_kinds(plane)
    install_component(plane, "device-maintenance")


class Fleet:
    """Replicas on the devices of a scene, and a maintenance of one card."""

    def __init__(self, cluster):
        self.cluster, self.client = cluster, cluster.client
        self.budgets = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets"

    def replicate(self, name, count, **spec):
        """Create replicas of a pod that sleeps, with a budget that allows none to be evicted; wait until they run."""
        labels = {"app": name}
        container = {"name": "main", "image": GUEST, "command": ["sleep", "9999"], **spec.pop("container")}
        pod = {
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        }
        replicas = {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        where = f"/apis/apps/v1/namespaces/{self.cluster.namespace}/replicasets"
        self.client.create(where, {"metadata": {"name": name}, "spec": replicas})
        budget = {"minAvailable": count, "selector": {"matchLabels": labels}}
        self.client.create(self.budgets, {"metadata": {"name": name}, "spec": budget})
        self.wait_running(name, count)
        self.client.wait_for(
            f"{self.budgets}/{name}",
            lambda found: found.get("status", {}).get("currentHealthy") == count,
            seconds=POD_SECONDS,
            what=f"{count} healthy pods of {name}",
        )

    def pods(self, name=""):
        """Return the pods of replicas, or all, that are not about to end."""
        selector = f"?labelSelector=app%3D{name}" if name else ""
        listed = self.client.get(f"{self.cluster.pods}{selector}")["items"]
        return [each for each in listed if "deletionTimestamp" not in each["metadata"]]

    def wait_running(self, name, count):
        """Wait until so many replicas run."""
        self.client.wait_for(
            "/healthz",
            lambda _: sum(each["status"].get("phase") == "Running" for each in self.pods(name)) == count,
            seconds=POD_SECONDS,
            what=f"{count} pods of {name} that run",
        )

    def containers(self):
        """Return the container of each pod that has one, by the pod's device."""
        found = {}
        devices = self.devices()
        for each in self.pods():
            for status in each["status"].get("containerStatuses", ()):
                found[devices[each["metadata"]["uid"]]] = status["containerID"]
        return found

    def devices(self):
        """Return the pool and device of each pod, by its uid."""
        return {
            claim["status"]["reservedFor"][0]["uid"]: (result["pool"], result["device"])
            for claim in self.cluster.all_claims()
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        }

    def allow_one(self, name):
        """Let a budget allow one eviction."""
        count = len(self.pods(name)) - 1
        self.client.patch(f"{self.budgets}/{name}", {"spec": {"minAvailable": count}})

    def maintain(self, pool, device):
        """Take a device out of service."""
        entry = {"driver": self.cluster.driver, "pool": pool, "device": device}
        body = {
            "apiVersion": "dra-operator.io/v1alpha1",
            "kind": "DeviceMaintenance",
            "metadata": {"name": "dm"},
            "spec": {"devices": [entry], "drain": "Evict", "evictAfterSeconds": 0},
        }
        self.cluster.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(body))

    def wait(self, what):
        """Wait for something of the maintenance as an admin does."""
        try:
            self.cluster.plane.kubectl("wait", f"--for={what}", "dm/dm", "--timeout=90s")
        except KubectlError as error:
            error.add_note(self.cluster.plane.kubectl("describe", "dm/dm"))
            raise

    def finish(self):
        """Say that the work is done, and wait until the card is back in service."""
        patch = '{"spec": {"finished": ["all"]}}'
        self.cluster.plane.kubectl("patch", "dm/dm", "--type=merge", f"--patch={patch}")
        self.wait("jsonpath={.status.cards[0].phase}=Returned")
        assert self.client.get(RULES)["items"] == []


@pytest.fixture
def fleet(cluster):
    """Return the scene of a test; afterwards neither a maintenance nor replicas are there."""
    yield Fleet(cluster)
    cluster.plane.kubectl("delete", "dm", "--all", "--timeout=90s")
    cluster.plane.kubectl("delete", "replicasets", "--all", f"--namespace={cluster.namespace}")


def test_exactly_the_pod_of_one_card_moves(fleet, cluster, nodes):
    """Eight pods hold eight devices: one is evicted once its budget allows it, and runs again on the device after.

    The other seven run on untouched.
    """
    drivers = [cluster.start_driver(each, GPUS) for each in nodes]
    cluster.create_template("one")
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    fleet.replicate(
        "training", 8, container={"resources": {"claims": [{"name": "gpu"}]}}, resourceClaims=claims
    )
    before = fleet.containers()
    assert len(before) == 8
    card = "node-1", "gpu-2"
    others = {each: container for each, container in before.items() if each != card}

    fleet.maintain(*card)
    fleet.wait("condition=Drained=False")
    fleet.client.wait_for(
        "/healthz",
        lambda _: "disruption budget" in cluster.plane.kubectl("get", "dm/dm", "-o", "yaml"),
        seconds=POD_SECONDS,
        what="what the budget says",
    )
    assert fleet.containers() == before
    fleet.allow_one("training")
    fleet.wait("condition=SafeToWork")
    assert fleet.containers() == others
    # A kubelet that got no answer in time asks again.
    assert len({call.claim for each in drivers for call in each.calls if call.verb == "unprepare"}) == 1
    fleet.finish()

    fleet.wait_running("training", 8)
    after = fleet.containers()
    assert after.pop(card) != before[card]
    assert after == others


def test_pods_of_a_partitioned_card_move_to_another(fleet, cluster, nodes):
    """Of a card of two partitions one is held by a claim and one by an extended resource: both pods move.

    Those on the other card run on untouched.
    """
    extended = f"{cluster.driver}/part"
    cluster.client.patch(
        f"{RESOURCE}/deviceclasses/{cluster.driver}", {"spec": {"extendedResourceName": extended}}
    )
    cluster.create_template("one")
    claimed = {
        "container": {"resources": {"claims": [{"name": "gpu"}]}},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
    }
    amount = {"container": {"resources": {"requests": {extended: "1"}, "limits": {extended: "1"}}}}
    start_partitions(cluster, nodes[0], 2)
    fleet.replicate("claimed", 1, **claimed)
    fleet.replicate("extended", 1, **amount)
    start_partitions(cluster, nodes[1], 4)
    fleet.replicate("claimed-beside", 1, **claimed)
    fleet.replicate("extended-beside", 1, **amount)
    before = fleet.containers()
    others = {each: container for each, container in before.items() if each[0] == "node-2"}
    assert len(before) == 4
    assert len(others) == 2

    for name in ("claimed", "extended"):
        fleet.allow_one(name)
    fleet.maintain("node-1", "part-1")
    fleet.wait("condition=SafeToWork")
    for name in ("claimed", "extended"):
        fleet.wait_running(name, 1)
    after = fleet.containers()
    assert {pool for pool, _ in after} == {"node-2"}
    assert len(after) == 4
    assert others.items() <= after.items()
    fleet.finish()
    assert fleet.containers() == after


def start_partitions(cluster, node, count):
    """Start the driver on a node whose one card has so many partitions."""
    use = [{"counterSet": "card", "counters": {"memory": {"value": "10Gi"}}}]
    counters = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    parts = [{"name": f"part-{number}", "consumesCounters": use} for number in range(count)]
    cluster.start_driver(node, parts, counters=counters)
