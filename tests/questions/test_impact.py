"""Impact: what is said of a change equals what becomes of a copy to which it is applied."""

from copy import deepcopy

import pytest

import clean_worlds as worlds
from clean_worlds import GPU, NIC
from dra_operator.questions.allocate import decide_all
from dra_operator.questions.answers import QuestionError
from dra_operator.questions.cluster import Cluster
from dra_operator.questions.impact import Effect
from naive_usage import Reader, key_of, results

EFFECTS = ["NoSchedule", "NoExecute"]


def load(bodies):
    """The cluster of some objects."""
    return Cluster.load(bodies, now=worlds.NOW.timestamp())


def name_of(body):
    """Namespace and name."""
    return body["metadata"]["namespace"], body["metadata"]["name"]


def users(bodies, claim):
    """The pods that use a claim and have not ended."""
    return {
        name_of(pod)
        for pod in bodies
        if pod["kind"] == "Pod"
        and pod["metadata"]["namespace"] == claim["metadata"]["namespace"]
        and pod["status"]["phase"] not in ("Succeeded", "Failed")
        and any(
            entry["resourceClaimName"] == claim["metadata"]["name"]
            for entry in pod["spec"].get("resourceClaims", ())
        )
    }


def begin_anew(bodies, hit):
    """The objects in which claims and the pods that use them begin anew, and nothing else waits."""
    bodies = deepcopy(bodies)
    claims = {name_of(body): body for body in bodies if body["kind"] == "ResourceClaim"}
    pods = set().union(*(users(bodies, claims[key]) for key in hit)) if hit else set()
    again = {*hit} | {key for key, body in claims.items() if (used := users(bodies, body)) and used <= pods}
    left = []
    for body in bodies:
        if body["kind"] == "ResourceClaim":
            if name_of(body) in again and results(body):
                body["status"] = {}
                body["metadata"].pop("deletionTimestamp", None)
            elif not results(body):
                continue
        if body["kind"] == "Pod":
            if name_of(body) in pods:
                body["spec"].pop("nodeName", None)
                body["status"].pop("nominatedNodeName", None)
            elif not body["spec"].get("nodeName"):
                continue
        left.append(body)
    return left


def without_node(bodies, name):
    """The objects without a node, its slices and its pods."""
    return [
        body
        for body in bodies
        if (body["kind"], body["metadata"]["name"]) != ("Node", name)
        and not (body["kind"] in ("ResourceSlice", "Pod") and body["spec"].get("nodeName") == name)
    ]


def outcomes(bodies, hit, gone=""):
    """What claims come to in objects in which they begin anew: node and devices, or the reason."""
    decided = decide_all(load(without_node(begin_anew(bodies, hit), gone)))
    return {
        key: (
            each.node,
            [f"{item.driver}/{item.pool}/{item.device}" for item in each.allocation.devices.results],
        )
        if each.allocation is not None
        else each.reason
        for each in decided.outcomes
        if (key := (each.claim.metadata.namespace, each.claim.metadata.name)) in hit
    }


def said(report):
    """The same as the report has it."""
    return {
        (each.namespace, each.name): (each.new_node, list(each.new_devices))
        if each.fits_elsewhere
        else each.reason
        for each in report.claims
    }


def devices_of(report):
    """By which devices each claim is hit, and how."""
    return {(each.namespace, each.name): (sorted(each.devices), each.effect) for each in report.claims}


