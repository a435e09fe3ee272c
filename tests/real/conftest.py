"""Fixtures for tests on the real API server.

The programs are found or built before the first test runs, since a build takes minutes and a test may not. A
machine that has neither programs nor Go skips these tests and says why; under CI that is an error, as nobody
would read the skip.
"""

import json
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import controlplane
from controlplane import (
    Client,
    ControlPlane,
    OperatorProcess,
    Programs,
    Scene,
    SharedOperator,
    UnavailableError,
    as_of,
    clear_cluster,
    find_or_build,
    fresh_namespace,
    install_access,
    running_control_plane,
    running_full_control_plane,
)
from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT, install_fence
from dra_operator.cluster.credentials import load_access
from dra_operator.cluster.session import ApiSession
from holding_proxy import HoldingProxy

StartOperator = Callable[..., OperatorProcess]
_HERE = Path(__file__).parent
_FOUND = pytest.StashKey[Programs | str]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that `-m "not real"` leaves them out."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.real)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build the programs once it is known that a test needs them."""
    config = session.config
    wanted = any(item.get_closest_marker("real") for item in session.items)
    if not wanted or config.option.collectonly:
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            config.stash[_FOUND] = find_or_build()
        except UnavailableError as error:
            config.stash[_FOUND] = str(error)


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Programs:
    """Return the programs of the control plane."""
    found = pytestconfig.stash[_FOUND]
    if isinstance(found, Programs):
        return found
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI requires the real control plane: {found}")
    pytest.skip(found)


