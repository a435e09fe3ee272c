"""A container runtime that runs nothing: it records what the kubelet asks for, and says that containers run.

Of a container it knows what a real runtime would give it by CDI: environment, device nodes and files of metadata. It
writes that to the container's log, in the words of the program that real containers run (`guest/`).
"""

import json
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from controlplane.node import protocols
from controlplane.node.cluster_node import ClusterNode
from controlplane.node.configuration import runtime_socket

_CRI = protocols.load("cri")
pb = _CRI.messages
METADATA = "/var/run/kubernetes.io/dra-device-attributes/"


class RecordingRuntime(_CRI.services.RuntimeServiceServicer, _CRI.services.ImageServiceServicer):
    """The CRI of one node."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, Any] = {}
        self._containers: dict[str, tuple[Any, Any]] = {}
        self._lock = threading.RLock()
        self._server = grpc.server(ThreadPoolExecutor(8))
        _CRI.services.add_RuntimeServiceServicer_to_server(self, self._server)
        _CRI.services.add_ImageServiceServicer_to_server(self, self._server)

    def programs(self) -> tuple[Path, ...]:
        """It is part of this process."""
        return ()

    def start(self, node: ClusterNode) -> None:
        """Answer at the node's socket."""
        self._cdi = node.folder / "cdi"
        self._server.add_insecure_port(f"unix:{runtime_socket(node.folder)}")
        self._server.start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.stop(0).wait()

    # What a kubelet asks for at its start, and again and again

    def Version(self, request, context):
        return pb.VersionResponse(
            version="0.1.0", runtime_name="recording", runtime_version="1.0.0", runtime_api_version="v1"
        )

    def Status(self, request, context):
        conditions = [
            pb.RuntimeCondition(type=each, status=True) for each in ("RuntimeReady", "NetworkReady")
        ]
        return pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))

    def RuntimeConfig(self, request, context):
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    def UpdateRuntimeConfig(self, request, context):
        return pb.UpdateRuntimeConfigResponse()

    def ImageFsInfo(self, request, context):
        return pb.ImageFsInfoResponse()

    def ListPodSandboxStats(self, request, context):
        return pb.ListPodSandboxStatsResponse()

    def ListContainerStats(self, request, context):
        return pb.ListContainerStatsResponse()

    # Every image is there

    def ListImages(self, request, context):
        return pb.ListImagesResponse()

    def ImageStatus(self, request, context):
        name = request.image.image
        image = pb.Image(id=name, repo_tags=[name], size=1, uid=pb.Int64Value(value=0))
        return pb.ImageStatusResponse(image=image)

    def PullImage(self, request, context):
        return pb.PullImageResponse(image_ref=request.image.image)

    # Sandboxes

    def RunPodSandbox(self, request, context):
        config = request.config
        sandbox = pb.PodSandbox(
            id=uuid.uuid4().hex,
            metadata=config.metadata,
            state=pb.SANDBOX_READY,
            created_at=time.time_ns(),
            labels=config.labels,
            annotations=config.annotations,
        )
        with self._lock:
            self._sandboxes[sandbox.id] = sandbox
        return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    def StopPodSandbox(self, request, context):
        with self._lock:
            sandbox = self._sandboxes.get(request.pod_sandbox_id)
            if sandbox is not None:
                sandbox.state = pb.SANDBOX_NOTREADY
            for created, status in self._containers.values():
                if created.pod_sandbox_id == request.pod_sandbox_id:
                    _end(status)
        return pb.StopPodSandboxResponse()

    def RemovePodSandbox(self, request, context):
        with self._lock:
            self._sandboxes.pop(request.pod_sandbox_id, None)
        return pb.RemovePodSandboxResponse()

    def PodSandboxStatus(self, request, context):
        with self._lock:
            sandbox = self._sandboxes.get(request.pod_sandbox_id)
            if sandbox is None:
                context.abort(grpc.StatusCode.NOT_FOUND, "no such sandbox")
            status = pb.PodSandboxStatus(
                id=sandbox.id,
                metadata=sandbox.metadata,
                state=sandbox.state,
                created_at=sandbox.created_at,
                labels=sandbox.labels,
                annotations=sandbox.annotations,
                network=pb.PodSandboxNetworkStatus(ip="127.0.0.2"),
                linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=pb.NamespaceOption())),
            )
        return pb.PodSandboxStatusResponse(status=status)

    def ListPodSandbox(self, request, context):
        with self._lock:
            found = [each for each in self._sandboxes.values() if _fits(request.filter, each)]
            return pb.ListPodSandboxResponse(items=found)

    # Containers

    def CreateContainer(self, request, context):
        config = request.config
        try:
            report = json.dumps(self._report(config))
        except KeyError as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"unresolvable CDI device {error}")
        log = Path(request.sandbox_config.log_directory, config.log_path)
        log.write_text(f"{time.strftime('%Y-%m-%dT%H:%M:%S.000000000Z', time.gmtime())} stdout F {report}\n")
        status = pb.ContainerStatus(
            id=uuid.uuid4().hex,
            metadata=config.metadata,
            state=pb.CONTAINER_CREATED,
            created_at=time.time_ns(),
            image=config.image,
            image_ref=config.image.image,
            labels=config.labels,
            annotations=config.annotations,
            log_path=str(log),
        )
        with self._lock:
            self._containers[status.id] = (request, status)
        return pb.CreateContainerResponse(container_id=status.id)

    def StartContainer(self, request, context):
        with self._lock:
            created, status = self._containers[request.container_id]
            status.state, status.started_at = pb.CONTAINER_RUNNING, time.time_ns()
            if Path(created.config.command[0]).name == "report":
                _end(status)
        return pb.StartContainerResponse()

    def StopContainer(self, request, context):
        with self._lock:
            if request.container_id in self._containers:
                _end(self._containers[request.container_id][1])
        return pb.StopContainerResponse()

    def RemoveContainer(self, request, context):
        with self._lock:
            self._containers.pop(request.container_id, None)
        return pb.RemoveContainerResponse()

    def ListContainers(self, request, context):
        with self._lock:
            found = [
                pb.Container(
                    id=status.id,
                    pod_sandbox_id=created.pod_sandbox_id,
                    metadata=status.metadata,
                    image=status.image,
                    image_ref=status.image_ref,
                    state=status.state,
                    created_at=status.created_at,
                    labels=status.labels,
                    annotations=status.annotations,
                )
                for created, status in self._containers.values()
                if _fits(request.filter, status)
                and request.filter.pod_sandbox_id in ("", created.pod_sandbox_id)
            ]
        return pb.ListContainersResponse(containers=found)

    def ContainerStatus(self, request, context):
        with self._lock:
            if request.container_id not in self._containers:
                context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
            return pb.ContainerStatusResponse(status=self._containers[request.container_id][1])

    def _report(self, config: Any) -> dict[str, Any]:
        """Return what a container would see; raise KeyError with a CDI device that is not in any file."""
        known = {}
        for file in self._cdi.glob("*.json"):
            spec = json.loads(file.read_text())
            known |= {f"{spec['kind']}={each['name']}": each["containerEdits"] for each in spec["devices"]}
        edits = [known[device.name] for device in config.CDI_devices]
        mounts = [mount for edit in edits for mount in edit.get("mounts", [])]
        return {
            "environment": {each.key: each.value.decode() for each in config.envs}
            | dict(variable.split("=", 1) for edit in edits for variable in edit.get("env", [])),
            "devices": [
                node["path"].removeprefix("/dev/") for edit in edits for node in edit.get("deviceNodes", [])
            ],
            "metadata": {
                mount["containerPath"].removeprefix(METADATA): Path(mount["hostPath"]).read_text()
                for mount in mounts
                if mount["containerPath"].startswith(METADATA)
            },
        }


def _end(status: Any) -> None:
    if status.state == pb.CONTAINER_RUNNING:
        status.state, status.finished_at, status.reason = pb.CONTAINER_EXITED, time.time_ns(), "Completed"


def _fits(wanted: Any, found: Any) -> bool:
    return (
        wanted.id in ("", found.id)
        and (not wanted.HasField("state") or wanted.state.state == found.state)
        and all(found.labels.get(key) == value for key, value in wanted.label_selector.items())
    )