def holding(bodies, test, *, admin=True):
    """The claims with results that pass a test, and the devices of these."""
    found = {}
    for claim in bodies:
        if claim["kind"] == "ResourceClaim":
            chosen = {
                "/".join(key_of(item))
                for item in results(claim)
                if test(claim, item) and (admin or not item.get("adminAccess"))
            }
            if chosen:
                found[name_of(claim)] = sorted(chosen)
    return found


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("seed", range(12))
def test_taint_hits_whoever_holds_its_devices(seed, effect):
    """Nobody tolerates it; who would fit elsewhere is who fits in the copy with the rule."""
    world = worlds.make_world(seed)
    node = world.random.choice(world.nodes)
    rule = worlds.factories.taint_rule("broken", {"driver": GPU, "pool": node}, effect=effect)
    hit = holding(world.bodies, lambda _, item: item["pool"] == node, admin=effect == "NoExecute")

    report = load(world.bodies).impact(rule=rule)

    expected = Effect.EVICTED if effect == "NoExecute" else Effect.KEPT
    assert devices_of(report) == {key: (devices, expected) for key, devices in hit.items()}
    assert said(report) == outcomes([*world.bodies, rule], hit)
    reader = Reader(world.bodies)
    assert report.devices == sum(key[1] == node for key in reader.devices)
    assert report.used == sum(key[1] == node for key in reader.uses)


@pytest.mark.parametrize("seed", range(12))
def test_owning_devices_hits_claims_of_pods(seed):
    """Who holds them keeps them; kube-scheduler gives none of them to the same claim again."""
    world = worlds.make_world(seed)
    node = world.random.choice(world.nodes)
    rule = worlds.factories.taint_rule("own", {"driver": GPU, "pool": node}, key=worlds.OWNED)
    reader = Reader(world.bodies)
    new = {key for key in reader.devices if key[:2] == (GPU, node) and not reader.is_owned(key)}
    hit = holding(world.bodies, lambda _, item: key_of(item) in new, admin=False)

    report = load(world.bodies).impact(rule=rule)

    assert devices_of(report) == {key: (devices, Effect.KEPT) for key, devices in hit.items()}
    assert said(report) == outcomes([*world.bodies, rule], hit)
    assert report.devices == len(new)


@pytest.mark.parametrize("seed", range(12))
def test_drained_node_hits_its_pods_but_those_of_daemon_sets(seed):
    """And claims that nobody uses and that can be used nowhere else; the other nodes say why one fits on none."""
    world = worlds.make_world(seed)
    node = world.random.choice(world.nodes)
    bodies = world.bodies
    here = {
        name_of(pod): [owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())]
        for pod in world.of_kind("Pod")
        if pod["spec"].get("nodeName") == node
    }
    claims = {name_of(body): body for body in bodies if body["kind"] == "ResourceClaim" and results(body)}
    used = {key: users(bodies, claim) & here.keys() for key, claim in claims.items()}
    evicted = {key for key, pods in used.items() if any("DaemonSet" not in here[pod] for pod in pods)}
    pinned = {
        key
        for key, claim in claims.items()
        if not used[key]
        and ("nodeSelector" in claim["status"]["allocation"])
        and Reader(bodies).node(key_of(results(claim)[0]), claim) == node
    }
    copy = deepcopy(bodies)
    next(each for each in copy if each["kind"] == "Node" and each["metadata"]["name"] == node)["spec"][
        "unschedulable"
    ] = True

    report = load(bodies).impact(drained_node=node)

    assert {key: effect for key, (_, effect) in devices_of(report).items()} == {
        **dict.fromkeys(evicted, Effect.EVICTED),
        **dict.fromkeys(pinned - evicted, Effect.KEPT),
    }
    found, elsewhere = outcomes(copy, evicted | pinned), outcomes(copy, evicted | pinned, gone=node)
    assert said(report) == {
        key: elsewhere[key] if isinstance(each, str) and isinstance(elsewhere[key], str) else each
        for key, each in found.items()
    }
    assert all(each.new_node != node for each in report.claims)


@pytest.mark.parametrize("driver", [GPU, NIC])
@pytest.mark.parametrize("seed", range(8))
def test_removed_driver_hits_whoever_has_its_devices(seed, driver):
    """None of these claims fits anywhere, as each asks for devices of that driver."""
    world = worlds.make_world(seed)
    hit = holding(world.bodies, lambda _, item: item["driver"] == driver)
    copy = [
        body for body in world.bodies if body["kind"] != "ResourceSlice" or body["spec"]["driver"] != driver
    ]

    report = load(world.bodies).impact(removed_driver=driver)

    assert devices_of(report) == {key: (devices, Effect.LOST) for key, devices in hit.items()}
    assert said(report) == outcomes(copy, hit)
    assert not any(each.fits_elsewhere for each in report.claims)


