"""What the verbs print, on a cluster in memory: codes, names, documents, and what is said of wrong input."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from answer_schema import schema_text
from cluster import allocation, claim, pod, resource_slice
from dra_operator.cli.kubectl.commands import VERBS, app
from factories import taint_rule

HEAVY = {"aiohttp", "kopf", "kubernetes", "rich", "structlog", "prometheus_client"}


@pytest.fixture
async def used(cluster):
    """A claim that a pod uses, and one that waits."""
    holder = claim("holder", labels={"team": "a"}) | {"status": {"allocation": allocation()}}
    user = pod("user", uses="holder", nodeName="node-1")
    cluster.put(holder, user, claim("waiting", request={"count": 9}))
    return cluster


@pytest.mark.parametrize(
    ("line", "code", "printed"),
    [
        (
            "claims -o name",
            0,
            "resourceclaim.resource.k8s.io/holder\nresourceclaim.resource.k8s.io/waiting\n",
        ),
        ("claims -l team=a -o name", 0, "resourceclaim.resource.k8s.io/holder\n"),
        ("claims -l team!=a -o name", 0, "resourceclaim.resource.k8s.io/waiting\n"),
        ("devices --state used -o name", 0, "device/gpu.example.com/pool-1/gpu-0\n"),
        ("devices pool-1/gpu-1 -o name", 0, "device/gpu.example.com/pool-1/gpu-1\n"),
        ("devices --node node-2 -o name", 0, "device/gpu.example.com/pool-2/gpu-0\n"),
        ("who node/node-1 -o name", 0, "resourceclaim.resource.k8s.io/holder\n"),
        ("who device/pool-1/gpu-1 -o name", 1, ""),
        ("fit class/gpu -c 2 -o name", 0, "node/node-1\nnode/node-2\n"),
        ("fit class/gpu -c 3 -o name", 1, "node/node-1\nnode/node-2\n"),
        ("fit class/gpu -c 3 --without claim/holder -o name", 0, "node/node-1\nnode/node-2\n"),
        ("explain waiting -o name", 1, "resourceclaim.resource.k8s.io/waiting\n"),
        ("explain holder -o name", 0, "resourceclaim.resource.k8s.io/holder\n"),
        ("impact node/node-1 -o name", 1, "resourceclaim.resource.k8s.io/holder\n"),
        ("impact node/node-2 -o name", 0, ""),
        ("lint -o name", 0, ""),
        ("top --by class -o name", 0, "deviceclass.resource.k8s.io/gpu\n"),
        ("top --by namespace -n default -o name", 0, "namespace/default\n"),
        ("top --by namespace -n other -o name", 0, ""),
    ],
)
async def test_code_and_names(used, dra, line, code, printed):
    """0 is yes, 1 is no; `-o name` prints what the answer is about."""
    result = await dra(*line.split())

    assert (result.exit_code, result.stdout) == (code, printed), result.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("top -n default", "all claims can be read, so -n changes nothing; --by namespace counts"),
        ("top --by namespace -n other", 'no claim of namespace "other" holds a published device'),
        ("top -l zone=none", "no devices are published on nodes with these labels"),
    ],
)
async def test_what_an_option_leaves_of_the_counts_is_said(used, dra, line, words):
    """A table that is empty, or as it was before, says why."""
    result = await dra(*line.split())

    assert words in result.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit class/gpx", 'there is no DeviceClass "gpx"'),
        ("fit class/gpu -c 0", "copies: 0 is not from 1 to 10,000"),
        ("fit class/gpu -c 1000000000", "copies: 1000000000 is not from 1 to 10,000"),
        ("fit nothing.yaml", "nothing.yaml: No such file or directory"),
        ("fit class/gpu --without pod/nobody", 'there is no Pod "nobody" in namespace "default"; -n names'),
        ("who pool/rack/pool-9", 'there is no pool "rack/pool-9"'),
        ("who pool/gpu.example.com/pool-9", 'there is no pool "pool-9"; did you mean "pool-1"?'),
        ("who node/node-9", 'there is no Node "node-9"; did you mean "node-1"?'),
        ("devices pool-9", "there is no pool or device pool-9: write POOL or POOL/DEVICE"),
        ("claims nobody", 'there is no claim nobody in namespace "default"'),
        ("claims -l =", "is no label selector"),
        ("explain nobody", 'there is no claim, pod or file "nobody"'),
        ("audit --sort Nothing", "there is no sort Nothing: there are TwoHolders"),
        ("impact node/node-9", "node-9"),
    ],
)
async def test_wrong_input_is_one_line_with_what_to_do(cluster, dra, line, words):
    """Nothing on stdout, exit code 2."""
    result = await dra(*line.split())

    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("who gpu", "names no object: write node/NAME or class/NAME or pool/NAME or device/NAME"),
        ("who device/gpu-0", "write device/POOL/gpu-0"),
        ("who device/pool-1/", "write device/POOL/NAME, or with the driver before the pool"),
        ("who pool/gpu.example.com/", "write pool/NAME, or with the driver before the pool"),
        ("claims -n a -A", "-n names one namespace, and -A all of them"),
        ("claims --request-timeout soon", "is no duration"),
        ("impact", "say what changes"),
        ("top --by rack", "'rack' is not one of"),
        ("top -A", "No such option"),
        ("impact node/node-1 -A", "No such option"),
        ("headroom class/gpu -o name", "'name' is not one of 'wide', 'json', 'yaml'"),
    ],
)
async def test_wrong_usage_ends_with_2(cluster, dra, line, words):
    """As click says it."""
    result = await dra(*line.split())

    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def with_required_options(command, *names):
    """Yield the words of each command below one that has a required option."""
    if any(isinstance(param, click.Option) and param.required for param in command.params):
        yield names
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            yield from with_required_options(command.get_command(ctx, name), *names, name)


def test_what_is_required_and_not_given_is_told():
    """Each verb that has a required option says which one is missing, and ends with 2."""
    found = [*with_required_options(app)]

    assert {("report",), ("record", "export")} <= {*found}
    for words in found:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2, words
        assert "Missing option" in result.output
        assert "defect" not in result.output


def policy(tmp_path, **entry):
    """A file with an AllocationPolicy for some devices of the driver."""
    body = {
        "apiVersion": "dra-operator.io/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "training"},
        "spec": {"devices": [{"driver": "gpu.example.com", **entry}]},
    }
    (tmp_path / "policy.json").write_text(json.dumps(body))
    return str(tmp_path / "policy.json")


async def test_impact_of_a_policy_is_that_of_its_rules(used, dra, tmp_path):
    """Before it is applied: the claims that hold the devices keep them."""
    result = await dra("impact", policy(tmp_path, pool="pool-1"))

    assert result.exit_code == 1, result.output
    assert "default/holder" in result.stdout
    assert "dra-operator.io/owned:NoSchedule" in result.stderr


async def test_policy_that_the_schema_refuses_is_named_by_file_and_field(cluster, dra, tmp_path):
    """What the API server would say of it."""
    result = await dra("impact", policy(tmp_path, node="node-1"))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "policy.json: spec.devices.0.node: " in result.stderr


async def test_audit_lists_what_owns_devices_without_a_policy(cluster, dra):
    """Rules of a policy are not among them, and nothing is wrong with it."""
    owner = {"apiVersion": "dra-operator.io/v1alpha1", "kind": "AllocationPolicy", "name": "a", "uid": "1"}
    for name, owners in (("by-hand", []), ("of-a-policy", [owner])):
        rule = taint_rule(
            name, {"driver": "gpu.example.com"}, key="dra-operator.io/owned", effect="NoSchedule"
        )
        rule["metadata"]["ownerReferences"] = owners
        cluster.put(rule)

    result = await dra("audit")

    assert "owned without an AllocationPolicy: by DeviceTaintRule by-hand\n" in result.stderr


async def test_template_that_is_malformed_is_named_by_file_and_field(cluster, dra, tmp_path):
    """The line has file, object, field and what is allowed."""
    body = claim("bad", request={"count": -1})
    (tmp_path / "bad.json").write_text(json.dumps(body))

    result = await dra("fit", str(tmp_path / "bad.json"))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "bad.json" in result.stderr
    assert "spec.devices.requests[0].exactly.count" in result.stderr


async def test_parameters_of_drivers_are_in_no_answer(cluster, dra):
    """Opaque parameters may hold what is nobody's business."""
    secret = {"opaque": {"driver": "gpu.example.com", "parameters": {"token": "hush"}}}
    body = claim("configured")
    body["spec"]["devices"]["config"] = [secret]
    cluster.put(body)

    for line in ("claims", "explain claim/configured", "fit claim/configured", "audit", "lint"):
        assert "hush" not in (await dra(*line.split(), "-o", "json")).output


