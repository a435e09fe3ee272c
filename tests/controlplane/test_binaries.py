"""Where the programs of the control plane come from; a script stands in for Go."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from controlplane.binaries import PACKAGES, VERSION, UnavailableError, find_or_build

GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version {version} linux/amd64"; exit; fi
echo "$@" >>"{calls}"
echo "$CGO_ENABLED" >>"{calls}-cgo"
echo compiled/one >&2
for package in {packages}; do
  case " $* " in *" $package "*) ;; *) continue ;; esac
  name=$(basename "$package"); [ "$name" = v3 ] && name=server
  printf '#!/bin/sh\\necho Kubernetes {kubernetes}\\n' >"$GOBIN/$name"
  chmod +x "$GOBIN/$name"
done
exit {code}
"""


class Machine:
    """A machine with a cache, a folder of programs and, if wanted, a Go."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache" / "dra-operator" / "controlplane" / VERSION
        self.assets = folder / "assets"
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.said: list[str] = []
        for made in (self.assets, self.bin):
            made.mkdir()

    def install_go(
        self, version: str = "go1.26.8", *, code: int = 0, packages: Iterable[str] = PACKAGES.values()
    ) -> None:
        """Put the stand-in for Go on the path, which can build these packages."""
        text = GO.format(
            version=version,
            calls=self.calls,
            packages=" ".join(packages),
            kubernetes=VERSION,
            code=code,
        )
        self.program(self.bin, "go", text)

    def program(self, folder: Path, name: str, text: str = f"#!/bin/sh\necho Kubernetes {VERSION}\n") -> None:
        """Make a program."""
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    """Return a machine that has nothing but a shell."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    if Path("/usr/bin/go").exists():
        pytest.skip("this machine has Go beside its shell, so it cannot be without one")
    return Machine(tmp_path)


def test_missing_go_is_the_reason(machine):
    """Without programs and without Go, the reason names both places and what would build them."""
    with pytest.raises(UnavailableError, match=r"not in KUBEBUILDER_ASSETS nor in .*there is no Go 1\.26"):
        find_or_build(machine.said.append)


def test_all_is_built_by_one_command(machine):
    """With nothing there, one `go install` builds everything with its version stamped, and etcd gets its name."""
    machine.install_go()

    programs = find_or_build(machine.said.append)

    (call,) = machine.calls.read_text().splitlines()
    assert call.startswith("install ")
    assert call.endswith(" ".join(PACKAGES.values()))
    assert f"version.gitVersion={VERSION}" in call
    assert programs.etcd == machine.cache / "etcd"


def test_another_scheduler_is_built_beside_the_others(machine, monkeypatch):
    """SCHEDULER_VERSION takes the scheduler of that version, whatever KUBEBUILDER_ASSETS has of this name."""
    machine.install_go()
    for name in PACKAGES:
        machine.program(machine.assets, name)
    monkeypatch.setenv("SCHEDULER_VERSION", "1.38")

    programs = find_or_build(machine.said.append)

    (call,) = machine.calls.read_text().splitlines()
    assert "-modfile=kubernetes_1_38.mod" in call
    assert call.endswith(PACKAGES["kube-scheduler"])
    assert programs.apiserver.parent == machine.assets
    assert programs.scheduler.parent.name.startswith("v1.38.")


def test_an_unknown_scheduler_is_refused(machine, monkeypatch):
    """The versions that can be built are named."""
    for name in PACKAGES:
        machine.program(machine.assets, name)
    monkeypatch.setenv("SCHEDULER_VERSION", "1.31")

    with pytest.raises(UnavailableError, match=r"SCHEDULER_VERSION is 1\.31; known are 1\.38"):
        find_or_build(machine.said.append)


def test_other_version_is_refused(machine):
    """Programs of another minor version are refused by name: their gates and kinds differ."""
    for name in PACKAGES:
        machine.program(machine.assets, name, "#!/bin/sh\necho Kubernetes v1.30.2\n")

    with pytest.raises(UnavailableError, match=r"written for Kubernetes v1\.37; .* is Kubernetes v1\.30\.2"):
        find_or_build(machine.said.append)
