"""Builds what a release consists of, out of the commit that is checked out: `.ci/release.py FOLDER`.

The same commit gives the same bytes, wherever and whenever. Nothing is signed here: that is done by
`.github/workflows/release.yaml`.
With `--without-downloads` there are neither files of kubectl-dra nor the list of packages in the image.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
IMAGE: Final = (
    "Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "requirements",
    "operator",
    "manifests/components/ownership",
    "manifests/components/device-maintenance",
)
"""What the Dockerfile copies."""
LOCKS: Final = {"dra-operator": "run.txt", "dra-bridge": "bridge.txt"}
"""The images, and the files of requirements/ that name what is in them."""
BUILD_TYPE: Final = "urn:dra-operator:make-release"


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform that kubectl-dra is built for; `tags` are those of wheels, the best first."""

    name: str
    tags: tuple[str, ...]
    sys_platform: str
    system: str
    machine: str


def _linux(machine: str) -> Platform:
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(28, 16, -1)]
    return Platform(f"linux-{machine}", (*tags, f"manylinux2014_{machine}"), "linux", "Linux", machine)


_MACS: Final = tuple(
    [f"macosx_{major}_0_{kind}" for major in range(14, 10, -1) for kind in ("arm64", "universal2")]
)
PLATFORMS: Final = (
    _linux("x86_64"),
    _linux("aarch64"),
    Platform("macos-arm64", _MACS, "darwin", "Darwin", "arm64"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The commit that is released, exported to a folder; `epoch` is its time, in seconds."""

    folder: Path
    commit: str
    epoch: int
    version: str

    def names(self, file: str) -> list[str]:
        """Return the packages that a file of requirements/ names."""
        lines = (self.folder / "requirements" / file).read_text(encoding="utf-8").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def main() -> int:
    """Build it all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without-downloads", action="store_true")
    arguments = parser.parse_args()
    out = arguments.folder.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        source = export(Path(temporary) / "source")
        os.environ["SOURCE_DATE_EPOCH"] = str(source.epoch)
        build_packages(source, out)
        build_chart(source, out)
        build_image_context(source, out)
        if not arguments.without_downloads:
            build_plugins(source, out, Path(temporary))
            for image, lock in LOCKS.items():
                list_packages(source, out, Path(temporary), image, lock)
    write_checksums(source, out)
    write_provenance(source, out)
    print("\n".join(f"{path.stat().st_size:>12,}  {path.name}" for path in sorted(out.iterdir())))
    return 0


def export(folder: Path) -> Source:
    """Write the commit that is checked out to a folder, without what is not committed."""
    folder.mkdir()
    text = _output("git", "log", "-1", "--format=%H %ct")
    commit, epoch = text.split()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="fully_trusted")  # noqa: S202 - our own commit
    text = (folder / "operator" / "dra_operator" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "(.+)"', text)
    assert found is not None
    return Source(folder, commit, int(epoch), found[1])


def build_packages(source: Source, out: Path) -> None:
    """Build wheel and source distribution."""
    targets = ("--target", "wheel", "--target", "sdist", "--directory", str(out))
    _run(sys.executable, "-m", "hatchling", "build", *targets, cwd=source.folder)


def build_chart(source: Source, out: Path) -> None:
    """Pack the chart, with the manifests that it links to; helm's own packages have the time of their making."""
    chart = source.folder / "charts" / "dra-operator"
    ignored = {
        line for line in (chart / ".helmignore").read_text(encoding="utf-8").splitlines() if line[:1] != "#"
    }
    files = sorted(path for path in _walk(chart) if path.name not in ignored)
    files.sort(key=lambda path: path.name != "Chart.yaml" or path.parent != chart)
    members = ((f"dra-operator/{path.relative_to(chart)}", path) for path in files)
    _pack(out / f"dra-operator-{source.version}.tgz", members, source.epoch)


def build_image_context(source: Source, out: Path) -> None:
    """Pack what `docker build -` needs for the image."""
    tops = [source.folder / name for name in IMAGE]
    files = sorted(path for top in tops for path in (_walk(top) if top.is_dir() else (top,)))
    members = ((str(path.relative_to(source.folder)), path) for path in files)
    _pack(out / f"dra-operator-{source.version}-image.tar.gz", members, source.epoch)


def build_plugins(source: Source, out: Path, scratch: Path) -> None:
    """Build kubectl-dra for each platform, one file for all versions of Python.

    Ends with a message that names platform, version and package where there is no wheel.
    """
    for platform in PLATFORMS:
        wheels = scratch / platform.name
        for python in PYTHONS:
            _download(source, platform, python, wheels)
        described = [_describe(platform, python, scratch) for python in PYTHONS]
        _run(
            *(
                sys.executable,
                "-m",
                "pex",
                "--no-pypi",
                "--find-links",
                str(wheels),
                "--find-links",
                str(out),
            ),
            *("--intransitive", "--venv", "prepend", "--sh-boot", "--console-script", "kubectl-dra"),
            *(part for path in described for part in ("--complete-platform", str(path))),
            *("--output-file", str(out / f"kubectl-dra-{platform.name}")),
            f"dra-operator=={source.version}",
            *source.names("plugin.in"),
            cwd=scratch,
        )


def _download(source: Source, platform: Platform, python: str, wheels: Path) -> None:
    requirements = str(source.folder / "requirements" / "plugin.txt")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--requirement", requirements, "--only-binary", ":all:"),
            *(part for tag in platform.tags for part in ("--platform", tag)),
            *("--python-version", python, "--dest", str(wheels)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        raise SystemExit(f"kubectl-dra for {platform.name} with Python {python}: {last}")


def _describe(platform: Platform, python: str, scratch: Path) -> Path:
    """Write what pex asks of a platform that is not this one, and return the file."""
    major, minor = map(int, python.split("."))
    tags = [*cpython_tags((major, minor), platforms=platform.tags)]
    tags += compatible_tags((major, minor), f"cp{major}{minor}", platform.tags)
    environment = {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": platform.machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": platform.system,
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": platform.sys_platform,
    }
    path = scratch / f"{platform.name}-{python}.json"
    path.write_text(json.dumps({"marker_environment": environment, "compatible_tags": [*map(str, tags)]}))
    return path


def list_packages(source: Source, out: Path, scratch: Path, image: str, lock: str) -> None:
    """Write the packages of an image with their licences, as CycloneDX: those of its lock, installed."""
    folder = scratch / image
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    python = str(folder / "bin" / "python")
    requirements = str(source.folder / "requirements" / lock)
    quiet = ("--quiet", "--disable-pip-version-check")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", *quiet)
    _run(*pip, "--require-hashes", "--requirement", requirements)
    target = str(out / f"{image}-{source.version}.cdx.json")
    program = (
        sys.executable,
        "-m",
        "cyclonedx_py",
        "environment",
        "--output-reproducible",
        "--output-file",
        target,
    )
    _run(*program, "--pyproject", str(source.folder / "pyproject.toml"), python)
    listed = {
        (canonicalize_name(each["name"]), each["version"])
        for each in json.loads(Path(target).read_text())["components"]
    }
    locked = set(_locked(Path(requirements).read_text(encoding="utf-8")))
    if listed != locked:
        raise SystemExit(f"{target}: differs from requirements/{lock}: {sorted(listed ^ locked)}")


def _locked(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and version of what a lock has for this platform."""
    for line in text.splitlines():
        if "==" in line and not line.startswith(("#", " ")):
            locked = Requirement(line.removesuffix("\\").strip())
            if locked.marker is None or locked.marker.evaluate():
                yield canonicalize_name(locked.name), str(locked.specifier).removeprefix("==")


def write_checksums(source: Source, out: Path) -> None:
    """Write SHA256SUMS of all other files, for `sha256sum --check`."""
    lines = [f"{digest}  {name}\n" for name, digest in _digests(source, out)]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def write_provenance(source: Source, out: Path) -> None:
    """Write what was built out of what, as an in-toto statement with SLSA's predicate; nobody has signed it yet."""
    commit = {"uri": "git+file:///", "digest": {"gitCommit": source.commit}}
    statement: dict[str, Any] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in _digests(source, out)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": source.version},
                "resolvedDependencies": [commit],
            },
            "runDetails": {"builder": {"id": os.environ.get("BUILDER_ID", BUILD_TYPE)}},
        },
    }
    (out / _provenance(source)).write_text(json.dumps(statement, indent=1) + "\n", encoding="utf-8")


def _provenance(source: Source) -> str:
    return f"dra-operator-{source.version}.intoto.json"


def _digests(source: Source, out: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(out.iterdir()):
        if path.name not in ("SHA256SUMS", _provenance(source)):
            yield path.name, hashlib.sha256(path.read_bytes()).hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, also behind links."""
    for parent, _, names in os.walk(folder, followlinks=True):
        yield from (Path(parent) / name for name in names)


def _pack(target: Path, members: Iterable[tuple[str, Path]], epoch: int) -> None:
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in members:
            content = path.read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = (
                len(content),
                epoch,
                0o755 if os.access(path, os.X_OK) else 0o644,
            )
            archive.addfile(member, io.BytesIO(content))


def _run(*command: str, cwd: Path = ROOT) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=sys.stderr)


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
