"""Why a pod or a claim waits, as data."""

import pytest

from dra_operator import Cluster, QuestionError
from factories import claim, request, taint_rule
from small_cluster import CLASS, NODES, cluster, devices, holding, node, pod, template, waiting_pod

LARGE = 'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("60Gi"))'


def waiting(name="waits", *expressions, count=1, **metadata):
    """A claim that has no allocation."""
    asked = request("gpu", "gpu", *expressions, count=count, allocationMode="ExactCount")
    return claim(name, asked, namespace="team", uid=name, **metadata)


def steps(answer):
    """Name, what is refused and what is left of each step of the first request."""
    return [(step.name, step.refused, step.left) for step in answer.requests[0].steps]


def test_the_funnel_counts_devices_down_to_those_left():
    """Each condition says how many devices it refuses, and near misses say by how much."""
    answer = cluster(waiting("waits", LARGE, count=2), holding("held", "n2", "gpu-0")).explain(
        "ResourceClaim/team/waits"
    )

    assert (answer.state, answer.reason) == ("waits", "NotEnoughDevices")
    assert steps(answer) == [
        ("published", 0, 4),
        ("class", 0, 4),
        ("selector #0", 2, 2),
        ("DeviceInUse", 1, 1),
    ]
    selector, in_use = answer.requests[0].steps[2:]
    assert [(miss.text, miss.devices) for miss in selector.near_misses] == [("memory 40Gi <= 60Gi", 2)]
    assert (in_use.claims, in_use.holders) == (("team/held",), "held")
    assert (answer.requests[0].asked, answer.requests[0].most_on_a_node, answer.requests[0].node) == (
        "2",
        1,
        "n2",
    )


@pytest.mark.parametrize("is_reader", [True, False], ids=["all may be listed", "one namespace"])
def test_holders_are_named_to_who_may_list_them(is_reader):
    """Of claims of other namespaces the message has the number, as Events do; an admin reads their names beside it."""
    holders = [holding(f"held-{each}", "n2", each) for each in ("gpu-0", "gpu-1")]
    holders[1]["metadata"]["namespace"] = "other"

    unread = {} if is_reader else {"ResourceClaim": "not permitted"}
    state = cluster(waiting("waits", LARGE), *holders, unread=unread)
    answer = state.explain("ResourceClaim/team/waits")

    step, counted = answer.requests[0].steps[-1], "held-gpu-0, 1 of another namespace"
    assert step.holders == ("held-gpu-0, other/held-gpu-1" if is_reader else counted)
    assert f"in use by 2 claims ({counted})" in answer.message
    assert step.claims == ("other/held-gpu-1", "team/held-gpu-0")
    foreign = cluster(
        waiting("waits", LARGE),
        *[{**each, "metadata": {**each["metadata"], "namespace": "other"}} for each in holders],
        unread=unread,
    )
    (change,) = [
        each.text for each in foreign.explain("claim/team/waits").changes if each.kind == "claims end"
    ]
    assert change == ("claim other/held-gpu-0 ended" if is_reader else "a claim of another namespace ended")


def test_what_the_operator_wrote_goes_with_an_answer_that_lacks_something():
    """It could read all: with fewer rights its word comes before what can be computed."""
    asked = waiting(annotations={"dra-operator.io/pending": "NotEnoughDevices: 4 in use"})

    partial = cluster(asked, unread={"ResourceClaim": "not permitted"}).explain("claim/team/waits")

    assert (partial.state, partial.conclusion.value) == ("fits", "cannot say")
    assert partial.written == ("NotEnoughDevices: 4 in use",)
    assert cluster(asked).explain("claim/team/waits").written == ()


def test_what_the_operator_wrote_goes_with_a_gated_pod_for_which_no_reason_is_found():
    """Which devices it allocates is a setting of its own: it may have a reason that nobody else can see."""
    held, asking = waiting_pod(schedulingGates=[{"name": "dra-operator.io/allocation"}])
    held["metadata"]["annotations"] = {"dra-operator.io/pending": "2 not owned by this operator"}

    answer = cluster(held, asking).explain("pod/team/train")

    assert (answer.state, answer.written) == ("waits", ("2 not owned by this operator",))


