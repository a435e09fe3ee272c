"""What `make release` builds, as far as it needs no network: `.ci/release.py`."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml

from dra_operator import __version__

WHEEL = f"dra_operator-{__version__}-py3-none-any.whl"
CHART = f"dra-operator-{__version__}.tgz"
CONTEXT = f"dra-operator-{__version__}-image.tar.gz"
PROVENANCE = f"dra-operator-{__version__}.intoto.json"


def build(checkout, out):
    """Build a release of a checkout."""
    program = [sys.executable, checkout / ".ci" / "release.py", out, "--without-downloads"]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(scope="module")
def clone(repository, tmp_path_factory):
    """Return a clone of the repository."""
    if not (repository / ".git").exists() or shutil.which("git") is None:
        pytest.skip("a release is made of a commit, and here is none")
    folder = tmp_path_factory.mktemp("clone") / "elsewhere"
    subprocess.run(["git", "clone", "--quiet", "--shared", repository, folder], check=True)
    return folder


@pytest.fixture(scope="module")
def released(clone, tmp_path_factory):
    """Return the folder with what was built, and its files."""
    out = tmp_path_factory.mktemp("release")
    return out, build(clone, out)


def test_the_same_commit_gives_the_same_bytes(repository, released, tmp_path):
    """Built in another folder, later, and whatever else lies there."""
    other = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", repository, other], check=True)
    (other / "operator" / "dra_operator" / "scratch.py").write_text("raise SystemExit\n")
    (other / "charts" / "dra-operator" / "values.local.yaml").write_text("replicas: 7\n")

    assert build(other, tmp_path / "out") == released[1]


def test_checksums_and_provenance_name_every_file(released):
    """`sha256sum --check` is content; the statement has the same digests, and the commit."""
    out, files = released
    built = files.keys() - {"SHA256SUMS", PROVENANCE}
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in built}

    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=out, check=True)
    lines = files["SHA256SUMS"].decode().splitlines()
    assert {line.split("  ")[1]: line.split("  ")[0] for line in lines} == digests
    statement = json.loads(files[PROVENANCE])
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == digests
    (source,) = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert len(source["digest"]["gitCommit"]) == 40


def test_packages_hold_what_their_users_need(released, tmp_path):
    """The wheel the package, the chart its manifests as files, the context all that the Dockerfile copies."""
    out, _ = released
    with zipfile.ZipFile(out / WHEEL) as wheel:
        assert "dra_operator/cli/run.py" in wheel.namelist()
    with tarfile.open(out / CHART) as chart:
        assert all(member.isfile() for member in chart)
        assert chart.getnames()[0] == "dra-operator/Chart.yaml"
        assert {"dra-operator/manifests/base/access.yaml", "dra-operator/values.schema.json"} <= {
            *chart.getnames()
        }
        described = yaml.safe_load(chart.extractfile("dra-operator/Chart.yaml"))
        assert described["version"] == __version__
    with tarfile.open(out / CONTEXT) as context:
        context.extractall(tmp_path, filter="data")
    copied = [
        source
        for line in (tmp_path / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert copied
    assert [source for source in copied if not (tmp_path / source).exists()] == []


def test_version_is_the_same_everywhere(repository):
    """What is installed is what this version says of itself, in manifests, chart and pages."""
    tags = [
        image["newTag"]
        for name in ("manifests", "manifests/explain-only")
        for image in yaml.safe_load((repository / name / "kustomization.yaml").read_text())["images"]
    ]

    assert tags == [__version__] * 2
    assert f"dra-operator:{__version__} ." in (repository / "docs" / "tasks" / "install.md").read_text()
