"""What the tests of the controller share: a clock that only a test moves, and a cluster."""

import asyncio
import sys
from pathlib import Path

import pytest
import structlog

# The cluster is a module beside the tests, which importlib mode does not find by itself.
sys.path.insert(0, str(Path(__file__).parent))

from cycle_bench import FITS, Bench, Clock, writes

from cluster import CLASS, Cluster, Operator, access_to, claim, node, resource_slice
from dra_operator.cluster.session import ApiSession
from faulty_server import FaultyServer
from holding_proxy import HoldingProxy


@pytest.fixture
def clock():
    """A clock that stands still until `clock.now` is set."""
    return Clock()


@pytest.fixture
async def cluster():
    """An API server in memory."""
    async with FaultyServer() as server, ApiSession(access_to(server.url)) as session:
        yield Cluster(server, session)
        # Watches that a test left open would hold up the end of the server.
        server.faults.cut_watches()
        await asyncio.sleep(0.01)


@pytest.fixture
async def proxy(cluster):
    """A proxy before the API server, which holds back what a test says."""
    async with HoldingProxy(cluster.server.url) as proxy:
        yield proxy
        cluster.server.faults.cut_watches()


@pytest.fixture
async def start(cluster):
    """Start operators, one after the other; all are stopped at the end."""
    started = []

    async def begin():
        started.append(await Operator(cluster.server.url).start())
        return started[-1]

    yield begin
    for operator in started:
        await operator.manager.close()


@pytest.fixture
async def unwatched(cluster):
    """An operator that is ready, and may crash."""
    operator = await Operator(cluster.server.url).start()
    await operator.ready()
    yield operator
    await operator.manager.close()


@pytest.fixture
async def operator(unwatched):
    """The operator, ready."""
    yield unwatched
    await unwatched.manager.close()
    assert not unwatched.crashed
    assert defects(unwatched.manager.metrics) == 0


@pytest.fixture
def gpu(cluster):
    """A node with one device, and its class."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"))


@pytest.fixture(autouse=True)
def quick_look(monkeypatch):
    """The runtime looks after itself often enough for tests."""
    monkeypatch.setattr("dra_operator.controller.manager.CHECK_SECONDS", 0.05)
    monkeypatch.setattr("dra_operator.controller.health.LASTING_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def short_tracebacks():
    """A traceback is printed without variables: those of an operator take seconds to print."""
    *before, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, plain])
    yield
    structlog.reset_defaults()


def defects(metrics):
    """Return how many defects were met."""
    return sum(
        sample.value
        for family in metrics.errors.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )


@pytest.fixture
def bench(clock):
    """A pass over nothing yet, which meets no defect unless the test is about one."""
    bench = Bench(clock)
    yield bench
    assert bench.may_break or defects(bench.metrics) == 0


@pytest.fixture
def write(bench):
    """An allocation on its way."""
    bench.allocator.answers = {"claim": FITS}
    (found,) = writes(bench.run(bench.delta(claim())))
    return found