def test_what_keeps_few_devices_away_is_summed_up():
    """Of many causes the first are told, and how many devices the others keep away."""
    nodes = [
        body
        for number in range(8)
        for body in (node(f"m{number}", unschedulable=True), devices(f"m{number}", "d"))
    ]

    answer = cluster(*nodes, waiting("waits", count=9)).explain("claim/team/waits")

    (step,) = [each for each in answer.requests[0].steps if each.name == "NodeUnusable"]
    assert [each.devices for each in step.near_misses] == [1, 1, 1, 1, 1, 3]
    assert step.near_misses[-1].text == "others"


def test_the_smallest_changes_are_given_by_kind():
    """Each is one edit with which it would fit."""
    answer = cluster(waiting("waits", LARGE, count=2), holding("held", "n2", "gpu-0")).explain(
        "ResourceClaim/team/waits"
    )

    assert [(change.kind, change.text) for change in answer.changes] == [
        ("selector", "selector #0 were dropped"),
        ("count", "request gpu asked for 1 device"),
        ("claims end", "claim held ended"),
    ]


@pytest.mark.parametrize(
    ("bodies", "subject", "expected"),
    [
        pytest.param([waiting()], "claim/team/waits", ("fits", "n1"), id="a claim that fits"),
        pytest.param([holding("held", "n1", "gpu-0")], "claim/team/held", ("allocated", ""), id="allocated"),
        pytest.param([holding("held", "n1", "gpu-9")], "claim/team/held", ("broken", ""), id="broken"),
        pytest.param(
            [pod("train", uid="train", nodeName="n1", entries=[])],
            "pod/team/train",
            ("does not wait", "n1"),
            id="a pod on a node",
        ),
        pytest.param(
            [{**pod("train", uid="train"), "status": {"phase": "Succeeded"}}],
            "pod/team/train",
            ("does not wait", ""),
            id="a pod that has run",
        ),
        pytest.param(
            [
                {
                    **waiting(),
                    "metadata": {**waiting()["metadata"], "labels": {"dra-operator.io/allocate": "false"}},
                }
            ],
            "claim/team/waits",
            ("does not wait", ""),
            id="a claim that the operator leaves alone",
        ),
    ],
)
def test_what_does_not_wait_is_told_so(bodies, subject, expected):
    """The state says what there is to know."""
    answer = cluster(*bodies).explain(subject)

    assert (answer.state, answer.node) == expected


def test_a_pod_that_is_not_there_yet_is_explained_as_a_copy():
    """Before it is applied, a manifest is asked what it would wait for."""
    asked = cluster(holding("a", "n1", "gpu-0", "gpu-1"), holding("b", "n2", "gpu-0", "gpu-1"))

    answer = asked.explain([template(), pod()])

    assert (answer.subject, answer.state, answer.reason) == ('Pod "team/train"', "waits", "DeviceInUse")
    assert [change.text for change in answer.changes] == ["claim a ended"]


def test_what_is_not_there_is_said():
    """A name that is close is given."""
    with pytest.raises(QuestionError, match=r'there is no ResourceClaim "team/wait"; did you mean "waits"\?'):
        cluster(waiting()).explain("ResourceClaim/team/wait")