@pytest.mark.parametrize("seed", range(12))
def test_changed_class_hits_claims_whose_devices_it_leaves_out(seed):
    """They keep their devices; decided anew, they would get others or none."""
    world = worlds.make_world(seed)
    new = deepcopy(world.objects["DeviceClass", "", "large"]) | {"metadata": {"name": "gpu"}}
    reader = Reader(world.bodies)

    def leaves(claim, item):
        key = key_of(item)
        return (
            item["driver"] == GPU
            and key in reader.devices
            and not reader.is_in_class("large", key, claim, item)
        )

    hit = holding(world.bodies, leaves)
    copy = [
        new if (body["kind"], body["metadata"]["name"]) == ("DeviceClass", "gpu") else body
        for body in world.bodies
    ]

    report = load(world.bodies).impact(device_class=new)

    assert devices_of(report) == {key: (devices, Effect.KEPT) for key, devices in hit.items()}
    assert said(report) == outcomes(copy, hit)
    lost = [key for key in reader.devices if key[0] == GPU and not reader.is_in_class("large", key, {}, {})]
    assert report.devices == len(lost)


@pytest.fixture
def world():
    """Two nodes with a device each; a pod that tolerates the taint for a minute has that of the first."""
    world = worlds.World(worlds.Random(0))
    world.nodes = ["node-1", "node-2"]
    world.put(worlds.factories.device_class("gpu"))
    for name in world.nodes:
        world.put(worlds.manifest("Node", name, labels={"kubernetes.io/hostname": name}))
        world.put(worlds.factories.resource_slice(f"s-{name}", [{"name": "gpu-0"}], pool=name))
        world.devices.append(worlds.Device(GPU, name, "gpu-0", name, is_owned=False))
    claim = world.claim(
        "team-a", world.allocation("node-1", [world.take(world.devices[0])], None), name="used"
    )
    world.pod("team-a", [claim], name="train", node="node-1", owner="Job")
    return world


def tolerate(world, **toleration):
    """Let the claim tolerate a taint, as its allocation has it."""
    (item,) = results(world.objects["ResourceClaim", "team-a", "used"])
    item["tolerations"] = [{"key": "broken", "operator": "Exists", **toleration}]


def broken(effect="NoExecute", **selector):
    """A rule for the first node."""
    return worlds.factories.taint_rule("broken", {"driver": GPU, "pool": "node-1", **selector}, effect=effect)


@pytest.mark.parametrize(("device", "is_said"), [("part-0", True), (None, False)], ids=["half", "whole"])
def test_rule_that_owns_half_a_counter_set_owns_nothing_there(world, device, is_said):
    """What draws on counters together is owned together, or not at all."""
    uses = [{"counterSet": "gpu", "counters": {"memory": {"value": "1"}}}]
    pool = {"name": "mig", "generation": 1, "resourceSliceCount": 2}
    place = {"driver": GPU, "nodeName": "node-2", "pool": pool}
    counters = [{"name": "gpu", "counters": {"memory": {"value": "4"}}}]
    devices = [{"name": name, "consumesCounters": uses} for name in ("part-0", "part-1")]
    for name, content in (("sets", {"sharedCounters": counters}), ("parts", {"devices": devices})):
        world.put(worlds.factories.manifest("ResourceSlice", name, {**place, **content}))
    selector = {"driver": GPU, "pool": "mig", **({"device": device} if device else {})}
    rule = worlds.factories.taint_rule("ours", selector, key="dra-operator.io/owned", effect="NoSchedule")

    problems = load(world.bodies).impact(rule=rule).problems

    assert bool(problems) is is_said
    assert all("not all devices that draw on counter set gpu are" in each for each in problems)


