"""Contexts of a kubeconfig: which one counts, and what is wrong with it."""

from pathlib import Path

import pytest
import yaml

from dra_operator.cluster.access import AccessError, load_access


def test_the_context_that_is_asked_for_counts(kubeconfig):
    """With its server, its user and its namespace, whichever is the current one."""
    path = Path(kubeconfig({"token": "one"}))
    config = yaml.safe_load(path.read_text())
    there = {"cluster": "there", "user": "there", "namespace": "there"}
    config["contexts"].append({"name": "there", "context": there})
    config["clusters"].append({"name": "there", "cluster": {"server": "http://there.example"}})
    config["users"].append({"name": "there", "user": {"token": "two"}})
    path.write_text(yaml.safe_dump(config))
    here, there = load_access(str(path)), load_access(str(path), "there")

    assert (here.server, here.namespace, here.withheld) == ("https://api.example:8443", "default", False)
    assert (there.server, there.namespace, there.withheld) == ("http://there.example", "there", True)


@pytest.mark.parametrize(
    ("user", "context"),
    [(None, {"cluster": "absent"}), ({"exec": "kubelogin"}, None), ({"tokenFile": "/absent"}, None)],
    ids=["no such cluster", "a plugin without its fields", "no such file"],
)
def test_a_context_that_cannot_be_used_is_an_access_error(kubeconfig, user, context):
    """And no defect of ours."""
    path = kubeconfig(user, context=context)
    with pytest.raises(AccessError, match=f"kubeconfig {path}: "):
        load_access(path)