def test_a_pod_with_the_operator_s_gate_waits_for_devices_that_are_owned():
    """It is decided by the operator, who takes no others."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "train", "controller": True}
    gated = pod("train", uid="train", schedulingGates=[{"name": "dra-operator.io/allocation"}])
    gated["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "train-gpu-x"}]}
    taints = [{"key": "dra-operator.io/owned", "effect": "NoSchedule"}]
    asked = cluster(
        devices("n1", "gpu-0", taints=taints), waiting("train-gpu-x", ownerReferences=[owner]), gated
    )

    assert asked.explain("Pod/team/train").node == "n1"
    waits = asked.with_objects(holding("held", "n1", "gpu-0")).explain("Pod/team/train")
    assert (waits.state, waits.reason) == ("waits", "DeviceInUse")
    assert steps(waits)[2:] == [("DeviceNotOwned", 2, 1), ("DeviceInUse", 1, 0)]


def test_a_pod_that_tolerates_the_owned_taint_is_told_that_the_devices_are_owned():
    """It does not fit: the policy refuses what kube-scheduler would choose; other devices still serve it."""
    taint = {"key": "dra-operator.io/owned", "effect": "NoSchedule"}
    rule = taint_rule("own-n1", {"driver": "gpu.example.com"}, **taint)
    tolerant = request("gpu", "gpu", tolerations=[{"operator": "Exists"}])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "train", "controller": True}
    anything = claim("waits", tolerant, namespace="team", uid="waits", ownerReferences=[owner])

    answer = cluster(rule, anything).explain("claim/team/waits")

    assert (answer.state, answer.reason) == ("waits", "DeviceTainted")
    assert (
        "(dra-operator.io/owned:NoSchedule on 4; dra-operator alone allocates the devices that it owns, so a "
        "toleration of this taint counts for nothing: use other devices, or ask the admin of this cluster; set by "
        "DeviceTaintRule own-n1)"
    ) in answer.message
    partly = taint_rule("own-n1", {"driver": "gpu.example.com", "pool": "n1"}, **taint)
    assert cluster(partly, anything).explain("claim/team/waits").node == "n2"


def asking(count, **fields):
    """A pod that asks for devices by the name of a resource, and names no claim."""
    found = pod("train", uid="train", entries=[], **fields)
    found["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": str(count)}
    return found


def test_pod_whose_claim_of_extended_resources_is_gone_asks_for_them_anew():
    """Its status still names the claim."""
    served = {**CLASS, "spec": {**CLASS["spec"], "extendedResourceName": "example.com/gpu"}}
    asked = asking(4)
    asked["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "gone", "requestMappings": []}}

    answer = cluster(served, asked).explain("pod/team/train")

    assert (answer.state, answer.reason) == ("waits", "NotEnoughDevices")


def test_gates_of_others_keep_a_pod_waiting_and_its_claims_with_it():
    """kube-scheduler does not look at it before they are off."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "train", "controller": True}
    held = pod("train", uid="train", schedulingGates=[{"name": "example.com/hold"}])
    held["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "train-gpu-x"}]}
    asked = cluster(waiting("train-gpu-x", ownerReferences=[owner]), held)

    for subject in ("pod/team/train", "claim/team/train-gpu-x"):
        answer = asked.explain(subject)
        assert answer.state == "waits"
        assert (
            "scheduling gates, and is not scheduled before they are off: example.com/hold" in answer.message
        )


def gated(name, claim_name):
    """A pod with the operator's gate that names a claim."""
    entries = [{"name": "gpu", "resourceClaimName": claim_name}]
    return pod(name, uid=name, entries=entries, schedulingGates=[{"name": "dra-operator.io/allocation"}])


def test_claim_of_a_gated_pod_fits_where_the_pod_does():
    """It is decided on devices that the operator owns."""
    taints = [{"key": "dra-operator.io/owned", "effect": "NoSchedule"}]
    asked = cluster(devices("n2", "gpu-0", taints=taints), waiting(), gated("train", "waits"))

    answer = asked.explain("claim/team/waits")
    assert (answer.state, answer.node) == ("waits", "n2")
    assert answer.message.startswith(
        'pod "train" waits: it fits on node n2, and waits for the operator to take'
    )


@pytest.mark.parametrize("mark", ["", "u/1/policy"])
def test_claim_that_fits_on_devices_that_settle_is_told_so(mark):
    """The operator allocates none of them before it has marked their rule."""
    annotations = {"dra-operator.io/settled": mark} if mark else {}
    owned = taint_rule(
        "own", {"driver": "gpu.example.com"}, key="dra-operator.io/owned", uid="u", annotations=annotations
    )
    owned["metadata"]["generation"] = 1

    answer = cluster(waiting(), owned).explain("claim/team/waits")

    assert answer.state == "fits"
    assert ("DeviceTaintRule own once it has settled" in answer.message) == (not mark)


ENTRY = [{"name": "gpu", "resourceClaimName": "used"}]


@pytest.mark.parametrize(
    ("uid", "is_told"), [("train", True), ("other", False)], ids=["let go", "copy of one"]
)
def test_pod_that_was_let_go_and_lost_its_devices_is_told_so(uid, is_told):
    """By its own annotation, whatever else it may wait for."""
    lost = pod("train", uid="train", entries=[{"name": "gpu", "resourceClaimName": "waits"}])
    lost["metadata"]["annotations"] = {"dra-operator.io/let-go": f"2026-01-01T00:00:00Z n1 {uid}"}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node."}
    lost["status"] = {"conditions": [condition]}
    asked = cluster(devices("n1", "gpu-0"), waiting(), lost)

    of_pod, of_claim = asked.explain("pod/team/train"), asked.explain("claim/team/waits")

    assert [each.reason == "HandedBack" for each in (of_pod, of_claim)] == [is_told, is_told]
    if is_told:
        assert of_pod.message == "handed back: no node; delete the pod to try again"
        assert of_claim.message == f'pod "train" waits: {of_pod.message}'


def bound(**status):
    """A pod that is on a node and does not run yet."""
    return pod("train", entries=ENTRY, uid="train", nodeName="n1") | {
        "status": {"phase": "Pending", **status}
    }


def reserved(body, uid="train"):
    """A claim that is reserved for a pod."""
    body["status"]["reservedFor"] = [{"resource": "pods", "name": uid, "uid": uid}]
    return body


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ([], 'there is no ResourceClaim "used"'),
        ([waiting("used")], 'claim "used" is not allocated'),
        ([holding("used", "n1", "gpu-0")], 'claim "used" is not reserved for it'),
        ([reserved(holding("used", "n1", "gpu-0"), "other")], 'claim "used" is not reserved for it'),
    ],
)
def test_a_pod_that_was_bound_without_the_scheduler_waits_in_its_kubelet(claims, problem):
    """Nobody allocates and reserves claims for a pod that has a node."""
    answer = cluster(bound(), *claims).explain("Pod/team/train")

    assert (answer.state, answer.node, problem in answer.message) == ("waits", "n1", True), answer.message


