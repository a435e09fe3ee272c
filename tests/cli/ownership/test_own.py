"""`dra-operator own` and `owned` against the API server in memory."""

import asyncio
import json

import pytest
import yaml
from click.testing import CliRunner

from cluster import V1, claim, resource_slice
from dra_operator.cli.client import served_rules
from dra_operator.cli.commands import app
from dra_operator.cli.ownership.own import create_rules
from dra_operator.cluster.ownership_policy import OPERATOR, policy_for_pools
from dra_operator.kinds.selector import Selector
from dra_operator.testing.resources import serving_only
from dra_operator.testing.server import ApiServer, ServerOptions

from .owning import DRIVER, FENCE, KEY, RULES, held_claim, lines, mig_slices, rule, rules, template


class TestOwn:
    """Taking devices."""

    async def test_one_rule_for_each_pool(self, cluster, run):
        """With exactly the taint by which devices are ours."""
        result = await run("own", "--driver", DRIVER, "--pool", "pool-1", "--pool", "pool-2")

        found = await rules(cluster)
        assert result.exit_code == 0
        assert sorted(found) == [(DRIVER, "pool-1"), (DRIVER, "pool-2")]
        taint = found[DRIVER, "pool-1"]["spec"]["taint"]
        assert {name: taint[name] for name in taint if name != "timeAdded"} == {
            "key": KEY,
            "effect": "NoSchedule",
        }
        name = found[DRIVER, "pool-1"]["metadata"]["name"]
        assert name.startswith("dra-operator-owned-gpu.example.com-pool-1-")
        assert f"devicetaintrule.resource.k8s.io/{name} created\n" in result.stdout

    async def test_one_rule_for_a_driver(self, cluster, run):
        """Devices that it publishes later are ours too."""
        await run("own", "--driver", DRIVER)

        assert list(await rules(cluster)) == [(DRIVER,)]

    async def test_dry_run_writes_nothing(self, cluster, run):
        """What it prints can be applied."""
        result = await run("own", "--driver", DRIVER, "--pool", "pool-1", "--dry-run=client", "-o", "yaml")

        (body,) = yaml.safe_load_all(result.stdout)
        assert await rules(cluster) == {}
        await cluster.session.request("POST", RULES, body=body)

    async def test_claims_that_hold_devices_are_named(self, cluster, run):
        """And for whom they are reserved."""
        user = {"resource": "pods", "name": "train", "uid": "1"}
        cluster.put(held_claim("used", reservedFor=[user]), held_claim("idle", "gpu-1"))
        result = await run("own", "--driver", DRIVER, "--pool", "pool-1")

        assert result.exit_code == 0
        assert lines(result, "note") == [
            "2 of 2 devices are in use; they are ours to allocate when these claims end:",
            "  claim default/idle holds gpu.example.com/pool-1/gpu-1, reserved for nobody",
            "  claim default/used holds gpu.example.com/pool-1/gpu-0, reserved for pod train",
        ]

    async def test_requests_for_all_that_nobody_serves_are_named(self, cluster, run):
        """Where a node has devices that are ours and others."""
        cluster.put(
            claim("all", request={"allocationMode": "All"}), template("all-of-it", allocationMode="All")
        )
        result = await run("own", "--driver", DRIVER, "--pool", "pool-1", "--device", "gpu-0")

        tail = (
            "of the 2 devices on node node-1, 1 would be ours, so requests for All are served there by nobody"
        )
        assert lines(result, "warning") == [
            f"DeviceClass gpu: {tail}",
            f'ResourceClaimTemplate default/all-of-it, request "gpu": {tail}',
            f'ResourceClaim default/all, request "gpu": {tail}',
        ]

    @pytest.mark.parametrize(
        ("tolerations", "is_named"),
        [
            ([], True),
            ([{"key": KEY, "operator": "Exists", "effect": "NoExecute"}], True),
            ([{"key": KEY, "operator": "Equal", "value": "x"}], True),
            ([{"key": KEY, "operator": "Exists"}], False),
            ([{"operator": "Exists"}], False),
            ([{"key": KEY, "operator": "Equal", "effect": "NoSchedule"}], False),
        ],
    )
    async def test_monitor_that_does_not_tolerate_the_taint_is_named(
        self, cluster, run, tolerations, is_named
    ):
        """kube-scheduler tests taints with admin access too."""
        cluster.put(template(adminAccess=True, tolerations=tolerations))
        result = await run("own", "--driver", DRIVER, "--pool", "pool-1")

        said = lines(result, "warning")
        assert bool(said) is is_named
        assert all("ResourceClaimTemplate default/monitor" in line for line in said)
        assert all('{"key": "dra-operator.io/owned", "operator": "Exists"}' in line for line in said)

    async def test_half_a_counter_set_is_refused(self, cluster, run):
        """The others that draw on it are named."""
        cluster.put(*mig_slices("part-0", "part-1", "part-2"))
        result = await run("own", "--driver", DRIVER, "--pool", "mig", "--device", "part-1")

        assert result.exit_code == 2
        assert await rules(cluster) == {}
        (said,) = lines(result, "error")
        assert said.startswith(
            'gpu.example.com/mig: devices part-1 draw on counter set "gpu" together with part-0, part-2'
        )
        assert said.endswith("own all of these devices, or none")
        assert (await run("own", "--driver", DRIVER, "--pool", "mig")).exit_code == 0

    @pytest.mark.parametrize(
        ("taint", "selector", "said"),
        [
            ({"effect": "NoExecute"}, {}, f"and has the taint {KEY}:NoExecute, by which it owns nothing"),
            ({"value": "a"}, {}, f"and has the taint {KEY}=a:NoSchedule, by which it owns nothing"),
            ({"key": "other"}, {}, "and has the taint other:NoSchedule, by which it owns nothing"),
            ({}, {"pool": "pool-3"}, "and selects other devices"),
        ],
    )
    async def test_other_rule_of_the_name_is_not_taken_for_ours(self, cluster, run, taint, selector, said):
        """Only a rule that owns the same devices is as good; the others are created all the same."""
        options = ["--driver", DRIVER, "--pool", "pool-1", "--pool", "pool-2"]
        await run("own", *options[:4])
        ((_, body),) = (await rules(cluster)).items()
        name = body["metadata"]["name"]
        await cluster.session.request("DELETE", f"{RULES}/{name}")
        other = rule(name, selector={"pool": "pool-1", **selector})
        other["spec"]["taint"].update(taint)
        cluster.put(other)
        result = await run("own", *options)

        assert result.exit_code == 2
        assert lines(result, "error") == [f'DeviceTaintRule "{name}" is there already, {said}: delete it']
        assert name not in result.stdout
        assert (DRIVER, "pool-2") in await rules(cluster)

    @pytest.mark.parametrize("finalizers", [[], [KEY]])
    async def test_rule_of_somebody_who_was_faster_is_not_called_created(self, cluster, finalizers):
        """It exists already; one that is being deleted is refused."""
        body = Selector(DRIVER, "pool-1").rule(V1)
        name = body["metadata"]["name"]
        cluster.put({**body, "metadata": {"name": name, "finalizers": finalizers}})
        if finalizers:
            await cluster.session.request("DELETE", f"{RULES}/{name}")
        served = await served_rules(cluster.session)
        stored, problems = await create_rules(cluster.session, served, [body])

        assert [(each["metadata"]["name"], done) for each, done in stored] == (
            [] if finalizers else [(name, "exists already")]
        )
        assert problems == (
            [
                f'DeviceTaintRule "{name}" is there already and is being deleted: wait until it is gone, and try again'
            ]
            if finalizers
            else []
        )

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (
                ["--driver", "gpu.example.co"],
                'driver "gpu.example.co" publishes no device; did you mean "gpu.example.com"?',
            ),
            (
                ["--driver", DRIVER, "--pool", "pool-3"],
                'driver "gpu.example.com" has no pool "pool-3"; did you mean',
            ),
            (
                ["--driver", DRIVER, "--pool", "pool-2", "--device", "gpu-1"],
                'driver "gpu.example.com" has no device "gpu-1" in pool "pool-2"; did you mean "gpu-0"?',
            ),
            (
                ["--driver", DRIVER, "--device", "nic"],
                'driver "gpu.example.com" has no device "nic" in any pool; there is gpu-0, gpu-1',
            ),
        ],
    )
    async def test_what_nobody_publishes_is_refused(self, cluster, run, options, said):
        """With the nearest name; but it can be owned before it comes."""
        result = await run("own", *options)

        assert result.exit_code == 2
        assert lines(result, "error")[0].startswith(said)
        assert (await run("own", *options, "--unpublished")).exit_code == 0
        assert len(await rules(cluster)) == 1

    async def test_rule_that_is_being_deleted_is_waited_for(self, cluster, run):
        """It owns nothing when it is gone."""
        cluster.put(rule(finalizers=[KEY]))
        await cluster.session.request("DELETE", f"{RULES}/ours")
        result = await run("own", "--driver", DRIVER)

        assert result.exit_code == 2
        assert (
            'DeviceTaintRule "ours" owns driver gpu.example.com and is being deleted'
            in lines(result, "error")[0]
        )

    async def test_missing_fence_is_warned_of(self, run):
        """It is what keeps late allocations off."""
        assert FENCE in (await run("own", "--driver", DRIVER)).stderr

    async def test_policy_is_printed_without_a_cluster(self, tmp_path):
        """For API servers that do not serve DeviceTaintRule."""
        options = [
            "--driver",
            DRIVER,
            "--pool",
            "pool-1",
            "--print-policy",
            "--kubeconfig",
            str(tmp_path / "none"),
        ]
        result = CliRunner().invoke(app, ["own", *options])

        assert result.exit_code == 0
        assert list(yaml.safe_load_all(result.stdout)) == policy_for_pools(OPERATOR, [(DRIVER, "pool-1")])


