"""Gangs: whether all pods fit at once, how many do, and what the next one lacks."""

import pytest

from dra_operator import Cluster, QuestionError
from dra_operator.pods.gang_assignment import STEPS, GangAssigner, NoDecision
from dra_operator.questions.gang_members import find_gang
from dra_operator.questions.gangs import explain_gang, find_gang_notes
from factories import manifest
from gangfuzz.brute_force import count_most, find_fault, read_places
from gangfuzz.world import make_world

DRIVER = "gpu.example.com"
RACK = "example.com/rack"
GROUP = "podgroup/team/gang"


def node(name, rack="", cpu="64"):
    """A node, in a rack if one is given."""
    labels = {RACK: rack} if rack else {}
    return manifest("Node", name, status={"allocatable": {"cpu": cpu, "pods": "110"}}, labels=labels)


def device_class(name, kind):
    """A class of the devices of a kind."""
    text = f'device.attributes["{DRIVER}"].kind == "{kind}"'
    return manifest("DeviceClass", name, {"selectors": [{"cel": {"expression": text}}]})


def devices(on, *items, counters=0):
    """The devices of a node: name, kind, further attributes, and what is drawn on its counter."""
    pool = {"name": on, "generation": 1, "resourceSliceCount": 2 if counters else 1}
    spec = {"driver": DRIVER, "nodeName": on, "pool": pool}
    found = []
    for name, kind, attributes, draw in items:
        body = {"name": name, "attributes": {"kind": {"string": kind}}}
        body["attributes"] |= {key: {"string": value} for key, value in attributes.items()}
        if draw:
            body["consumesCounters"] = [{"counterSet": "set", "counters": {"slots": {"value": str(draw)}}}]
        found.append(body)
    sets = [{"name": "set", "counters": {"slots": {"value": str(counters)}}}]
    bodies = [("devices", {"devices": found})]
    bodies += [("counters", {"sharedCounters": sets})] if counters else []
    return [manifest("ResourceSlice", f"{on}-{name}", {**spec, **rest}) for name, rest in bodies]


def template(name, *requests, constraints=()):
    """A ResourceClaimTemplate with requests."""
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    return manifest("ResourceClaimTemplate", name, {"spec": spec}, namespace="team")


def request(name, of_class, count=1):
    """A request for devices of a class."""
    return {"name": name, "exactly": {"deviceClassName": of_class, "count": count}}


def pod(name, templates=(), group="gang", annotations=None, cpu="1", **spec):
    """A pod of a group with a claim of each template."""
    entries = [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    of_group = {"schedulingGroup": {"podGroupName": group}} if group else {}
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]
    return manifest(
        "Pod",
        name,
        {"containers": containers, "resourceClaims": entries, **of_group, **spec},
        namespace="team",
        annotations=annotations or {},
    )


