"""`dra-operator simulate`, as docs/cli.md lays it down: what it decides and prints."""

import json

import pytest
import yaml
from click.testing import CliRunner

import factories
from dra_operator.cli.kubectl.tables import Style
from dra_operator.cli.simulate import app
from dra_operator.cli.simulate import table as printed
from dra_operator.pods.objects import Manifest, Place
from dra_operator.questions.allocate import decide_all
from dra_operator.questions.cluster import Cluster
from dra_operator.questions.load import gather
from factories import manifest
from simulation import CLASS, claim, devices, holding, node, states, table


def test_claims_go_by_age_then_namespace_then_name(simulate):
    """The oldest first; a claim without a time is created now."""
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    result = simulate(
        CLASS,
        node("node-1"),
        devices("a", "b", "c"),
        claim("a-now"),
        claim("b-new", creationTimestamp=new, namespace="a"),
        claim("c-old", creationTimestamp=old, namespace="b"),
        claim("d-old", creationTimestamp=old, namespace="a"),
    )

    assert {row[0]: row[3].rpartition("/")[2] for row in table(result) if row[1] == "allocated"} == {
        "a/d-old": "a",
        "b/c-old": "b",
        "a/b-new": "c",
    }
    assert states(result)["default/a-now"] == "pending"


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"labels": {"dra-operator.io/allocate": "false"}}, 'label dra-operator.io/allocate is "false"'),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "it is being deleted"),
    ],
    ids=["opted out", "being deleted"],
)
def test_claims_the_operator_leaves_alone_get_nothing(simulate, metadata, why):
    """They are no unsatisfied request either."""
    result = simulate(CLASS, node("node-1"), devices("a"), claim("one", **metadata))

    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split(None, 1)[1].split() == ["left", "alone", "-", *why.split()]


@pytest.mark.parametrize("value", ["False", "no", ""])
def test_a_label_that_nobody_understands_is_told(simulate, value):
    """It does not keep the operator away, as is said of claims and templates; not of each claim made of a template."""
    labels = {"dra-operator.io/allocate": value}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    spec = {**claim("one")["spec"]}
    template = manifest("ResourceClaimTemplate", "t")
    result = simulate(
        CLASS,
        devices("a"),
        claim("one", labels=labels),
        {**template, "spec": {"metadata": {"labels": labels}, "spec": spec}},
        claim("two", labels={"dra-operator.io/allocate": "true"}),
        claim("their", labels=labels, ownerReferences=[owner]),
    )

    assert states(result)["default/one"] == "allocated"
    for name in ('ResourceClaim "default/one"', 'ResourceClaimTemplate "default/t"'):
        told = f'note: {name}: label dra-operator.io/allocate is "{value}", neither "false" nor "true": '
        assert told in result.stderr
    assert result.stderr.count("dra-operator.io/allocate") == 2


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "kind: List\nitems: []\n"])
def test_what_holds_no_object_is_a_mistake(tmp_path, content):
    """As for kubectl: whoever pipes nothing into it would otherwise read that all is well."""
    (tmp_path / "a.yaml").write_text(content)

    result = CliRunner().invoke(app, [str(tmp_path)])

    assert (result.exit_code, result.stderr) == (2, "error: there is no object in what is given\n")


def test_nothing_in_a_file_is_obeyed_by_a_terminal(simulate):
    """Names of a file that no API server has seen may hold orders to it, and ends of lines."""
    evil, harmless = "\x1b[31m\n\u202e", r"\x1b[31m\n\u202e"
    result = simulate(
        CLASS, node("node-1"), devices("a" + evil), claim("one" + evil, uid="1"), claim("two" + evil)
    )
    stored = node("node-1" + evil)
    stored["metadata"]["uid"] = "1"
    given = simulate(stored, options=["--node", "node-2"])

    assert evil not in result.output + given.output
    assert f"default/one{harmless}  pending" in result.stdout
    assert f'ResourceClaim "default/two{harmless}": metadata.name: ' in result.stderr
    assert f"there is node-1{harmless}" in given.stderr


