"""The in-memory API server answers as kube-apiserver does.

Each scenario is a sequence of requests that is sent to both; every pair of answers must be equal: status code, content
type, body; of refusals code and reason, as the words are our own. The real server's answers are also compared with
those recorded in tests/testing, by which the in-memory server is tested where there is no control plane. To record
them anew: RECORD_ANSWERS=1 pytest <this file>.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from controlplane import ControlPlane
from dra_operator.testing.server import ApiServer
from factories import manifest
from testing.comparison import Side, differences, without_identity
from testing.recording import Answers, read_recording, write_recording
from testing.scenarios import SCENARIOS


@pytest.fixture(scope="module")
def recording() -> Iterator[dict[str, Answers]]:
    """Return the recorded answers by scenario; written back after the last test if they are recorded anew."""
    if "RECORD_ANSWERS" not in os.environ:
        yield read_recording()
        return
    found: dict[str, Answers] = {}
    yield found
    write_recording(found)


@asynccontextmanager
async def both(control_plane: ControlPlane, namespace: str) -> AsyncIterator[tuple[Side, Side]]:
    """Yield the real server and the one in memory, each with the namespace."""
    tls = ssl.create_default_context(cafile=str(control_plane.ca))
    headers = {"Authorization": f"Bearer {control_plane.tokens['admin']}"}
    async with ApiServer() as server:
        server.put(manifest("Namespace", namespace))
        connector = aiohttp.TCPConnector(ssl=tls)
        async with (
            aiohttp.ClientSession(control_plane.server, headers=headers, connector=connector) as real,
            aiohttp.ClientSession(server.url) as sim,
        ):
            yield Side(real, namespace), Side(sim, namespace)


@pytest.mark.parametrize("name", list(SCENARIOS))
async def test_the_answers_are_those_of_kube_apiserver(
    control_plane: ControlPlane, namespace: str, recording: dict[str, Answers], name: str
) -> None:
    """A sequence of requests gets the same answers from the in-memory API server as from the real one."""
    found: list[str] = []
    expected_answers: Answers = []
    async with both(control_plane, namespace) as (real, sim):
        for number, step in enumerate(SCENARIOS[name]):
            expected, answered = await asyncio.gather(real.send(step), sim.send(step))
            expected_answers.append(expected)
            if expected != answered:
                found.append(f"step {number}: {step.method} {step.path}")
                found.extend(differences(expected, answered, ""))

    assert not found, "\n".join(found)
    assert recording.setdefault(name, expected_answers) == expected_answers


MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train, labels: {team: a}}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.example.com, count: 2}}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: conformance}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, basic: {attributes: {model: {string: h100}}, capacity: {memory: {value: 80Gi}}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: broken}
spec:
  deviceSelector: {driver: gpu.example.com, pool: node-1, device: gpu-0}
  taint: {key: example.com/broken, effect: NoSchedule}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: gpu, resourceClaimName: train}]
"""
KUBECTL = (
    ("apply", "-f", "-"),
    ("apply", "-f", "-"),
    ("get", "resourceslices", "--field-selector=spec.pool.name=node-1", "-o", "name"),
    ("get", "resourceclaim", "train", "-o", "jsonpath={.spec}{.status}"),
    ("label", "resourceclaim", "train", "team=b", "--overwrite"),
    ("annotate", "resourceclaim", "train", "note=1"),
    ("describe", "resourceclaim", "train"),
    ("describe", "resourceslice", "conformance"),
    ("describe", "devicetaintrule", "broken"),
    ("describe", "pod", "user"),
    ("patch", "resourceclaim", "train", "--type=merge", "-p", '{"metadata":{"labels":{"team":null}}}'),
    ("delete", "-f", "-"),
)


async def test_kubectl_says_the_same(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """The same commands print the same, times and identities aside."""
    async with ApiServer() as server:
        server.put(manifest("Namespace", namespace))
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(server.kubeconfig())
        for command in KUBECTL:
            given = MANIFEST if "-" in command else None
            arguments = ("-n", namespace, *command)
            expected = control_plane.kubectl(*arguments, input=given)
            answered = await asyncio.to_thread(
                control_plane.kubectl, *arguments, input=given, kubeconfig=kubeconfig
            )

            assert without_identity(answered) == without_identity(expected), command


@pytest.mark.parametrize(
    "path",
    [
        "/apis/resource.k8s.io",
        "/apis/resource.k8s.io/v1",
        "/apis/resource.k8s.io/v1beta2",
        "/apis/resource.k8s.io/v1beta1",
        "/apis/resource.k8s.io/v1alpha3",
        "/apis/coordination.k8s.io/v1",
    ],
)
async def test_discovery_says_the_same(control_plane: ControlPlane, path: str) -> None:
    """Groups, versions and kinds are described alike; kinds that the in-memory server lacks are left out."""
    async with (
        ApiServer() as server,
        aiohttp.ClientSession(server.url) as session,
        session.get(path) as response,
    ):
        answered = await response.json()
    expected = control_plane.client.get(path)
    served = {item["name"] for item in answered.get("resources", ())}
    if "resources" in expected:
        kept = [item for item in expected["resources"] if item["name"] in served]
        for item in kept:
            item.pop("storageVersionHash", None)
            # Nobody deletes collections in memory.
            item["verbs"] = [verb for verb in item["verbs"] if verb != "deletecollection"]
        expected["resources"] = [
            {name: value for name, value in item.items() if name != "categories"} for item in kept
        ]

    assert answered == expected
