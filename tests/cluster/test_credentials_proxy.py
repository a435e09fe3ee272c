"""Access by a proxy: who is asked through one, and who is not."""

import pytest

from dra_operator.cluster.credentials import AccessError, load_access


class TestProxy:
    """Those of the file and of the environment."""

    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch):
        """Name a proxy for everything but some hosts and networks, those of a cluster for example."""
        for name in ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
        monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
        monkeypatch.setenv("no_proxy", "inside.example, .svc,10.96.0.0/12,fd00::/8,192.0.2.1")

    @pytest.mark.parametrize(
        ("server", "proxy"),
        [
            ("http://api.example:8080", "http://proxy.example:3128"),
            ("http://inside.example:8080", None),
            ("http://kubernetes.default.svc:8080", None),
            ("http://10.96.0.1:8080", None),
            ("http://10.112.0.1:8080", "http://proxy.example:3128"),
            ("http://[fd00::1]:8080", None),
            ("http://192.0.2.1:8080", None),
            ("http://127.0.0.1:8080", None),
            ("http://localhost:8080", None),
            ("http://[::1]:8080", None),
        ],
    )
    def test_environment_is_obeyed(self, kubeconfig, server, proxy):
        """The environment's proxy is used, but not for its exceptions nor for this machine."""
        assert load_access(kubeconfig(cluster={"server": server})).proxy == proxy

    def test_file_wins(self, kubeconfig):
        """A proxy that the kubeconfig names is used whatever the environment says."""
        cluster = {"server": "http://inside.example:8080", "proxy-url": "http://other.example:3128"}

        assert load_access(kubeconfig(cluster=cluster)).proxy == "http://other.example:3128"

    def test_scheme_may_be_left_out(self, kubeconfig):
        """As for all clients in Go."""
        cluster = {"proxy-url": "other.example:3128"}

        assert load_access(kubeconfig(cluster=cluster)).proxy == "http://other.example:3128"

    def test_other_protocols_are_refused(self, kubeconfig):
        """Such a proxy would be spoken to in HTTP, and answer nothing; what is told has no password in it."""
        cluster = {"proxy-url": "socks5://user:secret@other.example:1080"}

        with pytest.raises(AccessError, match="begins with socks5:// is not supported") as refused:
            load_access(kubeconfig(cluster=cluster))

        assert "secret" not in str(refused.value)