class TestNodes:
    """Which nodes claims may go to."""

    def test_without_any_name_one_is_made_up(self, simulate):
        """Devices of the network can be tried without a node."""
        result = simulate(CLASS, devices("a", allNodes=True), claim("one"))

        assert result.stdout.splitlines()[1].split() == [
            "default/one",
            "allocated",
            "every",
            "node",
            "gpu:",
            "gpu.example.com/node-1/a",
        ]
        assert "note: no Node is given: node-1 assumed" in result.stderr

    def test_with_nodes_only_those_count(self, simulate):
        """A slice of a node that is not there is of no use, and it is said."""
        result = simulate(CLASS, node("node-1"), devices("a", on="node-2"), claim("one"))

        assert states(result) == {"default/one": "pending"}
        assert "note: slices name nodes that are not given: node-2" in result.stderr

    @pytest.mark.parametrize(
        ("selector", "why"),
        [
            ({"driver": "gpu.exmaple.com"}, "no published device is of driver gpu.exmaple.com"),
            (
                {"driver": "gpu.example.com", "pool": "node-1", "device": "c"},
                "no published device is of driver gpu.example.com, pool node-1, device c",
            ),
            (None, "it has no deviceSelector; {} selects all devices"),
            ({"device": "b"}, ""),
            ({}, ""),
        ],
        ids=["driver", "device", "no selector", "a device", "all devices"],
    )
    def test_a_taint_rule_that_names_no_device_is_told(self, simulate, selector, why):
        """In a cluster nobody says so, and the devices it was meant for are given away."""
        taint = {"key": "broken", "effect": "NoSchedule"}
        spec = {"taint": taint} if selector is None else {"taint": taint, "deviceSelector": selector}
        rule = factories.manifest("DeviceTaintRule", "drain", spec, version="v1beta2")
        result = simulate(CLASS, devices("a", "b"), rule, claim("one"))

        notes = [line for line in result.stderr.splitlines() if "drain" in line]
        assert notes == ([f'note: DeviceTaintRule "drain": taints nothing: {why}'] if why else [])

    def test_node_restricts_the_nodes(self, simulate):
        """Only that node may be chosen, and the others' devices are told as out of reach."""
        nodes = (node("node-1"), node("node-2"))
        result = simulate(
            CLASS,
            *nodes,
            devices("a"),
            devices("b", on="node-2"),
            claim("one"),
            claim("two"),
            options=["--node", "node-2"],
        )

        assert table(result)[0][2:] == ["node-2", "gpu: gpu.example.com/node-2/b"]
        assert "1 on nodes that cannot be used (node node-1 left out by --node on 1)" in table(result)[1][3]
        assert "note: only node-2 may be chosen; other nodes count as unusable" in result.stderr

    def test_without_slices_it_is_told_where_they_are(self, simulate):
        """Most files with claims have none; a cluster that has none is another matter."""
        note = "note: no ResourceSlice is given: add what `kubectl get deviceclasses,resourceslices -o yaml` prints\n"

        assert note in simulate(claim("one")).stderr
        assert note not in simulate(CLASS, devices("a"), claim("one")).stderr
        assert note not in simulate(claim("one", uid="u")).stderr
        assert note not in simulate(CLASS).stderr
        there = devices("a")
        refused = {**there, "spec": {**there["spec"], "driver": 5}}
        assert note not in simulate(CLASS, refused, claim("one")).stderr

    def test_an_unknown_node_is_wrong_usage(self, simulate):
        """It is named, and so are those that are there."""
        result = simulate(CLASS, node("node-1"), devices("a"), claim("one"), options=["--node", "nod-1"])

        assert result.exit_code == 2
        assert "error: --node: there is no node nod-1; there is node-1" in result.stderr


