"""Credentials that are renewed: the operator goes on when those of its start are refused."""

import json
import time

import pytest
import yaml

from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


def by_file(token, folder):
    """Return a user whose token is in a file."""
    return {"tokenFile": str(token)}


def by_plugin(token, folder):
    """Return a user for whom a plugin prints what is in the file."""
    script = folder / "plugin"
    version = "client.authentication.k8s.io/v1"
    credential = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": "TOKEN"}})
    script.write_text(f"#!/bin/sh\necho '{credential}' | sed \"s/TOKEN/$(cat {token})/\"\n")
    script.chmod(0o700)
    return {"exec": {"apiVersion": version, "command": str(script), "interactiveMode": "Never"}}


@pytest.mark.parametrize("user", [by_file, by_plugin])
def test_token_that_is_refused_is_read_again(access, scene, start_operator, tmp_path, user):
    """A token that ends with its Secret, and then another one: the next claim is allocated, and nothing restarts."""
    client, token = scene.client, tmp_path / "token"

    def renew(name):
        client.create(SECRETS, {"metadata": {"name": name}})
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={name}")
        token.write_text(
            access.kubectl("create", "token", SERVICE_ACCOUNT, f"--namespace={NAMESPACE}", *bound)
        )

    renew("first")
    config = yaml.safe_load(access.kubeconfig_for(SERVICE_ACCOUNT, NAMESPACE).read_text())
    config["users"] = [{**each, "user": user(token, tmp_path)} for each in config["users"]]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    create_fleet(client, nodes=1, devices=2)
    operator = start_operator("--devices=all", kubeconfig=kubeconfig)
    operator.wait_ready()
    scene.create_claim("first", DRIVER)
    scene.wait_allocated("first")

    renew("second")
    client.delete(f"{SECRETS}/first")
    # The API server knows for ten seconds that a token was good.
    time.sleep(12)
    scene.create_claim("second", DRIVER)
    scene.wait_allocated("second")

    operator.wait_ready()
    client.delete(f"{SECRETS}/second")
