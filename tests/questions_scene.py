"""The cluster of examples/questions on a real API server: `python -m questions_scene` runs it until Ctrl-C.

No controller runs there, so what is broken stays broken.
"""

import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from controlplane.binaries import UnavailableError, find_or_build, say_to_stderr
from controlplane.client import Client
from controlplane.plane import running_control_plane
from dra_operator.questions.manifests import read

CLUSTER = Path(__file__).parents[1] / "examples" / "questions" / "cluster.yaml"
_CORE = "/api/v1"
_PATHS = {
    "Namespace": f"{_CORE}/namespaces",
    "Node": f"{_CORE}/nodes",
    "Pod": f"{_CORE}/namespaces/{{namespace}}/pods",
    "DeviceClass": "{group}/deviceclasses",
    "ResourceSlice": "{group}/resourceslices",
    "DeviceTaintRule": "{group}/devicetaintrules",
    "ResourceClaimTemplate": "{group}/namespaces/{namespace}/resourceclaimtemplates",
    "ResourceClaim": "{group}/namespaces/{namespace}/resourceclaims",
}
"""Where each kind is created, in the order in which they are."""

Body = dict[str, Any]


def build(client: Client) -> None:
    """Create the cluster, with what controllers would have written into status."""
    bodies = [json.loads(json.dumps(found.body)) for found in read([str(CLUSTER)])]
    uids: dict[str, str] = {}
    for kind in _PATHS:
        for body in bodies:
            if body["kind"] == kind:
                _create(client, body, uids)


def _create(client: Client, body: Body, uids: dict[str, str]) -> None:
    """Create an object; `uids` are those of the file with the ones that the server gave out instead."""
    metadata, status = dict(body["metadata"]), body.get("status")
    uid = metadata.pop("uid", "")
    metadata.pop("creationTimestamp", None)
    for owner in metadata.get("ownerReferences", ()):
        owner["uid"] = uids[owner["uid"]]
    group = f"/apis/{body['apiVersion']}"
    path = _PATHS[body["kind"]].format(group=group, namespace=metadata.get("namespace"))
    created = client.create(path, {**body, "metadata": metadata})
    uids[uid] = created["metadata"]["uid"]
    if status is not None:
        for consumer in status.get("reservedFor", ()):
            consumer["uid"] = uids.get(consumer["uid"], consumer["uid"])
        client.patch(f"{path}/{metadata['name']}/status", {"status": status})
        # Else it would count as changed just now.
        client.patch(f"{path}/{metadata['name']}", {"metadata": {"managedFields": [{}]}})


def main() -> int:
    """Run the cluster until Ctrl-C; return the exit code."""
    try:
        programs = find_or_build()
    except UnavailableError as reason:
        say_to_stderr(str(reason))
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="questions-") as folder,
        running_control_plane(programs, Path(folder)) as plane,
    ):
        build(plane.client)
        print(f"export KUBECONFIG={plane.admin_kubeconfig}", flush=True)  # noqa: T201 - the answer
        ends = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main())