def binding(*conditions):
    """An unbound pod, and its claim, whose device has conditions."""
    held = holding("used", "n1", "gpu-0")
    (item,) = held["status"]["allocation"]["devices"]["results"]
    item |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}
    held["status"]["devices"] = [
        {
            **{name: item[name] for name in ("driver", "pool", "device")},
            "conditions": [{"type": each, "status": "True"} for each in conditions],
        }
    ]
    return pod("train", entries=ENTRY, uid="train"), reserved(held)


@pytest.mark.parametrize(
    ("conditions", "state", "text"),
    [
        ((), "waits", "its driver is to say attached of device gpu.example.com/n1/gpu-0"),
        (("failed",), "waits", "binding device gpu.example.com/n1/gpu-0 failed (failed)"),
        (("attached",), "fits", "the scheduler has not placed it"),
    ],
)
def test_a_pod_waits_for_the_binding_conditions_of_its_claim(conditions, state, text):
    """They hold kube-scheduler up after the claim is allocated; what its driver says decides."""
    answer = cluster(*binding(*conditions)).explain("Pod/team/train")

    assert (answer.state, text in answer.message) == (state, True), answer.message


def test_a_pod_whose_allocated_claim_is_broken_says_so():
    """It would be evicted as soon as it runs."""
    taints = [{"key": "broken", "effect": "NoExecute", "timeAdded": "2026-01-05T08:00:00Z"}]
    bodies = [
        body if body["metadata"]["name"] != "slice-n1" else devices("n1", "gpu-0", "gpu-1", taints=taints)
        for body in (CLASS, *NODES)
    ]
    held = reserved(holding("used", "n1", "gpu-0"))
    asked = Cluster.load([*bodies, pod("train", entries=ENTRY, uid="train"), held])

    answer = asked.explain("Pod/team/train")

    assert (answer.state, "broken:NoExecute" in answer.message) == ("broken", True), answer.message


def test_a_pod_that_fits_may_wait_for_what_is_not_looked_at():
    """So that it fits is not said without that; why it waits is."""
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
    asked = pod("train", entries=ENTRY, uid="train", affinity={"podAntiAffinity": apart})

    fits = cluster(asked, waiting("used")).explain("Pod/team/train")
    waits = cluster(asked, waiting("used", count=9)).explain("Pod/team/train")

    assert (fits.state, fits.partial) == ("fits", ("pod affinity is not looked at",))
    assert (waits.state, waits.partial, waits.conclusion) == ("waits", (), "no")
