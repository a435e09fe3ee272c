"""The image archive that nodes import."""

import hashlib
import io
import json
import tarfile

import pytest

from controlplane.node.images import DOCUMENTED, GUEST, PAUSE, write_image


@pytest.fixture
def files(tmp_path):
    """Write an archive and return its files by path."""
    (tmp_path / "guest").write_bytes(b"program")
    write_image(tmp_path / "image.tar", tmp_path / "guest")
    with tarfile.open(tmp_path / "image.tar") as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}


def blob(files, descriptor):
    """Return what a descriptor describes, after a check of digest and size."""
    found = files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
    assert hashlib.sha256(found).hexdigest() == descriptor["digest"].removeprefix("sha256:")
    assert len(found) == descriptor["size"]
    return found


def test_every_name_leads_to_the_program(files):
    """Under each name there is a manifest, and its layer has the program under each of its names."""
    index = json.loads(files["index.json"])

    assert {each["annotations"]["io.containerd.image.name"] for each in index["manifests"]} == {
        GUEST,
        PAUSE,
        DOCUMENTED,
    }
    for described in index["manifests"]:
        (layer,) = json.loads(blob(files, described))["layers"]
        with tarfile.open(fileobj=io.BytesIO(blob(files, layer))) as content:
            assert content.extractfile("bin/guest").read() == b"program"
            assert content.extractfile("bin/sleep").read() == b"program"


def test_configuration_names_the_layer(files):
    """The image's configuration names its layer by the digest of what is unpacked."""
    described, *_ = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, described))

    config = json.loads(blob(files, manifest["config"]))

    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
