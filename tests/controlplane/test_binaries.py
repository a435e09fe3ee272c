"""Where the programs of the control plane come from; a script stands in for Go."""

import fcntl
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from controlplane import golang
from controlplane.binaries import PACKAGES, VERSION, UnavailableError, find_or_build
from controlplane.node.programs import CONTAINERD, find_or_build_kubelet, find_or_build_runtime

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


def test_old_go_is_the_reason(machine):
    """A Go that is too old for the module is named with its version."""
    machine.install_go("go1.22.1")

    with pytest.raises(UnavailableError, match=r"needs Go 1\.26 or newer; .*go1\.22\.1"):
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


def test_second_time_builds_nothing(machine):
    """What was built is found again."""
    machine.install_go()

    assert find_or_build(machine.said.append) == find_or_build(machine.said.append)
    assert len(machine.calls.read_text().splitlines()) == 1


def test_assets_come_first_and_the_rest_is_built(machine):
    """The programs of KUBEBUILDER_ASSETS are taken, and only what is missing there is built."""
    for name in ("etcd", "kube-apiserver", "kubectl"):
        machine.program(machine.assets, name)
    machine.install_go()

    programs = find_or_build(machine.said.append)

    (call,) = machine.calls.read_text().splitlines()
    assert call.endswith(f"{PACKAGES['kube-controller-manager']} {PACKAGES['kube-scheduler']}")
    assert programs.apiserver.parent == machine.assets
    assert programs.scheduler.parent == machine.cache


def test_kubelet_is_built_alone(machine):
    """The kubelet is built beside the programs of the control plane, by whoever needs a node."""
    package = "k8s.io/kubernetes/cmd/kubelet"
    machine.install_go(packages=[package])

    assert find_or_build_kubelet(machine.said.append) == machine.cache / "kubelet"
    (call,) = machine.calls.read_text().splitlines()
    assert call.endswith(f" {package}")
    assert f"version.gitVersion={VERSION}" in call


def test_only_runc_needs_a_c_compiler(machine):
    """The container runtime is built from a module of its own, runc apart from the rest and with cgo."""
    programs = {
        "containerd": f"{CONTAINERD}/containerd",
        "shim": f"{CONTAINERD}/containerd-shim-runc-v2",
        "ctr": f"{CONTAINERD}/ctr",
        "guest": "./guest",
        "unconfined": "./unconfined",
        "runc": "github.com/opencontainers/runc",
    }
    machine.install_go(packages=programs.values())

    found = find_or_build_runtime(machine.said.append)

    assert {name: getattr(found, name).name for name in programs} == {
        name: Path(package).name for name, package in programs.items()
    }
    _, runc = machine.calls.read_text().splitlines()
    assert runc.endswith(" github.com/opencontainers/runc")
    assert Path(f"{machine.calls}-cgo").read_text().split() == ["0", "1"]


def test_failed_build_leaves_nothing(machine):
    """A build that fails half-way says what Go said and leaves no program behind."""
    machine.install_go(code=1)

    with pytest.raises(UnavailableError, match="compiled/one"):
        find_or_build(machine.said.append)

    assert [path.name for path in machine.cache.iterdir()] == [".lock"]


def test_other_version_is_refused(machine):
    """Programs of another minor version are refused by name: their gates and kinds differ."""
    for name in PACKAGES:
        machine.program(machine.assets, name, "#!/bin/sh\necho Kubernetes v1.30.2\n")

    with pytest.raises(UnavailableError, match=r"written for Kubernetes v1\.37; .* is Kubernetes v1\.30\.2"):
        find_or_build(machine.said.append)


def test_one_build_at_a_time(machine):
    """A run that finds another one building waits for it, says so, and then builds nothing itself."""
    machine.cache.mkdir(parents=True)

    with (machine.cache / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = threading.Thread(target=find_or_build, args=(machine.said.append,), daemon=True)
        waiting.start()
        deadline = time.monotonic() + 10
        while not machine.said and time.monotonic() < deadline:
            time.sleep(0.01)
        for name in PACKAGES:
            machine.program(machine.cache, name)
    waiting.join(10)

    assert not waiting.is_alive()
    assert machine.said == ["another run is building the control plane; waited 0 s for it"]


def test_long_build_says_how_far_it_is(machine, monkeypatch):
    """While a build runs, a line tells the seconds and the packages so far."""
    monkeypatch.setattr(golang, "_PROGRESS_SECONDS", 0.2)
    machine.install_go()
    script = machine.bin / "go"
    script.write_text(script.read_text().replace("exit 0", "sleep 0.5; exit 0"))

    find_or_build(machine.said.append)

    assert any(line.endswith("1 packages downloaded or compiled") for line in machine.said)
