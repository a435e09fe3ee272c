"""Contexts of a kubeconfig: which one counts, and what is wrong with it."""

from pathlib import Path

import pytest
import yaml

from dra_operator.cluster.credentials import load_access


def test_the_context_that_is_asked_for_counts(kubeconfig):
    """With its server and its user, whichever is the current one."""
    path = Path(kubeconfig({"token": "one"}))
    config = yaml.safe_load(path.read_text())
    there = {"cluster": "there", "user": "there"}
    config["contexts"].append({"name": "there", "context": there})
    config["clusters"].append({"name": "there", "cluster": {"server": "http://there.example"}})
    config["users"].append({"name": "there", "user": {"token": "two"}})
    path.write_text(yaml.safe_dump(config))
    here, there = load_access(str(path)), load_access(str(path), "there")

    assert (here.server, there.server) == ("https://api.example:8443", "http://there.example")


def test_a_kubeconfig_without_users_is_that_of_nobody(kubeconfig):
    """As it is of a server that asks for nothing."""
    path = Path(kubeconfig())
    config = yaml.safe_load(path.read_text())
    del config["users"]
    path.write_text(yaml.safe_dump(config))

    assert load_access(str(path)).headers() == {}


IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.mark.parametrize(
    ("context", "environ", "files"),
    [("here", IN_A_POD, ["token"]), (None, {}, ["token"]), (None, IN_A_POD, [])],
    ids=["a context is asked for", "no pod", "a pod without an account"],
)
def test_a_service_account_counts_in_a_pod_that_is_asked_for_nothing_else(
    kubeconfig, tmp_path, context, environ, files
):
    """Otherwise the kubeconfig does that the environment names."""
    for name in files:
        (tmp_path / name).write_text("secret")
    environ = environ | {"KUBECONFIG": kubeconfig({"token": "mine"})}

    access = load_access(None, context, environ=environ, service_account=tmp_path)

    assert access.headers() == {"Authorization": "Bearer mine"}
