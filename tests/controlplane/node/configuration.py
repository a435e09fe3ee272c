"""The files that a node's kubelet, containerd and network read; everything they name lies in the node's folder."""

import os
from pathlib import Path
from typing import Any

import yaml

from controlplane.certificates import write_secret
from controlplane.node.images import PAUSE
from controlplane.serving import FEATURE_GATES

_CNI = """\
#!/bin/sh
# Connects a pod to nothing: it has an address that no interface has.
cat > /dev/null
case $CNI_COMMAND in
  VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}' ;;
  ADD) echo '{"cniVersion":"1.0.0","interfaces":[{"name":"'$CNI_IFNAME'","mac":"02:00:00:00:00:01",
    "sandbox":"'$CNI_NETNS'"}],"ips":[{"address":"127.0.0.2/8","interface":0}]}' ;;
esac
"""
_CONTAINERD = """\
version = 4
root = '{folder}/containerd'
state = '{folder}/run/state'
temp = '{folder}/tmp'
imports = []
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.tracing.processor.v1.otlp']
[plugins.'io.containerd.server.v1.grpc']
  address = '{socket}'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{socket}.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '{folder}/opt'
[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = true
[plugins.'io.containerd.cri.v1.images']
  # Layers are copied: an overlay on the overlay of a container would be refused.
  snapshotter = 'native'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE nobody may lower an oom_score_adj.
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ['{folder}/cdi']
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = 'unconfined'
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{folder}/cni-plugins']
  conf_dir = '{folder}/cni'
  use_internal_loopback = true
"""


def runtime_socket(folder: Path) -> Path:
    """Return where the container runtime of the node in `folder` answers."""
    return folder / "run" / "runtime.sock"


def write_kubelet_access(folder: Path, name: str, administrator: Path) -> Path:
    """Write a kubeconfig with which the administrator acts for a node, with the node's rights, and return its path."""
    config = yaml.safe_load(administrator.read_text())
    for entry in config["users"]:
        entry["user"] |= {"as": f"system:node:{name}", "as-groups": ["system:nodes"]}
    path = folder / "kubeconfig"
    write_secret(path, yaml.safe_dump(config).encode())
    return path


def write_kubelet_configuration(folder: Path, *, authority: Path, port: int) -> Path:
    """Write what the kubelet reads and return its path; `authority` signs the API server's certificate."""
    gates = {pair.partition("=")[0]: pair.endswith("=true") for pair in FEATURE_GATES.split(",")}
    # Who is not root is root in a namespace of users.
    gates["KubeletInUserNamespace"] = os.geteuid() != 0
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": ["none"],
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": 0,
        # Only the API server may come, which asks for logs: others on this machine would be root in containers.
        "authentication": {"webhook": {"enabled": False}, "x509": {"clientCAFile": str(authority)}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{runtime_socket(folder)}",
        "podLogsDir": str(folder / "logs"),
        "volumePluginDir": str(folder / "volume-plugins"),
        "oomScoreAdj": 0,
        # What the kubelet would set for the whole machine, init.sh lets it find as it wants it.
        "protectKernelDefaults": True,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "localStorageCapacityIsolation": False,
        "evictionHard": dict.fromkeys(
            ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%"
        ),
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "2s",
        "volumeStatsAggPeriod": "0s",
        "maxPods": 50,
        "featureGates": gates,
    }
    path = folder / "kubelet.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def write_containerd_configuration(folder: Path) -> Path:
    """Write what containerd reads, with the network plugin that it runs, and return the path."""
    plugin = folder / "cni-plugins" / "unconnected"
    plugin.write_text(_CNI)
    plugin.chmod(0o755)
    network = '{"cniVersion":"1.0.0","name":"unconnected","plugins":[{"type":"unconnected"}]}'
    (folder / "cni" / "unconnected.conflist").write_text(network)
    path = folder / "containerd.toml"
    path.write_text(_CONTAINERD.format(folder=folder, socket=runtime_socket(folder), pause=PAUSE))
    return path
