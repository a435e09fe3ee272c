"""Files with anything in them: a template, objects that lie over the cluster's, a change. Never a traceback."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.cli.kubectl.commands import app
from factories import manifest
from small_cluster import CLASS, NODES, devices, node, pod, template

RULE = manifest(
    "DeviceTaintRule",
    "broken",
    {
        "deviceSelector": {"driver": "gpu.example.com", "pool": "n1"},
        "taint": {"key": "example.com/broken", "effect": "NoExecute"},
    },
    version="v1beta2",
)
POLICY = {
    "apiVersion": "dra-operator.io/v1alpha1",
    "kind": "AllocationPolicy",
    "metadata": {"name": "training"},
    "spec": {"devices": [{"driver": "gpu.example.com", "pool": "n1"}]},
}
DEPLOYMENT = manifest(
    "Deployment",
    "web",
    {"replicas": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}},
    namespace="team",
)
GIVEN = {
    "fit": [pod(), DEPLOYMENT, template(), CLASS],
    "explain": [pod(), template()],
    "headroom": [template()],
    "impact": [RULE, CLASS, POLICY],
    "lint": [template(), CLASS],
    "top -f": [node("n3"), devices("n3", "gpu-0"), RULE, CLASS],
}
RUBBISH = st.sampled_from(
    [None, 7, -1, 1.5, True, "", "a b", "\x00", "\u00fc", [], [7], [None], {}, {"a": 7}, {"": {}}]
)


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """A snapshot of the small cluster, and a folder for files."""
    folder = tmp_path_factory.mktemp("slips")
    file = folder / "state.json"
    items = [CLASS, *NODES, template()]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


def paths(value, path=()):
    """Yield the path of each value of an object."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def replaced(value, path, other):
    """Return an object with another value at a path."""
    if not path:
        return other
    first, *rest = path
    found = dict(value) if isinstance(value, dict) else list(value)
    found[first] = replaced(value[first], rest, other)
    return found


@pytest.mark.parametrize("command", GIVEN)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_at_any_place_is_answered_or_refused(state, command, data):
    """The code is one of three, and what is wrong is said in lines on stderr."""
    body = data.draw(st.sampled_from(GIVEN[command]))
    path = data.draw(st.sampled_from(list(paths(body))))
    file = state.with_name("given.json")
    file.write_text(json.dumps(replaced(body, path, data.draw(RUBBISH))))

    arguments = [*command.split(), str(file), "--snapshot", str(state)]
    done = CliRunner().invoke(app, arguments, prog_name="kubectl dra")

    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in (0, 1, 2)
    if done.exit_code == 2 and not done.stdout:
        assert done.stderr
