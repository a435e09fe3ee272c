"""The pods of DaemonSets, and the claims of these pods."""

import pytest

from simulation import CLASS, claim, devices, node, states, table

from .test_workloads import POD_SPEC, TEMPLATE, workload


def daemons(**pod):
    """A DaemonSet whose pods want a GPU each."""
    return workload("DaemonSet", name="watch", pod={**POD_SPEC, **pod})


def labelled(name, spec=None, **labels):
    """A node with labels."""
    body = node(name, **(spec or {}))
    body["metadata"]["labels"] = labels
    return body


def claims(result):
    """Return what became of the claim of the pod on each node."""
    return {row[0].removeprefix("default/watch-").partition("-gpu-")[0]: row[1:3] for row in table(result)}


def test_each_node_has_a_pod_whose_claim_is_for_that_node(simulate):
    """A device of another node is of no use to it, however many there are."""
    result = simulate(CLASS, node("a"), node("b"), node("c"), devices("x", "z", on="b"), TEMPLATE, daemons())

    assert claims(result) == {"a": ["pending", "-"], "b": ["allocated", "b"], "c": ["pending", "-"]}
    assert table(result)[0][3].endswith("it fits on node b, but the pod can only run on a")
    assert "ignored" not in result.stderr


def test_without_nodes_those_that_are_assumed_have_pods(simulate):
    """As for other pods."""
    result = simulate(CLASS, devices("x", on="b"), TEMPLATE, daemons())

    assert claims(result) == {"b": ["allocated", "b"]}
    assert "note: no Node is given: b assumed" in result.stderr


TAINT = {"taints": [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
        }
    }
}


@pytest.mark.parametrize(
    ("other", "pod", "has_pod"),
    [
        (labelled("b"), {}, True),
        (labelled("b"), {"nodeSelector": {"gpu": "yes"}}, False),
        (labelled("b", gpu="yes"), {"nodeSelector": {"gpu": "yes"}}, True),
        (labelled("b"), {"affinity": AFFINITY}, False),
        (labelled("b", gpu="yes"), {"affinity": AFFINITY}, True),
        (labelled("b", TAINT), {}, False),
        (labelled("b", TAINT), {"tolerations": [{"operator": "Exists"}]}, True),
        (labelled("b", TAINT), {"tolerations": [{"key": "gpu", "value": "a100"}]}, True),
        (labelled("b", TAINT), {"tolerations": [{"key": "gpu", "value": "h100"}]}, False),
        (labelled("b", TAINT), {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}, False),
        (labelled("b", {"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}), {}, True),
        (labelled("b", {"unschedulable": True}), {}, False),
    ],
)
def test_a_node_has_a_pod_if_it_fits(simulate, other, pod, has_pod):
    """By labels and taints; not if the node cannot be used, as no claim is allocated there."""
    result = simulate(CLASS, devices("x", on="b"), TEMPLATE, other, daemons(**pod))

    assert claims(result) == ({"b": ["allocated", "b"]} if has_pod else {})


@pytest.mark.parametrize(
    ("condition", "effect", "pod", "has_pod"),
    [
        ("not-ready", "NoExecute", {}, True),
        ("not-ready", "NoSchedule", {}, False),
        ("unreachable", "NoExecute", {}, True),
        ("disk-pressure", "NoSchedule", {}, True),
        ("disk-pressure", "NoExecute", {}, False),
        ("memory-pressure", "NoSchedule", {}, True),
        ("pid-pressure", "NoSchedule", {}, True),
        ("unschedulable", "NoSchedule", {}, True),
        ("network-unavailable", "NoSchedule", {}, False),
        ("network-unavailable", "NoSchedule", {"hostNetwork": True}, True),
        ("out-of-service", "NoExecute", {}, False),
    ],
)
def test_pods_tolerate_the_taints_of_some_conditions(simulate, condition, effect, pod, has_pod):
    """Those for which the DaemonSet controller adds a toleration."""
    tainted = node("b", taints=[{"key": f"node.kubernetes.io/{condition}", "effect": effect}])
    result = simulate(CLASS, devices("x", on="b"), TEMPLATE, tainted, daemons(**pod))

    assert claims(result) == ({"b": ["allocated", "b"]} if has_pod else {})


@pytest.mark.parametrize(
    "affinity", [{"nodeSelectorTerms": 1}, {"nodeSelectorTerms": [{"matchFields": [{}]}]}, 1]
)
def test_an_affinity_that_selects_no_nodes_is_an_error(simulate, affinity):
    """The API server would refuse it."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": affinity}
    result = simulate(CLASS, devices("x"), TEMPLATE, daemons(affinity={"nodeAffinity": required}))

    assert result.exit_code == 2
    assert 'DaemonSet "watch": spec.template.spec.affinity.nodeAffinity: is no affinity that' in result.stderr


def test_what_is_no_map_or_list_is_no_reason_to_stop(simulate):
    """Of pods only what claims depend on is read."""
    body = daemons(affinity="a", nodeSelector=[1], tolerations={"a": 1})
    result = simulate(CLASS, devices("x"), TEMPLATE, labelled("node-1", {"taints": "b"}), body)

    assert claims(result) == {"node-1": ["allocated", "node-1"]}


def test_a_claim_that_was_allocated_stays_as_it_is(simulate, tmp_path):
    """What simulate prints can be given to it again."""
    given = (CLASS, devices("x"), TEMPLATE, daemons())
    (tmp_path / "again.yaml").write_text(simulate(*given, options=["-o", "yaml"]).stdout)

    assert claims(simulate(*given, options=["-f", str(tmp_path / "again.yaml")])) == {
        "node-1": ["held", "node-1"]
    }


def test_a_claim_that_all_pods_name_is_told_where_it_is_of_no_use(simulate):
    """It is allocated once, on one node."""
    body = daemons(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    result = simulate(CLASS, node("a"), node("b"), devices("x", on="a"), claim("shared"), body)

    assert states(result) == {"default/shared": "allocated"}
    told = [line for line in result.stderr.splitlines() if "cannot use its claims" in line]
    assert len(told) == 1
    assert (
        "pod default/watch-b cannot use its claims, which are on node a; the pod can only run on node b"
        in told[0]
    )


def test_an_extended_resource_is_for_the_node_as_well(simulate):
    """Its claim is made for the pod."""
    by_name = {**CLASS, "spec": {**CLASS["spec"], "extendedResourceName": "example.com/gpu"}}
    containers = [{"name": "main", "resources": {"limits": {"example.com/gpu": 1}}}]
    body = daemons(resourceClaims=[], containers=containers)
    result = simulate(by_name, node("a"), node("b"), devices("x", "z", on="b"), body)

    assert [row[1:3] for row in table(result)] == [["pending", "-"], ["allocated", "b"]]
