"""What the workflow publishes: `.ci/publish` pushes to a registry and signs there; `make signing`.

There is no container engine: what stands for docker pushes the context of the image as an artifact.
"""

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.cosign import Cosign, CosignError, find_or_build_cosign
from controlplane.helm import Helm, HelmError, find_or_build_helm
from controlplane.registry import find_or_build_registry, running_registry
from dra_operator import __version__

ROOT = Path(__file__).parents[3]
PLAIN = "--allow-http-registry"
DOCKER = """#!/bin/bash
case "$*" in
*imagetools*) exec "$COSIGN" triangulate --allow-http-registry "${*: -1}" ;;
*build*--push*)
  target=operator
  while [ $# -gt 0 ]; do
    case "$1" in --tag) tag=$2 ;; --metadata-file) file=$2 ;; --target) target=$2 ;; esac
    shift
  done
  cat > "$target.tar.gz"
  pushed=$("$COSIGN" upload blob --allow-http-registry -f "$target.tar.gz" "$tag")
  digest=$(grep -o 'sha256:[0-9a-f]*' <<< "$pushed" | head -1)
  echo "{\\"containerimage.digest\\": \\"$digest\\"}" > "$file" ;;
esac
"""
HELM = """#!/bin/bash
exec "$HELM" "$@" --plain-http
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Run a registry of these tests."""
    with running_registry(find_or_build_registry(), tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(scope="module")
def cosign(tmp_path_factory):
    """Return cosign with a key pair made for these tests."""
    return Cosign(find_or_build_cosign(), tmp_path_factory.mktemp("cosign"))


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Return a release of what is checked out, in which a list stands for that of the packages."""
    folder = tmp_path_factory.mktemp("release")
    clone = tmp_path_factory.mktemp("clone") / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
    program = [sys.executable, clone / ".ci" / "release.py", folder, "--without-downloads"]
    subprocess.run(program, check=True, capture_output=True)
    listed = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "components": [{"type": "library", "name": "kopf"}],
    }
    for image in ("dra-operator", "dra-bridge"):
        listed["components"][0]["name"] = image
        (folder / f"{image}-{__version__}.cdx.json").write_text(json.dumps(listed))
    return folder


@pytest.fixture(scope="module")
def published(registry, cosign, release, tmp_path_factory):
    """Return image, chart and image of the bridge as `.ci/publish` names them."""
    folder = tmp_path_factory.mktemp("programs")
    helm = find_or_build_helm()
    for name, text in (("docker", DOCKER), ("helm", HELM)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "cosign").symlink_to(cosign.program)
    environment = {**cosign.environment, "PATH": f"{folder}:{os.environ['PATH']}"}
    environment |= {"COSIGN": str(cosign.program), "HELM": str(helm)}
    command = [ROOT / ".ci" / "publish", release, registry, *cosign.signing, PLAIN]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    digests = (release / "digests.md").read_text()
    return re.findall(r"`(?:oci://)?(.+?)`", digests)


def test_images_and_chart_verify_by_digest(cosign, published, tmp_path):
    """And with no other key."""
    assert [name.partition("@")[0].rpartition("/")[2] for name in published] == [
        "dra-operator",
        "dra-operator",
        "dra-bridge",
    ]
    other = Cosign(cosign.program, tmp_path)

    for name in published:
        assert "@sha256:" in name
        said = json.loads(cosign.run("verify", *cosign.verifying, PLAIN, name))
        digests = {each["critical"]["image"]["docker-manifest-digest"] for each in said}
        assert digests == {name.partition("@")[2]}
        with pytest.raises(CosignError, match=r"(?i)signature|verif"):
            cosign.run("verify", *other.verifying, PLAIN, name)


@pytest.mark.parametrize(("number", "image"), [(0, "dra-operator"), (2, "dra-bridge")])
def test_list_of_packages_and_provenance_are_attached(cosign, release, published, number, image):
    """Signed, and those of the release."""
    provenance = json.loads((release / f"dra-operator-{__version__}.intoto.json").read_text())

    for sort, expected in (
        ("cyclonedx", json.loads((release / f"{image}-{__version__}.cdx.json").read_text())),
        ("slsaprovenance1", provenance["predicate"]),
    ):
        envelope = json.loads(
            cosign.run("verify-attestation", *cosign.verifying, PLAIN, f"--type={sort}", published[number])
        )
        assert statement(envelope)["predicate"] == expected


def statement(envelope):
    """Return what an attestation states."""
    return json.loads(base64.b64decode(envelope["payload"]))


def test_chart_comes_back_by_its_digest(published, release, tmp_path):
    """With the bytes that were pushed; by another digest nothing comes."""
    helm = Helm(find_or_build_helm(), tmp_path)
    helm.run("pull", f"oci://{published[1]}", "--plain-http", f"--destination={tmp_path}")
    (pulled,) = tmp_path.glob("*.tgz")

    assert pulled.read_bytes() == (release / f"dra-operator-{__version__}.tgz").read_bytes()
    wrong = f"{published[1].partition('@')[0]}@sha256:{'0' * 64}"
    with pytest.raises(HelmError, match="not found"):
        helm.run("pull", f"oci://{wrong}", "--plain-http", f"--destination={tmp_path}")


@pytest.mark.parametrize("changed", [None, "sums", "bundle"])
def test_checksums_verify_unless_changed(cosign, release, tmp_path, changed):
    """As the workflow signs them; one byte of the file or of the signature is noticed."""
    sums, bundle = tmp_path / "SHA256SUMS", tmp_path / "bundle.json"
    sums.write_bytes((release / "SHA256SUMS").read_bytes())
    cosign.run("sign-blob", *cosign.signing, f"--bundle={bundle}", str(sums))
    if changed == "sums":
        text = sums.read_text()
        sums.write_text(("0" if text[0] != "0" else "1") + text[1:])
    if changed == "bundle":
        content = json.loads(bundle.read_text())
        content["messageSignature"]["signature"] = (
            "MEUCIQ" + content["messageSignature"]["signature"][6:][::-1]
        )
        bundle.write_text(json.dumps(content))
    verify = ("verify-blob", *cosign.verifying, f"--bundle={bundle}", str(sums))

    if changed is None:
        cosign.run(*verify)
    else:
        with pytest.raises(CosignError):
            cosign.run(*verify)
