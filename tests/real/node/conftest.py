"""Two real nodes beside a control plane, its scheduler and its controller manager; the operator runs.

Containers are real where the machine can run them. Elsewhere, and with NODE_RUNTIME=recording, the kubelets have a
container runtime that records what they ask for. Where not even a kubelet can run, the tests are skipped and say why.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from controlplane import (
    ControlPlane,
    OperatorProcess,
    Programs,
    UnavailableError,
    fresh_namespace,
    install_access,
    install_component,
    running_full_control_plane,
    start_operator,
)
from controlplane.binaries import say_to_stderr
from controlplane.node import machine, protocols
from controlplane.node.cluster_node import ClusterNode, Containerd, ContainerRuntime, running_node
from controlplane.node.programs import RuntimePrograms, find_or_build_kubelet, find_or_build_runtime

_HERE = Path(__file__).parent
_IS_CI = os.environ.get("CI") == "true"


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What a node of these tests is made of; without `containers` the runtime only records."""

    kubelet: Path
    containers: RuntimePrograms | None


RunNode = Callable[..., AbstractContextManager[ClusterNode]]
_FOUND = pytest.StashKey[NodeParts | UnavailableError | str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build the programs of a node once it is known that a test needs them."""
    config = session.config
    if config.option.collectonly or not any(_HERE in item.path.parents for item in session.items):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            config.stash[_FOUND] = _find_or_build()
        except UnavailableError as error:
            config.stash[_FOUND] = error


def _find_or_build() -> NodeParts | str:
    if obstacle := machine.obstacle_to_nodes():
        return obstacle
    kubelet = find_or_build_kubelet()
    protocols.find_or_compile()
    obstacle: object = machine.obstacle_to_containers()
    if os.environ.get("NODE_RUNTIME") == "recording":
        obstacle = "NODE_RUNTIME=recording"
    if not obstacle:
        try:
            return NodeParts(kubelet, find_or_build_runtime())
        except UnavailableError as error:
            if _IS_CI:
                raise
            obstacle = error
    say_to_stderr(f"nodes without containers: {obstacle}")
    return NodeParts(kubelet, None)


@pytest.fixture(scope="session")
def node_parts(pytestconfig: pytest.Config, programs: Programs) -> NodeParts:
    """Return what nodes are made of; CI requires what the machine can run."""
    found = pytestconfig.stash[_FOUND]
    if isinstance(found, NodeParts):
        return found
    if isinstance(found, UnavailableError) and _IS_CI:
        pytest.fail(f"CI requires the programs of a node: {found}")
    pytest.skip(str(found))


@pytest.fixture(scope="session")
def plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane with scheduler and controller manager for the nodes."""
    with running_full_control_plane(programs, tmp_path_factory.mktemp("plane-of-nodes")) as running:
        install_access(running)
        yield running


@pytest.fixture(scope="session")
def run_node(plane: ControlPlane, node_parts: NodeParts) -> RunNode:
    """Return a function that runs a node of a name, with the machine's best runtime if none is given."""

    def run(name: str, runtime: ContainerRuntime | None = None) -> AbstractContextManager[ClusterNode]:
        return running_node(
            name,
            kubeconfig=plane.admin_kubeconfig,
            kubelet=node_parts.kubelet,
            runtime=runtime or _runtime(node_parts),
            logs=plane.directory,
        )

    return run


def _runtime(parts: NodeParts) -> ContainerRuntime:
    if parts.containers is not None:
        return Containerd(parts.containers)
    # It needs the protocols, which only now are there.
    from controlplane.node.recording import RecordingRuntime  # noqa: PLC0415

    return RecordingRuntime()


@pytest.fixture(scope="session")
def nodes(run_node: RunNode) -> Iterator[list[ClusterNode]]:
    """Run node-1 and node-2."""
    with run_node("node-1") as first, run_node("node-2") as second:
        yield [first, second]


@pytest.fixture(scope="module")
def operator(
    request: pytest.FixtureRequest, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Run the operator for the tests of a module: it explains all pods, and has the flags that the module asks for."""
    install_component(plane, "explain-pods")
    install_component(plane, "gates")
    log = tmp_path_factory.mktemp("operator-of-nodes") / "operator.log"
    process = start_operator(plane, log, "--explain=all", *getattr(request.module, "FLAGS", ()))
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def cluster(plane: ControlPlane, operator: OperatorProcess, nodes: list[ClusterNode]):
    """Return a namespace of the cluster; afterwards its pods, its drivers and their devices are gone."""
    from controlplane.node.pod_scene import PodScene  # noqa: PLC0415 - it needs the protocols

    operator.wait_ready()
    with fresh_namespace(plane) as name:
        scene = PodScene(plane, name)
        try:
            yield scene
        finally:
            scene.close()
