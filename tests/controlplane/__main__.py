"""`python -m controlplane build` gets the programs, `... run [--full]` runs them until Ctrl-C.

Where nodes can run, it gets their programs as well.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from controlplane.binaries import UnavailableError, find_or_build, say_to_stderr
from controlplane.helm import find_or_build_helm
from controlplane.node import machine, protocols
from controlplane.node.programs import find_or_build_kubelet, find_or_build_runtime
from controlplane.plane import running_control_plane, running_full_control_plane

_ENDS = {signal.SIGINT, signal.SIGTERM}


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="controlplane", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser(
        "build", help="find or build etcd, kube-apiserver and the others, helm, and what nodes need"
    )
    run = verbs.add_parser("run", help="run a control plane with its state in a temporary folder")
    run.add_argument("--full", action="store_true", help="with kube-controller-manager and kube-scheduler")
    arguments = parser.parse_args()
    try:
        programs = find_or_build()
        if arguments.verb == "build":
            find_or_build_helm()
            _build_node()
    except UnavailableError as reason:
        say_to_stderr(str(reason))
        return 1
    if arguments.verb == "build":
        say_to_stderr(f"ready: {programs.apiserver.parent}")
        return 0
    start = running_full_control_plane if arguments.full else running_control_plane
    with (
        tempfile.TemporaryDirectory(prefix="controlplane-") as folder,
        start(programs, Path(folder)) as plane,
    ):
        # Blocked only now: the programs above must not inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        print(f"export KUBECONFIG={plane.admin_kubeconfig}", flush=True)  # noqa: T201 - the answer
        signal.sigwait(_ENDS)
    return 0


def _build_node() -> None:
    """Get what the tests on nodes need, as far as this machine can run it."""
    if obstacle := machine.obstacle_to_nodes():
        say_to_stderr(f"no nodes: {obstacle}")
        return
    find_or_build_kubelet()
    protocols.find_or_compile()
    if obstacle := machine.obstacle_to_containers():
        say_to_stderr(f"nodes without containers: {obstacle}")
        return
    find_or_build_runtime()


if __name__ == "__main__":
    sys.exit(main())