class TestWithoutRules:
    """An API server that does not serve DeviceTaintRule."""

    @pytest.mark.parametrize("command", ["own", "disown"])
    async def test_one_line_says_what_to_do(self, tmp_path, command):
        """Versions, gates, taints in slices, and the policy for them."""
        async with ApiServer(options=ServerOptions(resources=serving_only("v1beta1"))) as server:
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(server.kubeconfig())
            arguments = [command, "--driver", DRIVER, "--kubeconfig", str(kubeconfig)]
            result = await asyncio.to_thread(CliRunner().invoke, app, arguments)

        assert result.exit_code == 2
        assert result.stderr.startswith("error: the API server does not serve DeviceTaintRule")
        assert "--print-policy" in result.stderr


class TestOwned:
    """Listing devices that are ours."""

    async def test_nothing_owned_says_how_to_own(self, run):
        """A new user sees the next command."""
        result = await run("owned")

        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == "no device is owned: `dra-operator own --driver ...` takes some\n"

    async def test_each_rule_and_slice_has_a_row(self, cluster, run):
        """Devices, those in use, and how far it is."""
        taints = [{"key": KEY, "effect": "NoSchedule"}]
        bad = [{"key": KEY, "effect": "NoSchedule", "value": "team-a"}]
        settled, before = {"dra-operator.io/settled": "a/1/policy/binding"}, {"dra-operator.io/settled": "1"}
        cluster.put(
            rule("a", selector={"pool": "pool-1"}, uid="a", annotations=settled),
            rule("b", selector={"pool": "pool-2", "device": "gpu-0"}, annotations=before),
            rule("c", finalizers=[KEY], selector={"pool": "none"}),
            rule("d", effect="NoExecute"),
            resource_slice("nic-0", "nic-1", name="slice-3", pool="pool-3", taints=taints),
            resource_slice("nic-0", name="slice-4", pool="pool-4", taints=bad),
            held_claim(),
        )
        await cluster.session.request("DELETE", f"{RULES}/c")
        result = await run("owned")

        header, *rows = [
            line.split(maxsplit=6) for line in result.stdout.replace("slice s", "s").splitlines()
        ]
        assert header == ["NAME", "DRIVER", "POOL", "DEVICE", "DEVICES", "IN-USE", "STATE"]
        assert [[row[0], *row[2:3], row[-1].split(":")[0]] for row in rows[:4]] == [
            ["a", "pool-1", "settled"],
            ["b", "pool-2", "settling"],
            ["c", "none", "being released"],
            ["d", "*", "problem"],
        ]
        assert rows[0] == ["a", DRIVER, "pool-1", "*", "2", "1", "settled"]
        assert rows[4][:2] == ["slice-3", DRIVER]
        assert "by its slice" in result.stdout
        assert 'has the value "team-a"' in result.stdout

    @pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
    async def test_list_can_be_read_by_programs(self, cluster, run, output, read):
        """Fields that are not set are left out."""
        cluster.put(rule(), held_claim())
        result = await run("owned", "-o", output)

        assert read(result.stdout) == {
            "items": [
                {
                    "kind": "DeviceTaintRule",
                    "name": "ours",
                    "driver": DRIVER,
                    "devices": 3,
                    "inUse": 1,
                    "state": "settling",
                }
            ]
        }