@pytest.fixture(scope="session")
def control_plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run etcd and kube-apiserver; shared by the whole run, so leave nothing behind (see `namespace`)."""
    with running_control_plane(programs, tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def full_control_plane(
    programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Run a second control plane, with kube-controller-manager and kube-scheduler."""
    with running_full_control_plane(programs, tmp_path_factory.mktemp("full-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def shared_operator(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> SharedOperator:
    """Return the operator that tests of a module share; `operator` runs it."""
    return SharedOperator(control_plane, tmp_path_factory.mktemp("operators"))


@pytest.fixture(scope="session")
def shared_full_operator(
    full_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> SharedOperator:
    """Return the same on the full control plane; `run_full_operator` runs it."""
    return SharedOperator(full_control_plane, tmp_path_factory.mktemp("full-operators"))


@pytest.fixture
def namespace(control_plane: ControlPlane, shared_operator: SharedOperator) -> Iterator[str]:
    """Return a new namespace; afterwards it is gone, and so are all cluster-wide objects of tests."""
    with fresh_namespace(control_plane) as name:
        yield name
    clear_cluster(control_plane)
    shared_operator.wait_until_empty()


@pytest.fixture
def client(control_plane: ControlPlane) -> Client:
    """Return the administrator's client."""
    return control_plane.client


@pytest.fixture
async def session(control_plane: ControlPlane) -> AsyncIterator[ApiSession]:
    """Return the operator's own session with the API server, as the administrator."""
    async with ApiSession(load_access(str(control_plane.admin_kubeconfig))) as opened:
        yield opened


@pytest.fixture
def full_namespace(full_control_plane: ControlPlane, shared_full_operator: SharedOperator) -> Iterator[str]:
    """Return the same on the full control plane."""
    with fresh_namespace(full_control_plane) as name:
        yield name
    clear_cluster(full_control_plane)
    shared_full_operator.wait_until_empty()


@pytest.fixture
def scene(control_plane: ControlPlane, namespace: str) -> Scene:
    """Return the namespace with what tests ask about its claims."""
    return Scene(control_plane, namespace)


@pytest.fixture
def full_scene(full_control_plane: ControlPlane, full_namespace: str) -> Scene:
    """Return the same on the full control plane."""
    return Scene(full_control_plane, full_namespace)


@pytest.fixture(scope="session")
def access(control_plane: ControlPlane) -> ControlPlane:
    """Install the service account of manifests/ with its rights and return the control plane."""
    install_access(control_plane)
    return control_plane


@pytest.fixture(scope="session")
def fenced_plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane with the policies around owned devices, and the operator's rights.

    It has one of its own: where the policy was deleted, it is not put up again before the API server is started anew.
    """
    with running_control_plane(programs, tmp_path_factory.mktemp("fenced")) as plane:
        install_access(plane)
        install_fence(plane)
        yield plane


@pytest.fixture(scope="session")
def old_plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run an API server as of Kubernetes 1.34, with the operator's rights."""
    with running_control_plane(programs, tmp_path_factory.mktemp("old"), as_of("1.34")) as plane:
        install_access(plane)
        yield plane


@pytest.fixture
async def proxy(access: ControlPlane) -> AsyncIterator[HoldingProxy]:
    """Return a proxy before the API server, which holds back what a test says, and speaks for the operator."""
    context = ssl.create_default_context(cafile=str(access.ca))
    async with HoldingProxy(access.server, context, access.token(SERVICE_ACCOUNT, NAMESPACE)) as proxy:
        yield proxy


@pytest.fixture
def through_proxy(access: ControlPlane, proxy: HoldingProxy, tmp_path: Path) -> Path:
    """Return the operator's kubeconfig, by way of the proxy."""
    config = yaml.safe_load(access.kubeconfig_for(SERVICE_ACCOUNT, NAMESPACE).read_text())
    config["clusters"][0]["cluster"], config["users"][0]["user"] = {"server": proxy.url}, {}
    path = tmp_path / "proxy.kubeconfig"
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(scope="session")
def full_access(full_control_plane: ControlPlane) -> ControlPlane:
    """Return the full control plane with the same."""
    install_access(full_control_plane)
    return full_control_plane


@pytest.fixture(scope="module")
def operator_of_module(access: ControlPlane, shared_operator: SharedOperator) -> Iterator[SharedOperator]:
    """Return the shared operator; it stops after the module, as other tests want none beside them."""
    yield shared_operator
    shared_operator.stop()


@pytest.fixture(scope="module")
def full_operator_of_module(
    full_access: ControlPlane, shared_full_operator: SharedOperator
) -> Iterator[SharedOperator]:
    """Return the same on the full control plane."""
    yield shared_full_operator
    shared_full_operator.stop()


@pytest.fixture
def operator(operator_of_module: SharedOperator, namespace: str) -> OperatorProcess:
    """Return a running operator that is ready: one for all tests of a module that do not start others."""
    return operator_of_module.run()


@pytest.fixture
def full_operator(full_operator_of_module: SharedOperator, full_namespace: str) -> OperatorProcess:
    """Return the same on the full control plane."""
    return full_operator_of_module.run()


@pytest.fixture
def run_full_operator(
    full_operator_of_module: SharedOperator, full_namespace: str
) -> Callable[..., OperatorProcess]:
    """Return a function that returns it, with flags of `run`."""
    return full_operator_of_module.run


@pytest.fixture
def start_operator(
    access: ControlPlane, shared_operator: SharedOperator, tmp_path: Path
) -> Iterator[StartOperator]:
    """Return a function that starts an operator, with further flags of `run`; all are stopped afterwards.

    It does not wait: `.wait_ready()` does. Keyword arguments are those of `controlplane.start_operator`.
    """
    shared_operator.stop()
    with _operators(access, tmp_path) as start:
        yield start


@pytest.fixture
def start_full_operator(
    full_access: ControlPlane, full_namespace: str, shared_full_operator: SharedOperator, tmp_path: Path
) -> Iterator[StartOperator]:
    """Return the same on the full control plane. They stop before the namespace goes."""
    shared_full_operator.stop()
    with _operators(full_access, tmp_path) as start:
        yield start


@contextmanager
def _operators(plane: ControlPlane, folder: Path) -> Iterator[StartOperator]:
    started: list[OperatorProcess] = []

    def start(*flags: str, **options: Any) -> OperatorProcess:
        log = folder / f"operator-{len(started)}.log"
        started.append(controlplane.start_operator(plane, log, *flags, **options))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            process.stop()
