"""`python -m controlplane.node KUBECONFIG NAME` adds a node to a control plane on loopback until Ctrl-C.

`make cluster` prints such a KUBECONFIG. The answer is one line: the node's cgroup and its folder.
"""

import argparse
import signal
import sys
from pathlib import Path

from controlplane.node.cluster_node import Containerd, running_node
from controlplane.node.machine import obstacle_to_containers, obstacle_to_nodes
from controlplane.node.programs import find_or_build_kubelet, find_or_build_runtime
from controlplane.node.recording import RecordingRuntime

_ENDS = {signal.SIGINT, signal.SIGTERM}


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="controlplane.node", description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("name")
    parser.add_argument(
        "--recording", action="store_true", help="record what the kubelet asks for, run nothing"
    )
    arguments = parser.parse_args()
    if obstacle := obstacle_to_nodes() or (None if arguments.recording else obstacle_to_containers()):
        print(obstacle, file=sys.stderr)  # noqa: T201 - the answer
        return 1
    runtime = RecordingRuntime() if arguments.recording else Containerd(find_or_build_runtime())
    kubelet = find_or_build_kubelet()
    with running_node(
        arguments.name, kubeconfig=arguments.kubeconfig, kubelet=kubelet, runtime=runtime
    ) as node:
        print(node.cgroup, node.folder, flush=True)  # noqa: T201 - the answer
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        signal.sigwait(_ENDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