class TestOutput:
    """The claims as kubectl prints them."""

    @pytest.mark.parametrize("form", ["yaml", "json"])
    def test_both_forms_say_the_same(self, simulate, form):
        """A List, with the allocation in the status and the finalizer that goes with it."""
        result = simulate(CLASS, node("node-1"), devices("a"), claim("one"), options=["-o", form])

        answer = yaml.safe_load(result.stdout) if form == "yaml" else json.loads(result.stdout)
        assert {name: answer[name] for name in ("apiVersion", "kind", "metadata")} == {
            "apiVersion": "v1",
            "kind": "List",
            "metadata": {"resourceVersion": ""},
        }
        (item,) = answer["items"]
        assert item["metadata"] == {
            "name": "one",
            "namespace": "default",
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        }
        assert item["spec"]["devices"]["requests"][0]["exactly"] == {
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
        }
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]
        assert item["status"]["allocation"] == {
            "devices": {
                "results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "a"}]
            },
            "nodeSelector": {"nodeSelectorTerms": terms},
        }

    def test_what_comes_out_can_go_in(self, simulate):
        """The claims of one run are held in the next, with the devices they got."""
        first = simulate(CLASS, node("node-1"), devices("a"), claim("one"), options=["-o", "yaml"])

        (item,) = yaml.safe_load(first.stdout)["items"]
        second = simulate(CLASS, node("node-1"), devices("a"), item, claim("two"))

        assert states(second) == {"default/one": "held", "default/two": "pending"}


class TestNotes:
    """What is worth knowing about the objects themselves."""

    def test_more_that_is_allocated_than_published_is_told(self, simulate):
        """With the slice, the amounts, the claims, and what to do."""
        pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
        counters, parts = devices(), devices("a", "b")
        counters["metadata"]["name"] = "counters"
        counters["spec"] |= {
            "pool": pool,
            "sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "3"}}}],
        }
        parts["spec"]["pool"] = pool
        for device in parts["spec"]["devices"]:
            device["consumesCounters"] = [{"counterSet": "gpu", "counters": {"memory": {"value": "2"}}}]

        result = simulate(CLASS, counters, parts, holding("a"), holding("b", namespace="other"))

        assert (
            'note: ResourceSlice "counters": counter gpu/memory of pool gpu.example.com/node-1 on node node-1: '
            "3 published, 4 allocated, to default/holder (2), other/holder (2); "
            "delete claims until the others fit, or have the driver publish more\n"
        ) in result.stderr

    def test_a_slice_that_the_api_server_refuses_is_an_error(self, simulate):
        """It is told, and nothing is allocated from it."""
        result = simulate(CLASS, node("node-1"), devices("a", "B", "a"), claim("one"))

        assert result.exit_code == 2
        refused = 'ResourceSlice "slice-node-1": spec.devices'
        assert f'{refused}[1].name: "B" is no name of a device: ' in result.stderr
        assert f'{refused}[2].name: "a" is the name of two devices of this slice: ' in result.stderr
        assert states(result) == {"default/one": "pending"}


def test_a_terminal_gets_a_table_in_which_nothing_is_cut():
    """The terminal wraps what is long."""
    bodies = (CLASS, devices("a"), claim("one", 2))
    gathered = gather(Manifest(Place("f", number, 1), body) for number, body in enumerate(bodies))

    cluster = Cluster(gathered)
    outcomes = decide_all(cluster).outcomes

    assert "NotEnoughDevices: request gpu: 1 device published" in printed(outcomes, Style(colours=True))


@pytest.mark.parametrize(("version", "state"), [("", "pending"), ("1.37", "pending"), ("1.38", "allocated")])
def test_the_version_of_kubernetes_decides(tmp_path, version, state):
    """A capacity with its driver's domain is the one without from 1.38 on."""
    given = [
        CLASS,
        node("node-1"),
        factories.resource_slice("s", [{"name": "a", "capacity": {"memory": {"value": "8"}}}], pool="node-1"),
        factories.claim("c", factories.request(capacity={"requests": {"gpu.example.com/memory": "8"}})),
    ]
    file = tmp_path / "given.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": given}))

    options = ["--kubernetes", version] if version else []
    result = CliRunner().invoke(app, ["-f", str(file), *options])

    assert states(result) == {"default/c": state}, result.output
