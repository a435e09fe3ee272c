"""The rim against a real API server: what the unit tests assume of it is so."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

import factories
from dra_operator.api.kinds import KINDS
from dra_operator.api.names import FINALIZER, GROUP
from dra_operator.api.read import read_object
from dra_operator.cluster import writes
from dra_operator.cluster.credentials import load_access
from dra_operator.cluster.discovery import Served, served
from dra_operator.cluster.reflector import Reflector
from dra_operator.cluster.session import ApiSession
from dra_operator.cluster.writer import Writer

CLAIMS = Served(KINDS["ResourceClaim"], "v1")
CLASSES = Served(KINDS["DeviceClass"], "v1")


SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}


def allocation(device="gpu-0"):
    """An allocation as the operator writes it."""
    given = factories.result(device, "pool")
    return factories.allocation(given, allocationTimestamp="2026-01-01T00:00:00Z")


def known(body, **metadata):
    """The claim that is decided on, from how it is stored."""
    return read_object({**body, "metadata": {**body["metadata"], **metadata}}, "ResourceClaim")


def allocate(body, device="gpu-0", **metadata):
    """The decision to give a claim a device."""
    decided = known({**body, "status": {"allocation": allocation(device)}}).status.allocation
    return writes.allocate(known(body, **metadata), decided)


@pytest.fixture
def make_claim(client, namespace):
    """Create a claim and return it as stored."""

    def make(name="claim", **metadata):
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": SPEC}
        return client.create(
            CLAIMS.path(namespace), body | {"metadata": {"name": name, "namespace": namespace, **metadata}}
        )

    return make


@pytest.fixture
def read(client, namespace):
    """Return a claim as it is stored now."""
    return lambda name="claim": client.get(CLAIMS.path(namespace, name))


@pytest.fixture
async def write(session):
    """Do one write and return its outcome."""
    return lambda change, kind=CLAIMS: written(session, change, kind)


async def at_once():
    """Permit everything: this operator is the only one."""


async def written(session, change, kind=CLAIMS, seconds=60):
    """Do one write and return its outcome."""
    outcomes = asyncio.Queue()
    writer = Writer(session, kind, outcomes.put_nowait, may_write=at_once, concurrency=1, timeout=seconds)
    writer.submit(change)
    async with asyncio.timeout(30):
        return await outcomes.get()


@asynccontextmanager
async def reflected(session, kind, **settings):
    """Run a reflector, and yield it with what it delivered."""
    deltas = []
    reflector = Reflector(session, kind, deltas.append, **settings)
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(30):
            await reflector.synced.wait()
        yield reflector, deltas
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition):
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a condition of any shape
            await asyncio.sleep(0.02)


async def test_newest_versions_are_discovered(session):
    """Kubernetes 1.37 serves its kinds in the newest versions; ours are not installed here."""
    found = await served(session, KINDS)

    newest = {name: kind.versions[0] for name, kind in KINDS.items() if kind.group != GROUP}
    assert {name: kind.version for name, kind in found.items()} == newest


class TestWriter:
    """Writes to claims."""

    async def test_allocation_is_stored(self, make_claim, read, write):
        """A decision arrives whole: finalizer, devices, node selector, timestamp, in the name of the operator."""
        outcome = await write(allocate(make_claim()))

        assert isinstance(outcome, writes.Stored)
        claim = read()
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert claim["status"]["allocation"] == allocation()
        assert outcome.body["metadata"]["resourceVersion"] == claim["metadata"]["resourceVersion"]
        assert {
            (entry["manager"], entry.get("subresource", "")) for entry in claim["metadata"]["managedFields"]
        } >= {("dra-operator", ""), ("dra-operator", "status")}

    async def test_lost_race_is_a_conflict(self, client, namespace, make_claim, read, write):
        """A decision about a claim that has changed since is not stored."""
        claim = make_claim()
        client.patch(CLAIMS.path(namespace, "claim"), {"metadata": {"labels": {"a": "b"}}})

        outcome = await write(allocate(claim))

        assert isinstance(outcome, writes.Stale)
        assert outcome.body["metadata"]["labels"] == {"a": "b"}
        assert "allocation" not in read().get("status", {})

    async def test_recreated_claim_is_a_conflict(self, make_claim, read, write):
        """A decision about an earlier claim of this name is not stored, whatever its resourceVersion."""
        claim = make_claim(finalizers=[FINALIZER])
        earlier = "00000000-0000-0000-0000-000000000000"

        outcome = await write(allocate(claim, uid=earlier))

        assert isinstance(outcome, writes.Stale)
        assert outcome.body["metadata"]["uid"] == claim["metadata"]["uid"]
        assert "allocation" not in read().get("status", {})

    async def test_allocation_of_another_stands(self, make_claim, read, write):
        """An allocation, once stored, is immutable: a second decision is a conflict and changes nothing."""
        first = await write(allocate(make_claim()))

        outcome = await write(allocate(first.body, device="gpu-1"))

        assert isinstance(outcome, writes.Stale)
        assert read()["status"]["allocation"] == allocation()

    async def test_invalid_allocation_is_refused(self, make_claim, write):
        """What the API server does not accept is refused in its words."""
        claim = make_claim(finalizers=[FINALIZER])

        outcome = await write(allocate(claim, device="Not A Name"))

        assert isinstance(outcome, writes.Denied)
        assert "status.allocation.devices.results[0].device" in outcome.message

    async def test_status_and_metadata_are_apart(self, session, make_claim, read, namespace):
        """What is sent to the wrong half of a claim is ignored with a good answer: so two patches it takes."""
        make_claim()
        merge = {"content_type": "application/merge-patch+json"}

        await session.request(
            "PATCH",
            CLAIMS.path(namespace, "claim", "status"),
            body={"metadata": {"finalizers": [FINALIZER]}},
            **merge,
        )
        await session.request(
            "PATCH", CLAIMS.path(namespace, "claim"), body={"status": {"allocation": allocation()}}, **merge
        )

        assert "finalizers" not in read()["metadata"]
        assert "allocation" not in read().get("status", {})

    async def test_deleted_claim_is_released(self, client, namespace, make_claim, write):
        """A claim that is deleted while allocated loses allocation and finalizer, and is gone."""
        await write(allocate(make_claim()))
        client.delete(CLAIMS.path(namespace, "claim"))
        claim = client.get(CLAIMS.path(namespace, "claim"))
        assert claim["metadata"]["deletionTimestamp"]

        change = writes.deallocate(known(claim))
        outcome = await write(change)

        assert isinstance(outcome, writes.Stored)
        assert client.request("GET", CLAIMS.path(namespace, "claim")).status == 404
        assert isinstance(await write(change), writes.Stale)


class TestPermissions:
    """What a missing rule looks like."""

    @pytest.fixture
    async def as_account(self, control_plane, namespace):
        """Open a session as a service account that has these rules, given as `verb,verb resource`."""
        sessions = []
        granted = []

        def allow(*rules):
            account = f"{namespace}-{len(sessions)}"
            granted.append(account)
            control_plane.kubectl("create", "serviceaccount", account, "-n", namespace)
            role = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": account},
                "rules": [
                    {"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs.split(",")}
                    for verbs, resource in map(str.split, rules)
                ],
            }
            control_plane.kubectl("create", "-f", "-", input=json.dumps(role))
            # The API server asks for the right to bind at cluster scope, so a Role would not do.
            subject = f"--serviceaccount={namespace}:{account}"
            control_plane.kubectl(
                "create", "clusterrolebinding", account, f"--clusterrole={account}", subject
            )
            sessions.append(ApiSession(load_access(str(control_plane.kubeconfig_for(account, namespace)))))
            return sessions[-1]

        yield allow
        for opened in sessions:
            await opened.close()
        for account in granted:
            control_plane.kubectl("delete", "clusterrolebinding,clusterrole", account)

    async def test_missing_rule_is_named(self, make_claim, as_account):
        """Without the right to write status the outcome names verb and resource."""
        session = as_account("get,patch resourceclaims")

        outcome = await written(session, allocate(make_claim(finalizers=[FINALIZER])))

        assert isinstance(outcome, writes.Denied)
        assert (outcome.missing.verb, outcome.missing.resource) == ("patch", "resourceclaims/status")

    async def test_missing_right_to_bind_is_named(self, make_claim, as_account):
        """Without the right to bind, which the API server reports in its own way, the outcome names it too."""
        session = as_account("get,patch resourceclaims", "patch resourceclaims/status")

        outcome = await written(session, allocate(make_claim(finalizers=[FINALIZER])))

        assert isinstance(outcome, writes.Denied)
        assert (outcome.missing.verb, outcome.missing.resource) == ("patch", "resourceclaims/binding")


class TestReflector:
    """List and watch."""

    async def test_differences_arrive(self, session, make_claim, client, namespace):
        """Objects that are there, come, change and go arrive, once each."""
        make_claim("there")
        async with reflected(session, CLAIMS) as (reflector, deltas):
            make_claim("comes")
            client.patch(CLAIMS.path(namespace, "comes"), {"metadata": {"labels": {"a": "b"}}})
            client.delete(CLAIMS.path(namespace, "there"))
            await until(lambda: len(deltas) == 4)

            assert [(delta.name, delta.body is None) for delta in deltas] == [
                ("there", False),
                ("comes", False),
                ("comes", False),
                ("there", True),
            ]
            assert all("managedFields" not in delta.body["metadata"] for delta in deltas if delta.body)
            assert (reflector.counters.lists, reflector.counters.repaired) == (1, 0)

    async def test_watch_resumes_after_a_restart(self, session, control_plane, make_claim):
        """When the API server was away, the watch goes on and nothing is delivered twice."""
        make_claim("before")
        async with reflected(session, CLAIMS) as (reflector, deltas):
            control_plane.stop_apiserver()
            await until(lambda: reflector.trouble is not None)
            control_plane.start_apiserver()
            make_claim("after")
            await until(lambda: deltas[-1].name == "after")

            assert [delta.name for delta in deltas] == ["before", "after"]
            assert reflector.trouble is None

    async def test_write_to_a_silent_server_happens_once(self, session, control_plane, make_claim, read):
        """Patches that a frozen server took and answered to nobody may all be carried out later: one counts."""
        claim = make_claim(finalizers=[FINALIZER])
        with control_plane.frozen():
            pending = asyncio.create_task(written(session, allocate(claim), seconds=0.5))
            await asyncio.sleep(3)
            assert not pending.done()

        assert isinstance(await pending, writes.Stored)
        assert read()["status"]["allocation"] == allocation()

    async def test_expired_version_leads_to_a_list(self, session, make_claim, client, namespace):
        """A version that is too old to resume from is given up for a list, which brings the deletion in the gap."""
        make_claim("stays")
        make_claim("goes")
        async with reflected(session, CLAIMS) as (reflector, deltas):
            pass
        client.delete(CLAIMS.path(namespace, "goes"))
        # As if it had been away for hours.
        reflector._resume = "1"

        task = asyncio.create_task(reflector.run())
        await until(lambda: reflector.counters.lists == 2)
        task.cancel()

        assert [delta.name for delta in deltas if delta.body is None] == ["goes"]
        assert reflector.counters.repaired == 1