def test_schema_is_published():
    """docs/kubectl-dra.schema.json is what `python -m answer_schema` prints."""
    page = Path(__file__).parents[3] / "docs" / "kubectl-dra.schema.json"

    assert page.read_text(encoding="utf-8") == schema_text()


async def test_document_has_the_fields_of_the_schema(used, dra):
    """Those of each answer, at its first level, and no others."""
    schema = json.loads(schema_text())["$defs"]
    for line in (
        "top",
        "claims",
        "devices",
        "explain waiting",
        "fit class/gpu",
        "headroom class/gpu",
        "who",
        "audit",
    ):
        answer = json.loads((await dra(*line.split(), "-o", "json")).stdout)
        assert answer.keys() <= schema[answer["kind"]]["properties"].keys()


@pytest.mark.parametrize(
    ("by", "is_summed"), [("node", True), ("pool", True), ("class", False), ("namespace", False)]
)
async def test_sum_of_rows_is_in_documents_too(used, dra, by, is_summed):
    """Of rows by which a device counts once: that of the table."""
    answer = json.loads((await dra("top", "--by", by, "-o", "json")).stdout)

    found, rows = answer.get("sum"), answer["items"]
    assert (found is not None) == is_summed
    if found is not None:
        assert found.pop("rows") == len(rows)
        assert found == {name: sum(row[name] for row in rows) for name in found}


