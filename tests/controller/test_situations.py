"""Situations: what the operator does while the states of a cluster follow one another.

tests/situations/README.md describes the files; `simulate` is held against the same.
"""

import re
from datetime import UTC, datetime

import pytest

from situation_steps import SITUATIONS, steps_of

_DEVICE = re.compile(r"[\w.-]+/[\w-]+/[\w-]+")


def as_stored(body):
    """Return an object with what an API server would add."""
    metadata = body["metadata"]
    if body["kind"] == "ResourceClaim":
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = {"namespace": "default", "creationTimestamp": created, **metadata}
    return {**body, "metadata": metadata}


def outcome(cluster, row):
    """Return whether a claim is as a row expects it."""
    full_name, state, _, rest = row.split("  ", 3) if row.count("  ") > 2 else (*row.split("  "), "", "")[:4]
    namespace, name = full_name.split("/")
    body = cluster.server.get("ResourceClaim", name, namespace)
    results = ((body.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", [])
    if state == "pending":
        reasons = cluster.reasons(name)
        return not results and rest.partition(":")[0] in reasons
    devices = [f"{item['driver']}/{item['pool']}/{item['device']}" for item in results]
    # That an allocation is broken is said after a minute; it is left as it was.
    return bool(devices) if state == "broken" else devices == _DEVICE.findall(rest)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda path: path.name)
async def test_the_operator_does_what_the_rules_say(cluster, operator, situation):
    """After each step, each claim gets the devices, or the reason, that the step expects."""
    for step in steps_of(situation):
        for kind, name in step.deleted:
            if kind == "ResourceClaim":
                await cluster.delete(name)
            else:
                cluster.server.remove(kind, name)
        cluster.put(*map(as_stored, step.objects))
        await operator.settled()
        for row in step.rows:
            await cluster.until(lambda row=row: outcome(cluster, row), f"{step.name}: {row}")
        claims = cluster.server.list("ResourceClaim")
        names = {f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in claims}
        assert names == {row.split("  ")[0] for row in step.rows}
