"""kubectl works against the server as against any cluster, with no flag but --kubeconfig.

Only where kubectl is: in KUBEBUILDER_ASSETS or where the tests on the real control plane keep it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controlplane.binaries import find
from dra_operator.testing.server import ApiServer

Kubectl = Callable[..., Awaitable[str]]

MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.example.com"'}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train, labels: {team: a}}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.example.com, count: 2}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: gpu, resourceClaimName: train}]
"""


@pytest.fixture
def kubectl(server: ApiServer, tmp_path: Path) -> Kubectl:
    """Return a function that runs kubectl against the server and returns what it says; it must succeed."""
    program = find("kubectl")
    if program is None:
        pytest.skip("kubectl is not on this machine (KUBEBUILDER_ASSETS, or the cache of the control plane)")
    (tmp_path / "config").write_text(server.kubeconfig())
    # Its own HOME: kubectl keeps a cache of discovery there.
    environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "config")}

    async def run(*arguments: str, given: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            str(program),
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await asyncio.wait_for(process.communicate(given.encode()), 30)
        assert process.returncode == 0, said.decode()
        return said.decode()

    return run


async def test_get(kubectl: Kubectl) -> None:
    """Name and age: kubectl's own table, as it gets none."""
    await kubectl("apply", "-f", "-", given=MANIFEST)

    claims = (await kubectl("get", "resourceclaims")).splitlines()
    wide = await kubectl("get", "nodes,pods", "-o", "wide")
    labelled = await kubectl("get", "resourceclaims", "-A", "-l", "team=a", "-o", "name")

    assert claims[0].split() == ["NAME", "AGE"]
    assert claims[1].split()[0] == "train"
    assert "pod/user" in wide
    assert labelled == "resourceclaim.resource.k8s.io/train\n"


async def test_wait_sees_the_allocation(kubectl: Kubectl, server: ApiServer) -> None:
    """`kubectl wait` watches one claim until it is allocated."""
    await kubectl("apply", "-f", "-", given=MANIFEST)
    waiting = asyncio.create_task(
        kubectl("wait", "--for=jsonpath={.status.allocation}", "resourceclaim/train", "--timeout=10s")
    )
    done, _ = await asyncio.wait([waiting], timeout=0.5)
    assert not done

    body = server.get("ResourceClaim", "train", "default")
    assert body is not None
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    server.put({**body, "status": {"allocation": {"devices": {"results": [result]}}}})

    assert "condition met" in await waiting
