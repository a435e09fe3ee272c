"""`PYTHONPATH=tests .venv/bin/python -m bridge_stubs` compiles the kubelet's protocols for `dra_bridge` anew.

They are those of the published module k8s.io/kubelet, in the version of the control plane of the tests.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from controlplane.node.protocols import module_folder

PROTOCOLS = Path(__file__).parents[1] / "operator" / "dra_bridge" / "protocols"
SOURCES = {
    "deviceplugin": "deviceplugin/v1beta1",
    "dra": "dra/v1",
    "health": "dra-health/v1",
    "podresources": "podresources/v1",
    "registration": "pluginregistration/v1",
}


def compile_stubs(target: Path) -> None:
    """Compile all into a folder; raise `UnavailableError` without the published module."""
    apis = module_folder("k8s.io/kubelet") / "pkg" / "apis"
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "source"), Path(folder, "out")
        package = source / "dra_bridge" / "protocols"
        package.mkdir(parents=True)
        out.mkdir()
        for name, path in SOURCES.items():
            (package / f"{name}.proto").write_bytes((apis / path / "api.proto").read_bytes())
        subprocess.run(
            [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                f"--proto_path={source}",
                f"--python_out={out}",
                f"--grpc_python_out={out}",
                *(f"dra_bridge/protocols/{name}.proto" for name in SOURCES),
            ],
            check=True,
        )
        for path in (out / "dra_bridge" / "protocols").iterdir():
            (target / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    compile_stubs(PROTOCOLS)
