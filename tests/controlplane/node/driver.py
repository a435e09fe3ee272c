"""A DRA driver of one node: registers with the kubelet, keeps a slice published, prepares claims as CDI devices.

Its devices are `/dev/null` under other names. A container finds a variable for each: `GPU_1=of-POOL`, and
`SHARE_OF_GPU_1` with the share's ID if the device is shared. Metadata of devices (KEP-5304) is laid out as by
Kubernetes' package `kubeletplugin`. Source: k8s.io/kubelet, pkg/apis/dra/v1 and pkg/apis/pluginregistration/v1.
"""

import json
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc

from controlplane.node import protocols
from controlplane.node.cluster_node import ClusterNode
from controlplane.node.recording import METADATA
from controlplane.scene import RESOURCE

_DRA = protocols.load("dra")
_REGISTRATION = protocols.load("registration")
_SLICES = f"{RESOURCE}/resourceslices"
_CDI_VERSION = "0.6.0"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


@dataclass(frozen=True, slots=True)
class Call:
    """A claim that the kubelet has asked for."""

    verb: str
    claim: str


class Driver(_DRA.services.DRAPluginServicer, _REGISTRATION.services.RegistrationServicer):
    """The driver `name` on a node, with these devices, as they are written in a slice.

    `counters` are the counter sets that they draw on. While `failure` is set, preparing a claim fails with this text.
    """

    def __init__(
        self,
        node: ClusterNode,
        name: str,
        devices: Sequence[Mapping[str, Any]],
        counters: Sequence[Mapping[str, Any]] = (),
        **spec: Any,
    ) -> None:
        self.node, self.name = node, name
        self.calls: list[Call] = []
        self.failure = ""
        self.published = 0
        self._attributes = {each["name"]: each.get("attributes", {}) for each in devices}
        contents: list[dict[str, Any]] = [{"devices": [dict(each) for each in devices], **spec}]
        if counters:
            contents.append({"sharedCounters": list(counters)})
        pool = {"name": node.name, "generation": 1, "resourceSliceCount": len(contents)}
        self._slices = [
            {
                "metadata": {"name": f"{node.name}-{name}-{number}"},
                "spec": {"driver": name, "nodeName": node.name, "pool": pool, **content},
            }
            for number, content in enumerate(contents)
        ]
        self._folder = node.folder / "kubelet" / "plugins" / name
        self._registrar = node.folder / "kubelet" / "plugins_registry" / f"{name}-reg.sock"
        self._ended = threading.Event()
        self._registered = threading.Event()
        self._refusal = ""
        self._publisher = threading.Thread(target=self._keep_published, daemon=True)
        self._server = grpc.server(ThreadPoolExecutor(4))
        _DRA.services.add_DRAPluginServicer_to_server(self, self._server)
        _REGISTRATION.services.add_RegistrationServicer_to_server(self, self._server)

    def start(self) -> None:
        """Register with the kubelet and publish the slices; return when both is done."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for socket in (self._folder / "dra.sock", self._registrar):
            self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()
        self.wait_registered()
        self._publisher.start()
        self.node.wait_until(lambda: self.published >= len(self._slices), what=f"the slices of {self.name}")

    def wait_registered(self) -> None:
        """Return when the kubelet has registered the driver; raise if it has refused it."""
        self.node.wait_until(self._registered.is_set, what=f"the registration of {self.name}")
        assert not self._refusal, self._refusal

    def forget_registration(self) -> None:
        """Let `wait_registered` wait for the next one."""
        self._registered.clear()

    def stop(self) -> None:
        """Leave the kubelet and delete the slices."""
        self._ended.set()
        if self._publisher.ident is not None:
            self._publisher.join()
        self._server.stop(0).wait()
        self._registrar.unlink(missing_ok=True)
        for body in self._slices:
            self.node.client.delete(f"{_SLICES}/{body['metadata']['name']}")

    def prepared(self, claim: str) -> int:
        """Return how often the kubelet has asked to prepare a claim."""
        return self.calls.count(Call("prepare", claim))

    def unprepared(self, claim: str) -> int:
        """Return how often the kubelet has asked to end the preparation of a claim."""
        return self.calls.count(Call("unprepare", claim))

    def _keep_published(self) -> None:
        """Publish a slice whenever it is gone: a kubelet deletes those of its node at its start."""
        while not self._ended.wait(0.1):
            for body in self._slices:
                if self.node.client.request("GET", f"{_SLICES}/{body['metadata']['name']}").status == 404:
                    self.node.client.create(_SLICES, body)
                    self.published += 1

    # The service Registration

    def GetInfo(self, request, context):
        return _REGISTRATION.messages.PluginInfo(
            type="DRAPlugin",
            name=self.name,
            endpoint=str(self._folder / "dra.sock"),
            supported_versions=["v1.DRAPlugin"],
        )

    def NotifyRegistrationStatus(self, request, context):
        self._refusal = request.error
        self._registered.set()
        return _REGISTRATION.messages.RegistrationStatusResponse()

    # The service DRAPlugin

    def NodePrepareResources(self, request, context):
        answer = _DRA.messages.NodePrepareResourcesResponse()
        for asked in request.claims:
            self.calls.append(Call("prepare", asked.name))
            claim = self.node.client.get(
                f"{RESOURCE}/namespaces/{asked.namespace}/resourceclaims/{asked.name}"
            )
            if self.failure:
                answer.claims[asked.uid].error = self.failure
            elif claim["metadata"]["uid"] != asked.uid:
                answer.claims[asked.uid].error = "this claim is gone, and another one has its name"
            else:
                answer.claims[asked.uid].devices.extend(self._prepare(claim))
        return answer

    def NodeUnprepareResources(self, request, context):
        answer = _DRA.messages.NodeUnprepareResourcesResponse()
        for asked in request.claims:
            self.calls.append(Call("unprepare", asked.name))
            self._cdi_file(asked.uid).unlink(missing_ok=True)
            shutil.rmtree(self._folder / asked.uid, ignore_errors=True)
            answer.claims[asked.uid].SetInParent()
        return answer

    def _prepare(self, claim: Mapping[str, Any]) -> list[Any]:
        """Write the CDI devices of a claim and return what the kubelet is told of them."""
        uid, prepared, kind = claim["metadata"]["uid"], [], f"{self.name}/device"
        edits: dict[str, dict[str, Any]] = {}
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if result["driver"] != self.name:
                continue
            device, share = result["device"], result.get("shareID")
            names = [f"{uid}-{device}-{share}" if share else f"{uid}-{device}"]
            edits[names[0]] = _device_edits(device, result["pool"], share)
            request = result["request"].partition("/")[0]
            names.append(f"{uid}-metadata-{request}")
            edits[names[1]] = {"mounts": [self._write_metadata(claim, result["request"])]}
            prepared.append(
                _DRA.messages.Device(
                    request_names=[result["request"]],
                    pool_name=result["pool"],
                    device_name=device,
                    cdi_device_ids=[f"{kind}={name}" for name in names],
                    share_id=share,
                )
            )
        devices = [{"name": name, "containerEdits": edit} for name, edit in edits.items()]
        spec = {"cdiVersion": _CDI_VERSION, "kind": kind, "devices": devices}
        file = self._cdi_file(uid)
        # The runtime must not read half a file.
        file.with_suffix(".new").write_text(json.dumps(spec))
        file.with_suffix(".new").replace(file)
        return prepared

    def _write_metadata(self, claim: Mapping[str, Any], request: str) -> dict[str, Any]:
        """Write the metadata of a request's devices and return the CDI mount that brings it into containers."""
        metadata, base = claim["metadata"], request.partition("/")[0]
        entry = metadata.get("annotations", {}).get(POD_CLAIM_NAME)
        results = claim["status"]["allocation"]["devices"]["results"]
        content = {
            "apiVersion": "metadata.resource.k8s.io/v1beta1",
            "kind": "DeviceMetadata",
            "metadata": {"generation": 1, **{key: metadata[key] for key in ("name", "namespace", "uid")}},
            **({"podClaimName": entry} if entry else {}),
            "requests": [
                {
                    "name": request,
                    "devices": [
                        {
                            "driver": self.name,
                            "pool": result["pool"],
                            "name": result["device"],
                            # What is in the network may be published by the driver of another node.
                            "attributes": self._attributes.get(result["device"], {}),
                        }
                        for result in results
                        if (result["driver"], result["request"]) == (self.name, request)
                    ],
                }
            ],
        }
        file = self._folder / metadata["uid"] / base / "metadata.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content) + "\n")
        kind = f"resourceclaimtemplates/{entry}" if entry else f"resourceclaims/{metadata['name']}"
        return {
            "hostPath": str(file),
            "containerPath": f"{METADATA}{kind}/{base}/{self.name}-metadata.json",
            "options": ["ro", "bind"],
        }

    def _cdi_file(self, uid: str) -> Any:
        return self.node.folder / "cdi" / f"{self.name}-{uid}.json"


def _device_edits(device: str, pool: str, share: str | None) -> dict[str, Any]:
    variable = device.upper().replace("-", "_")
    return {
        "env": [f"{variable}=of-{pool}", *([f"SHARE_OF_{variable}={share}"] if share else [])],
        "deviceNodes": [
            {"path": f"/dev/{device}", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3}
        ],
    }
