"""The claims of a pod are decided together on one node, as kube-scheduler does it; `simulate` is asked from outside."""

import pytest
import yaml
from click.testing import CliRunner

from dra_operator.cli.simulate import app
from factories import manifest, request
from simulation import CLASS, claim, devices, holding, node, table

NODES = node("node-1"), node("node-2")


def template(name, device_class="gpu", **exactly):
    """A template for claims on devices of the class."""
    spec = {"devices": {"requests": [request("gpu", device_class, **exactly)]}}
    return manifest("ResourceClaimTemplate", name, {"spec": spec})


def pod(name, *, templates=(), names=(), **metadata):
    """A pod with claims of templates, and claims that it names."""
    entries = [{"name": item, "resourceClaimTemplateName": item} for item in templates]
    entries += [{"name": item, "resourceClaimName": item} for item in names]
    return manifest("Pod", name, {"containers": [{"name": "main"}], "resourceClaims": entries}, **metadata)


ALL, ONE = template("all", allocationMode="All"), template("one")


@pytest.fixture
def simulate(tmp_path):
    """Return a function that simulates some objects and returns the exit code, and the rows by claim."""

    def run(*bodies):
        file = tmp_path / "state.yaml"
        file.write_text(yaml.safe_dump_all([CLASS, *bodies]))
        result = CliRunner().invoke(app, ["-f", str(file)])
        return result.exit_code, {row[0].removeprefix("default/"): row[1:] for row in table(result)}

    return run


def found(rows, begins):
    """Return the row of the claim whose name begins so."""
    (row,) = [row for name, row in rows.items() if name.startswith(begins)]
    return row


def test_a_pod_that_wants_all_devices_of_a_node_and_one_more_waits(simulate):
    """There is a node for each of its claims, but none for both."""
    slices = devices("a", "b"), devices("a", "b", on="node-2")
    code, rows = simulate(*NODES, *slices, ALL, ONE, pod("job", templates=("all", "one")))

    assert (code, len(rows)) == (1, 2)
    (text,) = {row[2] for row in rows.values()}
    assert text == (
        "ClaimsDoNotFitTogether: each claim fits alone (all on node-1, one on node-1), but no node that suits the pod "
        "has room for all of them: each request fits alone (gpu of all on node-1, gpu of one on node-1), but no node "
        "has room for all of them; it would not fit even if no device were in use or tainted"
    )


def test_a_claim_that_is_allocated_keeps_the_others_from_other_nodes(simulate):
    """What is free elsewhere is of no use to the pod."""
    slices = devices("a"), devices("a", on="node-2")
    code, rows = simulate(
        *NODES, *slices, holding("a"), ONE, pod("job", templates=("one",), names=("holder",))
    )

    assert code == 1
    state, where, text = found(rows, "job-one-")
    assert (state, where) == ("pending", "-")
    assert text == (
        "DeviceInUse: request gpu: 2 devices published, 2 in class gpu, 1 on nodes that cannot be used (node node-2 "
        'not where claim "holder" is allocated on 1), 1 in use by 1 claim (holder)'
    )


def test_a_claim_that_fits_waits_for_one_that_does_not(simulate):
    """It has the reason of the other, and names it."""
    body = pod("job", templates=("one",), names=("many",))
    code, rows = simulate(*NODES, devices("a", "b"), ONE, claim("many", 3), body)

    assert code == 1
    assert rows["many"][2].startswith("NotEnoughDevices: request gpu: 2 devices published")
    assert found(rows, "job-one-")[2] == 'NotEnoughDevices: claim "many" of the same pod waits'


def test_a_shared_claim_is_decided_with_the_first_pod_that_uses_it(simulate):
    """The claims of the second one follow it."""
    slices = devices("a"), devices("a", "b", "c", on="node-2")
    pods = [pod(name, templates=("one",), names=("shared",)) for name in ("first", "second")]
    code, rows = simulate(*NODES, *slices, ONE, claim("shared"), *pods)

    assert code == 0
    assert {row[1] for row in rows.values()} == {"node-2"}


def test_older_pods_and_claims_come_first(simulate):
    """A pod comes with the oldest of its claims, and a claim without a pod where it always came."""
    made = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    pods = pod("late", templates=("one",)), pod("early", templates=("one",), **made)
    code, rows = simulate(NODES[0], devices("a", "b"), ONE, claim("alone"), *pods)

    assert code == 1
    assert found(rows, "early-one-")[2] == "gpu: gpu.example.com/node-1/a"
    assert rows["alone"][2] == "gpu: gpu.example.com/node-1/b"
    assert found(rows, "late-one-")[0] == "pending"


def test_a_class_that_one_claim_lacks_is_told_on_that_claim(simulate):
    """The others name it."""
    code, rows = simulate(
        *NODES,
        devices("a"),
        ONE,
        template("odd", "absent"),
        pod("job", templates=("one", "odd")),
    )

    assert code == 1
    assert found(rows, "job-odd-")[2].startswith("ClassNotFound: ")
    assert found(rows, "job-one-")[2].startswith('ClassNotFound: claim "odd" of the same pod waits')


def test_a_pod_of_a_daemon_set_gets_all_of_its_claims_or_none(simulate):
    """On its node."""
    body = manifest("DaemonSet", "watch", {"template": {"spec": pod("x", templates=("one", "all"))["spec"]}})
    code, rows = simulate(*NODES, devices("a"), devices("a", on="node-2"), ALL, ONE, body)

    assert (code, {row[0] for row in rows.values()}, len(rows)) == (1, {"pending"}, 4)
    assert "each claim fits alone" in found(rows, "watch-node-2-all-")[2]