PLUGIN = f"""
import sys
class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from dra_operator.cli.kubectl.commands import app
app(sys.argv[1:], prog_name="kubectl dra")
"""


@pytest.mark.parametrize(
    "line",
    [
        "impact -",
        "impact node/node-1",
        "who maintenance/none",
        "audit",
        "status",
        "waiting -A",
        "top --missing",
        "explain pod/train-1 -n team-a",
        "fit template/infer -n team-b",
        "headroom class/gpu.example.com",
        "lint -o sarif",
    ],
)
def test_plugin_has_all_that_it_imports(line):
    """The file that `make plugin` builds has no client, nor metrics: no verb asks for one."""
    examples = Path(__file__).parents[3] / "examples"
    # A GPU that the cluster publishes, and that is in use.
    change = (examples / "kinds" / "maintenance.yaml").read_text(encoding="utf-8").replace("node-1", "node-7")
    change = change.replace("gpu-3", "gpu-0")
    command = [sys.executable, "-c", PLUGIN, *line.split(), f"--snapshot={examples}/questions/cluster.yaml"]

    done = subprocess.run(command, input=change, capture_output=True, text=True, check=False)

    assert done.returncode in (0, 1), done.stderr
    assert "Error" not in done.stderr, done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_helps_and_imports_nothing_heavy(verb):
    """`--help` starts at once: neither a client nor the engine is imported."""
    code = (
        "import sys\nfrom dra_operator.cli.kubectl.commands import app\n"
        "try:\n    app(sys.argv[1:], prog_name='kubectl dra')\nexcept SystemExit:\n    pass\n"
        "print('modules', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, verb, "--help"], capture_output=True, text=True, check=True
    )
    shown, _, modules = done.stdout.rpartition("modules ")

    assert f"Usage: kubectl dra {verb}" in shown
    loaded = set(modules.split())
    assert not loaded & {*HEAVY, "pydantic", "yaml", "http.client", "dra_operator.questions.state"}


@pytest.mark.parametrize(
    ("verb", "typed", "names"),
    [
        ("claims", "wa", ["waiting"]),
        ("impact", "d", ["driver/"]),
        ("impact", "node/n", ["node/node-1", "node/node-2"]),
    ],
)
async def test_names_are_completed_from_the_cluster(used, dra, verb, typed, names):
    """Those of the namespace, as far as they begin so; of what can be prefixed first the prefix."""
    command = app.get_command(click.Context(app), verb)
    argument = next(each for each in command.params if isinstance(each, click.Argument))

    found = await asyncio.to_thread(argument.shell_complete, click.Context(command), typed)

    assert [item.value for item in found] == names


async def test_a_pod_with_several_claims_counts_once(used, dra):
    """However many of its claims a drain hits."""
    second = claim("second") | {"status": {"allocation": allocation(device="gpu-1")}}
    user = pod("user", uses="holder", nodeName="node-1")
    user["spec"]["resourceClaims"].append({"name": "more", "resourceClaimName": "second"})
    used.put(second, user)

    result = await dra("impact", "node/node-1")

    assert "by 2 claims and 1 pod;" in result.stderr


@pytest.mark.parametrize(
    ("subject", "held"),
    [
        ("pool/rack/switch", "1 of 2 devices"),
        ("pool/gpu.example.com/rack/switch", "1 of 2 devices"),
        ("device/rack/switch/gpu-0", "1 of 1 device"),
        ("device/gpu.example.com/rack/switch/gpu-0", "1 of 1 device"),
    ],
)
async def test_names_of_pools_may_have_slashes(used, dra, subject, held):
    """With or without the driver before them."""
    slice_ = resource_slice("gpu-0", "gpu-1", name="slice-3", pool="rack/switch")
    used.put(slice_, claim("far") | {"status": {"allocation": allocation(pool="rack/switch")}})

    result = await dra("who", subject)

    assert (result.exit_code, held in result.stderr) == (0, True), result.stderr


@pytest.mark.parametrize(
    ("kind", "spec", "asked"),
    [
        ("Deployment", {"replicas": 7}, "of 7 pods"),
        ("Job", {"parallelism": 5, "completions": 9}, "of 5 pods"),
        ("StatefulSet", {}, "of 1 pod"),
    ],
)
async def test_a_workload_is_asked_about_by_all_its_pods(used, dra, tmp_path, *, kind, spec, asked):
    """Unless the number is given."""
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod(uses="holder")["spec"]}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": "a"}}}
    body = {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "work"},
        "spec": {**spec, **selector, "template": template},
    }
    file = tmp_path / "work.json"
    file.write_text(json.dumps(body))

    assert asked in (await dra("fit", str(file))).stdout
    assert "of 2 pods" in (await dra("fit", str(file), "--copies", "2")).stdout


async def test_a_file_in_a_folder_that_is_called_like_a_kind_is_a_file(used, dra, tmp_path, monkeypatch):
    """KIND/NAME is what is no file."""
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "train.json").write_text(json.dumps(pod("train", uses="holder")))
    monkeypatch.chdir(tmp_path)

    assert 'Pod "default/train"' in (await dra("fit", "pods/train.json")).stdout
