"""Claims that kube-scheduler makes for extended resources, made and decided by `simulate`."""

import json

import pytest

from factories import manifest
from simulation import devices

GPU = "example.com/gpu"
BY_CLASS = "deviceclass.resource.kubernetes.io/gpu"
CLASS = manifest("DeviceClass", "gpu", {"extendedResourceName": GPU})


def node(name, **allocatable):
    """A node; `plugin` is what a device plugin on it serves."""
    return manifest("Node", name, status={"allocatable": {GPU: allocatable["plugin"]} if allocatable else {}})


def pod(*, status=None, name="train", uid="", resources=None, **spec):
    """A pod, of which one container asks for a GPU."""
    containers = [{"name": "main", "resources": {"limits": {GPU: "1"} if resources is None else resources}}]
    metadata = {"uid": uid} if uid else {}
    return manifest("Pod", name, {"containers": containers, **spec}, status=status or {}, **metadata)


@pytest.fixture
def simulate(simulate):
    """Return a function that simulates some objects: exit code, rows of special claims, notes."""

    def run(*bodies, options=()):
        result = simulate(*bodies, options=["-o", "json", *options])
        assert result.exit_code in (0, 1), result.output
        return result.exit_code, Claims(json.loads(result.stdout)["items"]), result.stderr

    return run


class Claims(dict):
    """What each special claim comes to, by pod: its devices, or why it waits."""

    def __init__(self, items):
        super().__init__()
        self.items_by_pod = {}
        for item in items:
            prefix = item["metadata"].get("generateName", "")
            if not prefix.endswith("-extended-resources-"):
                continue
            name = prefix.removesuffix("-extended-resources-")
            self.items_by_pod[name] = item
            if "status" in item:
                results = item["status"]["allocation"]["devices"]["results"]
                self[name] = [f"{result['pool']}/{result['device']}" for result in results]
            else:
                self[name] = item["metadata"]["annotations"]["dra-operator.io/pending"]


@pytest.mark.parametrize("resource", [GPU, BY_CLASS])
def test_a_pod_gets_what_the_class_serves(simulate, resource):
    """By the name in the class, and by the name that every class has."""
    code, claims, _ = simulate(CLASS, devices("a", "b"), pod(resources={"cpu": "1", resource: "2"}))

    assert (code, claims) == (0, {"train": ["node-1/a", "node-1/b"]})


