"""What is wrong with answers about a world, held against what comes of doing what is asked."""

from collections.abc import Iterator
from random import Random

from dra_operator import Cluster
from dra_operator.pods.claim_sets import State
from dra_operator.questions.allocate import decide_all
from dra_operator.questions.answers import DeviceAnswer
from dra_operator.questions.fit import FIRST_FIT
from questionfuzz.truth import allocate, allocation_of, devices_of, message_of
from questionfuzz.world import World, without

_MOST = 40


async def find_wrong_fit(world: World) -> Iterator[str]:
    """Return what `fit` says otherwise than the operator does: which copies fit, with which devices, and why not."""
    cluster = Cluster.load(world.objects)
    assert not cluster.errors, cluster.errors
    answer = cluster.fit(world.claim, world.copies)
    claims = await allocate(world, world.copies)
    return _differences(answer.copies, answer.message, claims)


def _differences(copies, message, claims) -> Iterator[str]:
    fitting = [body for body in claims if allocation_of(body)]
    if claims[: len(fitting)] != fitting:
        yield f"the operator left out one before another: {list(map(devices_of, claims))}"
    expected = [devices_of(body) for body in fitting]
    found = [list(map(_short, copy.devices)) for copy in copies]
    if found != expected:
        yield f"devices: {found}, the operator {expected}"
    reasons = {message_of(body) for body in claims if not allocation_of(body)}
    told = message.replace("c#", "c-")
    if reasons and told not in reasons:
        yield f"message: {told}, the operator {reasons}"


def _short(device: DeviceAnswer) -> tuple[str, str, str]:
    return device.request, device.pool, device.device


async def find_wrong_headroom(world: World) -> Iterator[str]:
    """Return what `headroom` says otherwise than the operator does when claims are created until one is refused."""
    answer = Cluster.load(world.objects).headroom(world.claim)
    if answer.more >= _MOST:
        return iter(())
    count = answer.more + (5 if answer.unlimited else 1)
    allocated = sum(bool(allocation_of(body)) for body in await allocate(world, count))
    expected = count if answer.unlimited else answer.more
    text = f"room for {answer.more} (unlimited: {answer.unlimited}), the operator allocated {allocated} of {count}"
    return iter([] if allocated == expected else [text])


def find_wrong_pods(world: World) -> Iterator[str]:
    """Yield what `fit` of a pod says otherwise than deciding the claims of as many pods."""
    answer = Cluster.load(world.objects).fit([world.template(), world.pod()], world.copies)
    pods = [world.pod(f"copy-{number}") for number in range(world.copies)]
    decided = decide_all(Cluster.load([*world.objects, world.template(), *pods]))
    fitting = [
        outcome
        for outcome in decided.outcomes
        if outcome.state is State.ALLOCATED and outcome.claim.metadata.name.startswith("copy-")
    ]
    nodes = sorted(outcome.node for outcome in fitting)
    if answer.method != FIRST_FIT:
        # At once more may fit, with what comes second for some of them.
        if len(nodes) > answer.fitting:
            yield f"{answer.fitting} pods fit at once, decided {nodes}"
    elif nodes != sorted(copy.node for copy in answer.copies):
        yield f"nodes of pods: {[copy.node for copy in answer.copies]}, decided {nodes}"


def find_wrong_removal(world: World, random: Random) -> Iterator[str]:
    """Yield where what is asked without some objects differs from a world that never had them."""
    gone = {
        kind: [name for name in world.names(object_kind) if random.random() < 0.4]
        for kind, object_kind in (("claims", "ResourceClaim"), ("pods", "Pod"), ("nodes", "Node"))
    }
    one, other = (
        Cluster.load(world.objects).without(**gone),
        # Where the last node is gone none is assumed, as for files that have none.
        Cluster.load(without(world, **gone), only_nodes=(), listed=("Node",) if gone["nodes"] else ()),
    )
    for subject in (world.claim, [world.template(), world.pod()]):
        found, expected = one.fit(subject, world.copies), other.fit(subject, world.copies)
        if found != expected:
            yield f"without {gone}: {found}, in a world without them {expected}"
        room, expected_room = one.headroom(subject), other.headroom(subject)
        if room != expected_room:
            yield f"without {gone}: {room}, in a world without them {expected_room}"
