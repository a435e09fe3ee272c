"""helm, built from its published module as the control plane is, and the project's chart."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from controlplane.binaries import Installation, install, say_to_stderr
from controlplane.golang import Say

CHART = Path(__file__).parents[3] / "charts" / "dra-operator"
VERSION = "v3.22.0"
# Without a cluster, helm renders for the version that it was built for.
_KUBERNETES = "k8sVersionMajor=1 -X {0}.k8sVersionMinor=37"
_SET_IN = ("helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules")

HELM = Installation(
    what="helm",
    module=Path(__file__).parent,
    packages={"helm": "helm.sh/helm/v3/cmd/helm"},
    folder=f"helm/{VERSION}",
    duration="3 minutes",
    linker_flags=" ".join(
        (
            f"-X helm.sh/helm/v3/internal/version.version={VERSION}",
            *(f"-X {package}.{_KUBERNETES.format(package)}" for package in _SET_IN),
        )
    ),
)


class HelmError(RuntimeError):
    """helm ended with an error; the text is what it said."""


class Helm:
    """helm, with its files in a folder of its own, on the cluster of a kubeconfig or on none."""

    def __init__(self, program: Path, folder: Path, kubeconfig: Path | None = None) -> None:
        self._program = program
        self._environment = {
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig or folder / "none"),
            "PATH": "/usr/bin:/bin",
        }

    def run(self, *arguments: str) -> str:
        """Return what helm prints; raise `HelmError` with what it says if it fails."""
        return self._run(*arguments).stdout

    def push(self, package: Path, charts: str) -> str:
        """Push a package to a registry without TLS, and return its digest, which helm says beside its output."""
        said = self._run("push", str(package), charts, "--plain-http").stderr
        return said.partition("Digest: ")[2].split()[0]

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self._program, *arguments], env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise HelmError(done.stderr)
        return done

    def template(
        self, *arguments: str, name: str = "dra-operator", namespace: str = "dra-operator"
    ) -> list[Any]:
        """Return the objects of the chart, with flags such as `--set=claims=all`; hooks are left out."""
        text = self.run("template", name, str(CHART), f"--namespace={namespace}", "--no-hooks", *arguments)
        return [each for each in yaml.safe_load_all(text) if each is not None]


def find_or_build_helm(say: Say = say_to_stderr) -> Path:
    """Return helm; raise `UnavailableError` if there can be none."""
    return install(HELM, say)["helm"]
