"""Access to a server that is asked by http: neither TLS nor anything that whoever listens could use."""

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster.credentials import load_access

PLAIN = {"server": "http://api.example:8080"}
"""A cluster without TLS."""


def test_bare_server_needs_no_credentials(kubeconfig):
    """A server over plain HTTP gets no credentials and no TLS."""
    access = load_access(kubeconfig(cluster=PLAIN))

    assert access.headers() == {}
    assert access.ssl is None


@pytest.mark.parametrize(
    "user",
    [
        {"token": "secret"},
        {"username": "u", "password": "p"},
    ],
    ids=["token", "password"],
)
def test_credentials_go_out_by_tls_alone(kubeconfig, user):
    """Over plain HTTP nobody gets them, as with kubectl; one warning names the server."""
    with capture_logs() as logs:
        access = load_access(kubeconfig(user=user, cluster=PLAIN))
        access.reload()

    assert access.headers() == {}
    assert access.connection_info().token is None
    assert [(line["log_level"], line["event"], line["server"]) for line in logs] == [
        ("warning", "credentials not sent", "http://api.example:8080")
    ]