def test_the_claim_is_the_scheduler_s(simulate):
    """Owner, annotation, name and request are as in a cluster."""
    _, claims, _ = simulate(CLASS, devices("a"), pod(uid="uid-1", resources={"cpu": "1", GPU: "1"}))

    found = claims.items_by_pod["train"]
    assert found["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert found["metadata"]["generateName"] == "train-extended-resources-"
    assert found["metadata"]["name"].startswith("train-extended-resources-")
    assert found["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "uid-1", "controller": True}
    ]
    assert found["spec"]["devices"]["requests"] == [
        {
            "name": "container-0-request-1",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        }
    ]


def test_a_pod_that_finds_no_device_waits_with_the_reason(simulate):
    """As any other claim does."""
    code, claims, _ = simulate(CLASS, devices("a"), pod(resources={GPU: "2"}))

    assert code == 1
    assert claims["train"].startswith("request container-0-request-0: 1 device published, 1 in class gpu")


class TestDevicePlugins:
    """Nodes where a device plugin serves the resource."""

    def test_they_need_no_claim(self, simulate):
        """If there are no others, none is made, and a note says why."""
        code, claims, notes = simulate(CLASS, node("node-1", plugin="2"), pod())

        assert (code, claims) == (0, {})
        assert (
            'note: Pod "default/train": device plugins serve it on node-1; it needs no claim there' in notes
        )

    def test_the_claim_goes_to_a_node_without(self, simulate):
        """Devices beside a plugin are left alone, which has too few itself."""
        nodes, asked = (node("node-1", plugin="1"), node("node-2")), {GPU: "2"}

        _, claims, _ = simulate(
            CLASS, *nodes, devices("a", "b"), devices("c", "d", on="node-2"), pod(resources=asked)
        )

        assert claims == {"train": ["node-2/c", "node-2/d"]}

    def test_a_plugin_without_devices_serves_nothing(self, simulate):
        """Zero counts as absent."""
        _, claims, _ = simulate(CLASS, node("node-1", plugin="0"), devices("a"), pod())

        assert claims == {"train": ["node-1/a"]}


class TestNoClaim:
    """Pods for which none is made."""

    @pytest.mark.parametrize(
        "body",
        [
            pod(resources={"cpu": "1", "vendor.example.com/other": "0"}),
            pod(resources={GPU: "0"}),
            pod(nodeName="node-1"),
            pod(status={"phase": "Succeeded"}),
            pod(status={"extendedResourceClaimStatus": {"resourceClaimName": "made"}}),
        ],
        ids=["none of another resource", "none of it", "bound", "finished", "has one"],
    )
    def test_a_pod_that_needs_none_gets_none(self, simulate, body):
        """And nothing is said about it."""
        code, claims, notes = simulate(CLASS, devices("a"), body)

        assert (code, claims) == (0, {})
        assert "train" not in notes

    def test_a_class_that_is_not_there_is_told(self, simulate):
        """The name says which class is meant."""
        code, claims, notes = simulate(devices("a"), pod(resources={BY_CLASS: "1"}))

        assert (code, claims) == (1, {})
        assert f'Pod "default/train": {BY_CLASS}: there is no DeviceClass "gpu"' in notes

    @pytest.mark.parametrize("amount", ["1.5", "-1", "500m"])
    def test_a_part_of_a_device_is_told(self, simulate, amount):
        """The API server refuses the pod; no device plugin serves it."""
        code, claims, notes = simulate(CLASS, devices("a"), pod(resources={GPU: amount}))

        assert (code, claims) == (1, {})
        assert f'Pod "default/train": {GPU}: {amount} is no number of devices: write a whole number' in notes

    def test_a_resource_that_nobody_has_is_told(self, simulate):
        """A pod needs all it asks for on one node."""
        code, claims, notes = simulate(
            CLASS, devices("a"), pod(resources={GPU: "1", "example.com/rare": "1"})
        )

        assert (code, claims) == (1, {})
        assert 'Pod "default/train": no DeviceClass and no node has example.com/rare' in notes


class TestNobodyProvides:
    """Pods that ask for an extended resource which no class provides."""

    MISSPELT = "example.com/gpus"

    def test_without_nodes_it_is_noted(self, simulate):
        """A device plugin may provide it; the name of a class that is close is proposed."""
        code, claims, notes = simulate(CLASS, devices("a"), pod(resources={self.MISSPELT: "1"}))

        assert (code, claims) == (0, {})
        assert (
            f'Pod "default/train": no DeviceClass has {self.MISSPELT}, and no Node is given that could; '
            f'did you mean "{GPU}"?'
        ) in notes

    def test_where_no_node_has_it_either_the_pod_cannot_run(self, simulate):
        """That is an answer, as a claim that waits is: exit code 1."""
        code, claims, notes = simulate(
            CLASS, node("node-1"), devices("a"), pod(resources={self.MISSPELT: "1"})
        )

        assert (code, claims) == (1, {})
        assert f'Pod "default/train": no DeviceClass and no node has {self.MISSPELT}; did you mean' in notes

    def test_without_any_claim_it_is_said_as_well(self, simulate):
        """Nothing else is in the file."""
        code, claims, notes = simulate(node("node-1"), pod(resources={"example.com/fpga": "1"}))

        assert (code, claims) == (1, {})
        assert 'Pod "default/train": no DeviceClass and no node has example.com/fpga\n' in notes

    @pytest.mark.parametrize("field", ["allocatable", "capacity"])
    def test_what_a_device_plugin_provides_is_no_news(self, simulate, field):
        """On one node, in what it has or in what it offers."""
        nodes = node("node-1"), {**node("node-2"), "status": {field: {"example.com/fpga": "0"}}}

        code, claims, notes = simulate(*nodes, pod(resources={"example.com/fpga": "1"}))

        assert (code, claims) == (0, {})
        assert "train" not in notes

    def test_pods_that_ask_for_the_same_have_one_line(self, simulate):
        """A workload may have thousands."""
        pods = [pod(name=f"train-{number}", resources={"example.com/fpga": "1"}) for number in range(3)]
        alone = pod(name="other", resources={"example.com/rare": "1"})

        _, _, notes = simulate(node("node-1"), *pods, alone)

        assert 'Pod "default/train-0" and 2 more: no DeviceClass and no node has example.com/fpga' in notes
        assert 'Pod "default/other": no DeviceClass and no node has example.com/rare' in notes

    def test_others_are_decided_as_before(self, simulate):
        """Partitions that containers and init containers share, and a class without devices."""
        whole = {"metadata": {"name": "whole"}, "spec": {"extendedResourceName": "example.com/whole"}}
        whole["spec"]["selectors"] = [
            {"cel": {"expression": 'device.attributes["gpu.example.com"].?type.orValue("") == "whole"'}}
        ]
        first = pod(name="first", initContainers=[{"name": "init", "resources": {"limits": {GPU: "1"}}}])
        second = pod(name="second", resources={"example.com/whole": "1"})
        third = pod(name="third", resources={"example.com/fpga": "1"})

        code, claims, notes = simulate(CLASS, {**CLASS, **whole}, devices("a", "b"), first, second, third)

        assert code == 1
        assert claims["first"] == ["node-1/a"]
        assert "0 in class whole" in claims["second"]
        assert 'Pod "default/third": no DeviceClass has example.com/fpga' in notes
