"""The files that a node's programs read."""

import tomllib

import pytest
import yaml

from controlplane.node.configuration import (
    runtime_socket,
    write_containerd_configuration,
    write_kubelet_access,
    write_kubelet_configuration,
)


@pytest.fixture
def folder(tmp_path):
    """Return a node's folder."""
    for name in ("cni", "cni-plugins"):
        (tmp_path / name).mkdir()
    return tmp_path


def paths(value):
    """Yield every absolute path in a configuration."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from paths(each)
    elif isinstance(value, str) and "/" in value and value.removeprefix("unix://").startswith("/"):
        yield value.removeprefix("unix://")


def test_containerd_stays_in_the_folder(folder):
    """Every path that containerd is given lies in the node's folder."""
    config = tomllib.loads(write_containerd_configuration(folder).read_text())

    found = list(paths(config))
    assert str(runtime_socket(folder)) in found
    assert [path for path in found if not path.startswith(str(folder))] == []


def test_kubelet_stays_in_the_folder(folder):
    """So does every path of the kubelet, besides the certificate of who may ask it."""
    config = yaml.safe_load(
        write_kubelet_configuration(folder, authority=folder / "ca.crt", port=1).read_text()
    )

    assert [path for path in paths(config) if not path.startswith(str(folder))] == []
    assert config["authentication"]["x509"]["clientCAFile"] == str(folder / "ca.crt")


def test_kubelet_acts_as_its_node(folder):
    """The administrator's kubeconfig acts for the node, which has the rights of nodes alone."""
    administrator = folder / "admin"
    administrator.write_text(yaml.safe_dump({"users": [{"name": "admin", "user": {"token": "secret"}}]}))

    (user,) = yaml.safe_load(write_kubelet_access(folder, "node-1", administrator).read_text())["users"]

    assert user["user"] == {"token": "secret", "as": "system:node:node-1", "as-groups": ["system:nodes"]}