def pod_group(at_least=0, **spec):
    """A PodGroup."""
    policy = {"gang": {"minCount": at_least}} if at_least else {"basic": {}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "team"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def in_racks():
    """The constraint of a PodGroup to one rack."""
    return {"schedulingConstraints": {"topology": [{"key": RACK}]}}


def load(*bodies):
    """The cluster of some objects."""
    found = Cluster.load([body for each in bodies for body in (each if isinstance(each, list) else [each])])
    assert found.errors == []
    return found


def deadlock(halves=1):
    """One node with a device of counter 2 as whole and halves, and two pods that take the whole before a half."""
    options = [
        {"name": kind, "deviceClassName": kind, "count": count}
        for kind, count in (("whole", 1), ("half", halves))
    ]
    parts = ("whole", "whole", {}, 2), ("half-0", "half", {}, 1), ("half-1", "half", {}, 1)
    return load(
        node("n1"),
        device_class("whole", "whole"),
        device_class("half", "half"),
        devices("n1", *parts, counters=2),
        template("part", {"name": "gpu", "firstAvailable": options}),
        pod_group(2),
        pod("p0", ["part"]),
        pod("p1", ["part"]),
    )


def placed(answer):
    """Node and devices of each pod."""
    return {each.name: (each.node, [device.device for device in each.devices]) for each in answer.pods}


def test_a_choice_for_one_pod_is_revisited_for_the_other():
    """Both fit on halves, which kube-scheduler does not find, as the first takes the whole device."""
    answer = explain_gang(deadlock(), GROUP)

    assert answer.state == "fits"
    assert placed(answer) == {"p0": ("n1", ["half-0"]), "p1": ("n1", ["half-1"])}
    assert "will not find it" in answer.scheduler


def test_the_next_pod_is_explained_beside_those_that_fit():
    """If each alternative takes the whole counter, one of two fits."""
    answer = explain_gang(deadlock(halves=2), GROUP)

    assert (answer.state, answer.fitting, answer.failing) == ("waits", 1, "p1")
    assert answer.reason == "DeviceInUse"
    assert [each.text for each in answer.changes] == ["it had 1 pod"]


def test_pod_without_claims_that_no_node_has_room_for():
    """It is told of the nodes, and not that it would fit by itself."""
    answer = explain_gang(load(node("n1"), pod_group(2), pod("p0"), pod("p1", cpu="100")), GROUP)

    assert (answer.state, answer.fitting, answer.failing) == ("waits", 1, "p1")
    assert answer.reason == "NodeUnsuitable"
    assert "the pod can run on no node" in answer.message


def test_pods_that_run_in_two_racks_already_are_the_reason():
    """Both are counted, and the next one waits because of them, not of itself."""
    pods = [pod("p0", nodeName="n1"), pod("p1", nodeName="n2"), pod("p2")]
    cluster = load(node("n1", "r1"), node("n2", "r2"), pod_group(3, **in_racks()), *pods)

    answer = explain_gang(cluster, GROUP)

    assert (answer.state, answer.fitting, answer.failing) == ("waits", 2, "p2")
    assert "the 2 pods that run have not the same" in answer.message


def racked(free_in_second):
    """Two racks: the first has three free GPUs, the second as many as are given."""
    return [
        device_class("gpu", "gpu"),
        node("a1", "r1"),
        devices("a1", *((f"g{number}", "gpu", {}, 0) for number in range(3))),
        node("b1", "r2"),
        devices("b1", *((f"g{number}", "gpu", {}, 0) for number in range(free_in_second - 2))),
        node("b2", "r2"),
        devices("b2", ("g0", "gpu", {}, 0), ("g1", "gpu", {}, 0)),
        node("free"),
        devices("free", *((f"g{number}", "gpu", {}, 0) for number in range(8))),
    ]


@pytest.mark.parametrize(("free", "state", "fitting"), [(5, "fits", 4), (4, "waits", 3)])
def test_prefill_and_decode_share_a_rack(free, state, fitting):
    """Three workers of one GPU and one of two need five in a rack; nodes without the label are in none."""
    answer = explain_gang(
        load(
            *racked(free),
            template("one", request("gpu", "gpu")),
            template("two", request("gpu", "gpu", 2)),
            pod_group(**in_racks()),
            pod("decode", ["two"]),
            *(pod(f"prefill-{number}", ["one"]) for number in range(3)),
        ),
        GROUP,
    )

    assert (answer.state, answer.fitting) == (state, fitting)
    if state == "fits":
        assert answer.value == f"{RACK} r2"
        assert {each.node for each in answer.pods} <= {"b1", "b2"}
    else:
        assert [(each.value, each.fitting) for each in answer.values] == [("r2", 3), ("r1", 2)]
        assert f"its pods need not have the same {RACK}" in [each.text for each in answer.changes]


def bonded(rails):
    """Nodes with two GPUs and NICs, each pair of one root; `rails` are those of the NICs of each node."""
    bodies = []
    for name, of_node in rails.items():
        items = [(f"gpu-{number}", "gpu", {"root": str(number)}, 0) for number in range(2)]
        items += [
            (f"nic-{number}", "nic", {"root": str(number), "rail": rail}, 0)
            for number, rail in enumerate(of_node)
        ]
        bodies += [node(name), *devices(name, *items)]
    return bodies


@pytest.mark.parametrize(("second", "rail"), [("ab", "a"), ("aa", "a"), ("bb", "b"), ("cc", "")])
def test_one_rail_over_all_and_one_root_for_each(second, rail):
    """The match holds over all members, beside the constraint in each claim; a GPU is of no class of it."""
    both = {"matchAttribute": f"{DRIVER}/root"}
    annotations = {"dra-operator.io/gang-match": f"{DRIVER}/rail;class=nic"}
    answer = explain_gang(
        load(
            device_class("gpu", "gpu"),
            device_class("nic", "nic"),
            bonded({"n1": "ba", "n2": second}),
            template("pair", request("gpu", "gpu"), request("nic", "nic"), constraints=[both]),
            pod_group(),
            *(pod(f"p{number}", ["pair"], annotations=annotations, cpu="40") for number in range(2)),
        ),
        GROUP,
    )

    assert answer.state == ("fits" if rail else "waits")
    assert rail in answer.value
    for each in answer.pods:
        assert len({device.device[-1] for device in each.devices}) == 1


def test_a_group_that_needs_fewer_fits_with_fewer():
    """With minCount two, a third pod that fits nowhere is told, and the gang fits all the same."""
    answer = explain_gang(
        load(
            device_class("gpu", "gpu"),
            node("n1"),
            devices("n1", ("g0", "gpu", {}, 0), ("g1", "gpu", {}, 0)),
            template("one", request("gpu", "gpu")),
            pod_group(2),
            *(pod(f"p{number}", ["one"]) for number in (10, 2, 1)),
        ),
        GROUP,
    )

    assert (answer.state, answer.fitting, answer.failing) == ("fits", 2, "p10")


def test_pods_with_extended_resources_are_not_decided():
    """What they ask of classes by the name of a resource is not looked at, so there is neither a yes nor a no."""
    asking = pod("p1")
    asking["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    gpu = device_class("gpu", "gpu")
    gpu["spec"]["extendedResourceName"] = "example.com/gpu"
    answer = explain_gang(load(gpu, node("n1"), pod_group(), pod("p0"), asking), GROUP)

    assert (answer.state, answer.conclusion, answer.fitting) == ("undecided", "cannot say", 1)


def test_pods_without_claims_are_undecided_after_a_number_of_steps():
    """A search for pods of different CPU, none with a claim, ends by its steps as any other."""
    pods = [pod(f"p{number}", cpu=f"{1000 + 37 * number}m") for number in range(15)]
    nodes = [node(f"n{number}", cpu="3700m") for number in range(5)]
    state, gang = find_gang(load(*nodes, *pods, pod_group()), GROUP)
    found = GangAssigner(state.pod_deciders, state.placement.requirements, steps=500).assign(gang)
    assert isinstance(found, NoDecision)


def test_the_whole_answer_shares_one_budget_of_steps():
    """A gang of kinds that all differ ends undecided, alike each time, and smaller ones are still decided."""
    pods = [pod(f"p{number}", ["one"], cpu=f"{10000 + 1370 * number}m") for number in range(20)]
    items = [(f"g{number}", "gpu", {}, 0) for number in range(4)]
    nodes = [body for name in "abcdef" for body in (node(name), *devices(name, *items))]
    bodies = [device_class("gpu", "gpu"), *nodes, template("one", request("gpu", "gpu")), pod_group(), *pods]
    state, gang = find_gang(load(*bodies), GROUP)
    assigner = GangAssigner(state.pod_deciders, state.placement.requirements)
    answers = [explain_gang(load(*bodies), GROUP) for _ in range(2)]

    assert isinstance(assigner.assign(gang), NoDecision)
    assert 0 < assigner.steps <= STEPS // 2
    assert answers[0] == answers[1]
    assert (answers[0].state, answers[0].partial) == ("undecided", ("not all ways to place them were tried",))
    assert answers[0].fitting >= 12


def test_fields_that_an_api_server_may_drop_are_told():
    """What makes a gang of a file may be gone where its feature gates are off; of a cluster it is there."""
    lines = [
        f'PodGroup "team/gang": {name} counts here; an API server drops it unless its feature gate {gate} is on, '
        "which it is not by default"
        for name, gate in (
            ("spec.schedulingGroup of its pods", "GenericWorkload"),
            ("spec.schedulingConstraints", "TopologyAwareWorkloadScheduling"),
        )
    ]
    of_file = [pod_group(**in_racks()), pod("p0")]
    of_cluster = [{**each, "metadata": {**each["metadata"], "uid": each["kind"]}} for each in of_file]

    assert explain_gang(load(node("n1", "r1"), *of_file), GROUP).assumed == tuple(lines)
    assert [*find_gang_notes(load(node("n1", "r1"), *of_file))] == lines
    assert explain_gang(load(node("n1", "r1"), *of_cluster), GROUP).assumed == ()


def test_groups_of_groups_are_refused():
    """They are refused by name rather than answered for a part."""
    with pytest.raises(QuestionError, match="parentCompositePodGroupName"):
        explain_gang(load(node("n1"), pod_group(parentCompositePodGroupName="all"), pod("p0")), GROUP)


def test_pods_of_one_annotation_are_a_gang():
    """Without a PodGroup the annotation says which pods belong together."""
    annotations = {"dra-operator.io/gang": "ring", "dra-operator.io/gang-topology": RACK}
    pods = [pod(f"p{number}", group="", annotations=annotations) for number in range(2)]
    answer = explain_gang(load(node("a", "r1", cpu="1"), node("b", "r2", cpu="2"), *pods), "pod/team/p1")

    assert (answer.subject, answer.value) == ('gang "team/ring"', f"{RACK} r2")


@pytest.mark.parametrize("number", range(40))
def test_random_gangs_fit_exactly_when_brute_force_says_so(number):
    """So many fit as trying everything finds, and each assignment is one."""
    world = make_world(f"suite {number}")
    answer = explain_gang(Cluster.load(list(world.bodies()), listed=("Pod",)), GROUP)

    assert answer.fitting == count_most(world)
    assert answer.state != "undecided"
    assert not find_fault(world, read_places(world, answer))


TEMPLATE = {
    "spec": {
        "containers": [{"name": "main", "image": "none"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
    }
}
PLAIN = {"spec": {"containers": TEMPLATE["spec"]["containers"]}}


def workload(api_version, kind, **spec):
    """A workload that no API server has taken yet."""
    metadata = {"name": "run", "namespace": "team"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def job(pods):
    """The template of a Job in a JobSet."""
    return {"spec": {"parallelism": pods, "completions": pods, "template": TEMPLATE}}


def job_set(order):
    """A JobSet of a driver and three workers."""
    jobs = [{"name": "driver", "template": job(1)}, {"name": "workers", "template": job(3)}]
    policy = {"startupPolicy": {"startupPolicyOrder": order}} if order else {}
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=jobs, **policy)


def leader_worker_set(leader=None, policy="LeaderCreated"):
    """Two replicas of a leader and two workers."""
    templates = {"leaderTemplate": leader} if leader else {}
    templates = {"size": 3, "workerTemplate": TEMPLATE, **templates}
    return workload(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        replicas=2,
        startupPolicy=policy,
        leaderWorkerTemplate=templates,
    )


def gpus(number, *bodies):
    """A node with so many GPUs and a template for one."""
    items = [(f"g{each}", "gpu", {}, 0) for each in range(number)]
    return load(
        device_class("gpu", "gpu"),
        node("n1"),
        devices("n1", *items),
        template("one", request("gpu", "gpu")),
        *bodies,
    )


STATEFUL = {"replicas": 2, "template": TEMPLATE}


@pytest.mark.parametrize(
    ("body", "gangs"),
    [
        (workload("batch/v1", "Job", **job(4)["spec"]), [("", "fits", 4, 4)]),
        (job_set(""), [("", "fits", 4, 4)]),
        (job_set("InOrder"), [(", driver", "fits", 1, 1), (", workers", "fits", 3, 3)]),
        (leader_worker_set(), [(", replica 0", "fits", 3, 3), (", replica 1", "waits", 1, 3)]),
        (leader_worker_set(PLAIN), [(", replica 0", "fits", 3, 3), (", replica 1", "fits", 3, 3)]),
        (
            leader_worker_set(policy="LeaderReady"),
            [
                (", replica 0, leader", "fits", 1, 1),
                (", replica 1, leader", "fits", 1, 1),
                (", replica 0, worker", "fits", 2, 2),
                (", replica 1, worker", "waits", 0, 2),
            ],
        ),
        (
            workload("apps/v1", "StatefulSet", podManagementPolicy="Parallel", **STATEFUL),
            [("", "fits", 2, 2)],
        ),
        (workload("apps/v1", "StatefulSet", **STATEFUL), []),
        (workload("apps/v1", "Deployment", **STATEFUL), []),
    ],
)
def test_which_pods_of_a_workload_are_a_gang(body, gangs):
    """All of a Job, each replica of a LeaderWorkerSet, and what comes once others are ready beside those."""
    answer = gpus(4).explain_workload([body])

    title = f'{body["kind"]} "team/run"'
    found = [(each.subject.removeprefix(title), each.state, each.fitting, each.size) for each in answer.gangs]
    assert found == gangs
    assert (answer.conclusion == "yes") is all(state == "fits" for _, state, *_ in gangs)


def test_pods_of_a_workload_that_exist_are_of_their_replica():
    """Labels say which: one replica runs in part and lacks a worker, of the other nothing is there."""
    lws = leader_worker_set()
    lws["metadata"]["uid"] = "lws"
    owner = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "name": "run",
        "uid": "lws",
        "controller": True,
    }
    pods = []
    for number in range(2):
        body = pod(f"run-1-{number}", ["one"], group="", nodeName="n1")
        labels = {"group-index": "1", "worker-index": str(number)}
        body["metadata"] |= {"uid": f"u{number}", "ownerReferences": [owner]}
        body["metadata"]["labels"] = {
            f"leaderworkerset.sigs.k8s.io/{name}": text for name, text in labels.items()
        }
        pods.append(body)
    answer = gpus(3, lws, *pods).explain_workload("lws/team/run")

    first, second = answer.gangs
    assert (first.state, first.size, [each.is_bound for each in first.pods]) == ("fits", 3, [False] * 3)
    assert (second.state, [each.is_bound for each in second.pods]) == ("waits", [True, True])
    assert second.failing == "run-worker-3"


def test_a_group_and_an_annotation_come_before_the_workload():
    """Pods of a Job in a PodGroup with minCount fit if so many do, and rank with the group's other pods."""
    body = workload("batch/v1", "Job", **job(3)["spec"])
    body["spec"]["template"] = {"spec": {**TEMPLATE["spec"], "schedulingGroup": {"podGroupName": "gang"}}}
    answer = gpus(2, pod_group(2), pod("other", nodeName="n1")).explain_workload([body])

    (gang,) = answer.gangs
    assert (gang.subject, gang.state) == ('PodGroup "team/gang"', "fits")
    assert (gang.size, gang.fitting, gang.at_least) == (4, 3, 2)


def test_a_gang_that_fits_is_no_yes_where_a_quota_refuses_its_claims():
    """What the API server does not take is told, whatever room there is."""
    hard = {"gpu.deviceclass.resource.k8s.io/devices": "1"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "team"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": {}},
    }
    answer = gpus(4, quota).explain_workload([workload("batch/v1", "Job", **job(4)["spec"])])

    assert answer.gangs[0].state == "fits"
    assert answer.conclusion == "no"
    assert any(each.explanation.reason == "ClaimNotCreated" for each in answer.items)


def test_fit_places_a_gang_at_once_where_first_fit_does_not():
    """Leader and worker fit if the leader goes to the second node, where it does not go by itself."""
    objects = [
        device_class("gpu", "gpu"),
        *(node(name) for name in ("n1", "n2")),
        devices("n1", *((f"g{number}", "gpu", {}, 0) for number in range(4))),
        devices("n2", *((f"g{number}", "gpu", {}, 0) for number in range(2))),
        template("two", request("gpu", "gpu", 2)),
        template("four", request("gpu", "gpu", 4)),
        pod_group(2),
    ]
    pods = [pod("leader", ["two"]), pod("worker", ["four"])]
    answer = load(*objects).fit(pods)

    assert (answer.fits, answer.fitting, answer.reason) == (True, 2, "")
    assert [each.node for each in answer.copies] == ["n2", "n1"]
    assert (
        load(*objects).fit([pod("leader", ["two"], group=""), pod("worker", ["four"], group="")]).fitting == 1
    )


@pytest.mark.parametrize(("free", "fitting"), [(5, 4), (4, 3)])
def test_fit_keeps_a_gang_to_its_rack(free, fitting):
    """What has room one by one is no yes if the pods are to share a rack."""
    objects = [
        *racked(free),
        template("one", request("gpu", "gpu")),
        template("two", request("gpu", "gpu", 2)),
    ]
    pods = [pod("a", ["two"]), *(pod(f"b-{number}", ["one"]) for number in range(3))]
    answer = load(*objects).fit([pod_group(**in_racks()), *pods])

    assert (answer.asked, answer.fitting, answer.fits) == (4, fitting, fitting == 4)
    assert answer.failing == ("" if answer.fits else 'Pod "team/b-2"')


@pytest.mark.parametrize(
    ("body", "more", "pods"), [(job_set("InOrder"), 2, 4), (leader_worker_set(PLAIN), 5, 3)]
)
def test_headroom_counts_whole_gangs(body, more, pods):
    """Eleven GPUs are two JobSets of four pods, or five replicas of a leader without and two workers with one each."""
    answer = gpus(11).headroom([body])

    assert (answer.more, answer.pods, answer.is_capped) == (more, pods, False)
    assert sum(each.copies for each in answer.nodes) == more * pods
    assert answer.reason == "DeviceInUse"


def test_notes_tell_of_gangs_that_do_not_fit_or_are_not_found():
    """They are told of pods and of workloads; one that fits and is found is not worth a line."""
    *_, found = find_gang_notes(deadlock())
    (waits,) = find_gang_notes(gpus(3, workload("batch/v1", "Job", **job(4)["spec"])))

    assert found.startswith('PodGroup "team/gang": 2 of 2 pods fit together: kube-scheduler')
    assert waits.startswith('Job "team/run": 3 of 4 pods fit together, and it does not: run-3 does not fit')
    assert not [*find_gang_notes(gpus(4, workload("batch/v1", "Job", **job(4)["spec"])))]


def held(name, device):
    """A claim that has a device of the first node."""
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": device}
    body = template(name, request("gpu", "gpu"))
    status = {"allocation": {"devices": {"results": [result]}}}
    return {**body, "kind": "ResourceClaim", "spec": body["spec"]["spec"], "status": status}


def test_the_end_of_a_claim_is_a_change_with_which_a_gang_fits():
    """Of three pods two fit, as a claim has the third device."""
    job_of_three = workload("batch/v1", "Job", **job(3)["spec"])
    (gang,) = gpus(3, held("old", "g0")).explain_workload([job_of_three]).gangs

    assert "for run-2, claim old ended" in [each.text for each in gang.changes]
    assert gang.searched == ""


@pytest.mark.parametrize("number", [2, 3])
def test_an_edit_of_what_each_pod_asks_for_is_a_change_of_the_gang(number):
    """A node of three devices has one pod of two; if each asks for one, there is room for more pods than nodes."""
    bodies = [device_class("gpu", "gpu"), template("two", request("gpu", "gpu", 2))]
    for name in ("n1", "n2")[: number - 1]:
        bodies += [node(name), devices(name, *((f"g{each}", "gpu", {}, 0) for each in range(3)))]
    answer = explain_gang(
        load(*bodies, pod_group(), *(pod(f"p{each}", ["two"]) for each in range(number + 1))), GROUP
    )

    texts = [each.text for each in answer.changes]
    assert "for each such pod, request gpu asked for 1 device" in texts
    assert (answer.state, answer.fitting) == ("waits", number - 1)


def test_another_rack_is_told_where_those_that_run_keep_the_others_from_it():
    """One pod runs in a full rack, and the others would fit in the next."""
    items = [("g0", "gpu", {}, 0), ("g1", "gpu", {}, 0)]
    bodies = [node("a", "r1"), node("b", "r2"), devices("b", *items), device_class("gpu", "gpu")]
    pods = [pod("p0", nodeName="a"), pod("p1", ["one"]), pod("p2", ["one"])]
    answer = explain_gang(
        load(*bodies, template("one", request("gpu", "gpu")), pod_group(**in_racks()), *pods), GROUP
    )

    assert (answer.state, answer.fitting) == ("waits", 1)
    assert f"those that run were elsewhere: the others fit with {RACK} r2" in [
        each.text for each in answer.changes
    ]