def test_claim_that_tolerates_the_taint_for_a_while_is_evicted_then(world):
    """Its pod gets another device, and its controller makes another pod."""
    tolerate(world, effect="NoExecute", tolerationSeconds=60)

    (claim,) = load(world.bodies).impact(rule=broken()).claims

    assert (claim.effect, claim.after_seconds) == (Effect.EVICTED, 60)
    assert (claim.fits_elsewhere, claim.new_node) == (True, "node-2")
    assert [(pod.kind, pod.name, pod.node, pod.is_replaced) for pod in claim.pods] == [
        ("Pod", "train", "node-1", True)
    ]


def share_with_other_node(world):
    """Let the pod of the first node share a device of the network with one of the second; the claim that has it."""
    world.put(worlds.factories.device_class("nic", f'device.driver == "{NIC}"'))
    devices = [{"name": "nic-0"}, {"name": "nic-1"}]
    world.put(worlds.factories.resource_slice("s-fabric", devices, driver=NIC, pool="fabric", allNodes=True))
    nic = worlds.Device(NIC, "fabric", "nic-0", "", is_owned=False)
    world.devices.append(nic)
    shared = world.claim("team-a", world.allocation("node-1", [world.take(nic)], None), name="shared")
    train = world.objects["Pod", "team-a", "train"]
    train["spec"]["resourceClaims"].append({"name": "shared", "resourceClaimName": "shared"})
    world.reserve(shared, "train")
    world.pod("team-a", [shared], name="other", node="node-2", owner="Job")
    return train


def test_claim_that_a_pod_elsewhere_uses_keeps_its_devices(world):
    """The drain evicts one of its two pods, whose own claim begins anew."""
    share_with_other_node(world)

    shared, used = load(world.bodies).impact(drained_node="node-1").claims

    assert (shared.name, shared.effect, [pod.name for pod in shared.pods]) == (
        "shared",
        Effect.EVICTED,
        ["train"],
    )
    assert (shared.fits_elsewhere, shared.new_devices) == (True, (f"{NIC}/fabric/nic-0",))
    assert (used.name, used.new_node) == ("used", "node-2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "0 changes are given"),
        ({"drained_node": "node-1", "removed_driver": GPU}, "2 changes are given"),
        ({"drained_node": "node-3"}, 'there is no Node "node-3"; did you mean'),
        (
            {"removed_driver": "gpu.example.co"},
            'no ResourceSlice is of driver "gpu.example.co"; did you mean',
        ),
        ({"rule": worlds.factories.device_class()}, 'kind: "DeviceClass" is no DeviceTaintRule'),
        ({"rule": worlds.factories.taint_rule("odd", {"driver": GPU}, effect="Never")}, "spec.taint.effect"),
        ({"rule": {"kind": "DeviceTaintRule", "apiVersion": worlds.factories.V1}}, "metadata.name"),
        (
            {
                "rule": {
                    **worlds.factories.taint_rule("x", {"driver": GPU}),
                    "metadata": {"generateName": "x-"},
                }
            },
            "metadata.name: is required, as the change is about one object",
        ),
        (
            {
                "rule": {
                    **worlds.factories.taint_rule("x", {"driver": GPU}),
                    "apiVersion": "example.com/v1",
                }
            },
            'apiVersion: "example.com/v1" is not of resource.k8s.io',
        ),
        ({"device_class": worlds.manifest("DeviceClass", "gpu", {"selectors": 7})}, "spec.selectors"),
    ],
)
def test_change_that_cannot_be_made_is_an_error(world, change, message):
    """One line with the field, the value and what was meant."""
    with pytest.raises(QuestionError) as caught:
        load(world.bodies).impact(**change)

    assert message in str(caught.value)


def test_request_is_decisive_only_if_enough_devices_become_too_few(world):
    """One of two devices is left for a template that asks for one, and too few for one that asks for two."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
    for name, count in (("one", 1), ("two", 2)):
        spec = {"devices": {"requests": [{**request, "exactly": {**request["exactly"], "count": count}}]}}
        world.put(worlds.factories.manifest("ResourceClaimTemplate", name, spec={"spec": spec}))

    requests = load(world.bodies).impact(drained_node="node-1").requests

    found = {each.name: (each.devices_before, each.devices_after, each.is_decisive) for each in requests}
    assert found == {"one": (2, 1, False), "two": (2, 1, True)}
