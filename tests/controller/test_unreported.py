"""Events that an operator had no time to send: the next one sends them, and no others."""

import pytest

from cluster import Operator, claim


@pytest.mark.parametrize(
    ("end", "trouble"),
    [
        pytest.param(Operator.kill, lambda faults, **which: faults.answer(503, **which), id="killed"),
        pytest.param(Operator.kill, lambda faults, **which: faults.delay(60, **which), id="killed meanwhile"),
        pytest.param(
            lambda operator: operator.manager.close(),
            lambda faults, **which: faults.answer(503, **which),
            id="stopped",
        ),
    ],
)
async def test_an_event_that_could_not_be_sent_is_sent_by_the_next_operator(cluster, start, end, trouble):
    """The annotation is there, and says nothing of the Event; of what was told before there is no second one."""
    first = await (await start()).ready()
    cluster.put(claim("told"))
    await cluster.until(lambda: cluster.events("told"), "the Event")
    await cluster.until(lambda: told_up_to(cluster) > version(cluster, "told"), "a renewal")
    fault = trouble(cluster.server.faults, times=None, verb="create", kind="Event")
    cluster.put(claim("untold"))
    await cluster.waits("untold")
    await renewals(cluster)
    await end(first)
    fault.times = 0

    await start()
    await cluster.until(lambda: cluster.events("untold"), "the Event")
    assert [event["count"] for event in cluster.events("told")] == [1]


async def test_an_operator_that_ends_before_it_has_looked_at_claims_has_told_nothing(cluster, start):
    """What the one before it had not told is still to be told by the next one."""
    first = await (await start()).ready()
    await cluster.until(lambda: told_up_to(cluster), "a renewal")
    events = cluster.server.faults.answer(503, times=None, verb="create", kind="Event")
    cluster.put(claim("untold"))
    await cluster.waits("untold")
    await first.kill()
    lists = cluster.server.faults.answer(503, times=None, verb="list", kind="ResourceClaim")
    events.times = 0

    second = await start()
    await renewals(cluster)
    await second.kill()
    lists.times = 0

    await start()
    await cluster.until(lambda: cluster.events("untold"), "the Event")


async def renewals(cluster):
    """Wait until the Lease was renewed a few times."""
    before = cluster.server.requests["update Lease"]
    await cluster.until(lambda: cluster.server.requests["update Lease"] > before + 3, "renewals")


def told_up_to(cluster):
    """Return the version up to which the Lease says that all was told."""
    annotations = cluster.server.get("Lease", "dra-operator", "default")["metadata"].get("annotations", {})
    return int(annotations.get("dra-operator.io/told", 0))


def version(cluster, name):
    """Return the version of a claim."""
    return int(cluster.claim(name)["metadata"]["resourceVersion"])
