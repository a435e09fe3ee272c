"""`dra-operator disown` against the API server in memory."""

import asyncio
import json

import pytest

from dra_operator.cluster.session import MERGE_PATCH

from .owning import DRIVER, KEY, RULES, held_claim, lines, mig_slices, rule, rules


class TestDisown:
    """Giving devices back."""

    @pytest.mark.parametrize(
        "how", [["ours"], ["--driver", DRIVER], ["--driver", DRIVER, "--pool", "pool-1"]]
    )
    async def test_rule_is_deleted(self, cluster, run, how):
        """By its name, or by what it owns."""
        cluster.put(rule(selector={"pool": "pool-1"}))
        result = await run("disown", *how)

        assert result.exit_code == 0, result.stderr
        assert result.stdout == "devicetaintrule.resource.k8s.io/ours deleted\n"
        assert await rules(cluster) == {}

    async def test_dry_run_deletes_nothing(self, cluster, run):
        """It says what it would delete."""
        cluster.put(rule())
        result = await run("disown", "ours", "--dry-run=client")

        assert result.stdout == "devicetaintrule.resource.k8s.io/ours deleted (dry run)\n"
        assert len(await rules(cluster)) == 1

    async def test_devices_in_use_are_refused(self, cluster, run):
        """Unless that is wanted; then it is said that kube-scheduler must be restarted."""
        cluster.put(rule(), held_claim())
        refused = await run("disown", "ours")
        done = await run("disown", "ours", "--in-use")

        assert refused.exit_code == 2
        assert lines(refused, "error")[0] == (
            "claim default/held holds gpu.example.com/pool-1/gpu-0, reserved for nobody"
        )
        assert done.exit_code == 0
        assert "restart kube-scheduler" in lines(done, "warning")[-1]

    async def test_devices_in_use_are_refused_while_their_slice_is_away(self, cluster, run):
        """A claim holds a device also while nobody publishes it."""
        cluster.put(rule(selector={"pool": "pool-9"}), held_claim(pool="pool-9"), held_claim("other"))
        refused = await run("disown", "ours")
        done = await run("disown", "ours", "--in-use")

        holds = "claim default/held holds gpu.example.com/pool-9/gpu-0, reserved for nobody"
        assert refused.exit_code == 2
        assert (lines(refused, "error")[0], len(lines(refused, "error"))) == (holds, 2)
        assert done.exit_code == 0
        assert lines(done, "warning")[0] == holds
        assert "restart kube-scheduler" in lines(done, "warning")[-1]

    async def test_half_a_counter_set_is_refused(self, cluster, run):
        """What stays would be ours no longer; all of it can be given back."""
        cluster.put(
            *mig_slices("part-0", "part-1"),
            *(rule(name, selector={"pool": "mig", "device": name}) for name in ("part-0", "part-1")),
        )
        result = await run("disown", "part-1")

        assert result.exit_code == 2
        assert lines(result, "error") == [
            (
                'gpu.example.com/mig: devices part-0 draw on counter set "gpu" together with part-1, which would stay '
                "out: give back all of these devices, or none"
            )
        ]
        assert (await run("disown", "part-0", "part-1")).exit_code == 0

    async def test_requests_for_all_that_nobody_serves_are_named(self, cluster, run):
        """Where a part of the devices of a node stays ours."""
        cluster.put(*(rule(name, selector={"pool": "pool-1", "device": name}) for name in ("gpu-0", "gpu-1")))
        result = await run("disown", "gpu-1")

        assert result.exit_code == 0
        assert lines(result, "note") == [
            (
                "DeviceClass gpu: of the 2 devices on node node-1, 1 would be ours, so requests for All are served "
                "there by nobody"
            )
        ]

    @pytest.mark.parametrize(
        ("how", "said"),
        [
            (["other"], 'DeviceTaintRule "other" owns no devices, so it is left alone'),
            (["gone"], 'there is no DeviceTaintRule "gone"; there is ours'),
            (
                ["--driver", DRIVER, "--pool", "pool-1"],
                "driver gpu.example.com, pool pool-1: owned by DeviceTaintRule ours, which owns other devices too",
            ),
            (
                ["--driver", "nic.example.com"],
                "driver nic.example.com: no DeviceTaintRule owns these devices",
            ),
            ([], "name rules, or the devices by --driver"),
            (["ours", "--pool", "pool-1"], "--pool and --device go with --driver"),
        ],
    )
    async def test_what_cannot_be_given_back_is_said(self, cluster, run, how, said):
        """And what to do instead."""
        cluster.put(rule(), rule("other", effect="NoExecute"))
        result = await run("disown", *how)

        assert result.exit_code == 2
        assert lines(result, "error")[0].startswith(said)
        assert len((await cluster.session.request("GET", RULES))["items"]) == 2

    async def test_operator_is_waited_for(self, cluster, run):
        """It takes its finalizer off when its own writes are answered."""
        cluster.put(rule(finalizers=[KEY]))

        async def let_go():
            path = f"{RULES}/ours"
            while not (await cluster.session.request("GET", path))["metadata"].get("deletionTimestamp"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            body = {"metadata": {"finalizers": None}}
            await cluster.session.request("PATCH", path, body=body, content_type=MERGE_PATCH)

        result, _ = await asyncio.gather(run("disown", "ours"), let_go())

        assert result.exit_code == 0, result.stderr

    async def test_operator_that_does_not_run_is_not_waited_for_in_vain(self, cluster, run):
        """The command that takes the finalizer off keeps the others."""
        cluster.put(rule(finalizers=[KEY, "example.com/keep"]))
        result = await run("disown", "ours", "--timeout", "0")

        assert result.exit_code == 1
        assert result.stdout == ""
        (said,) = lines(result, "error")
        patch = json.dumps({"metadata": {"finalizers": ["example.com/keep"]}})
        assert said.endswith(f"kubectl patch devicetaintrule ours --type=merge -p '{patch}'")
