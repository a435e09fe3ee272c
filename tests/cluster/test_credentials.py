"""Access: every way to an API server that people have, and credentials that age."""

import json
import ssl
import sys

import pytest
from aiohttp import web

from dra_operator.cluster.credentials import AccessError, load_access
from dra_operator.cluster.session import ApiSession, ApiUnreachable
from dra_operator.kinds.runtime import session_for

from .authority import Authority

NOBODY = {"PATH": ""}
"""An environment that says nothing about Kubernetes."""


@pytest.fixture
def authority(request, tmp_path):
    """A certificate authority, by its parameter one that another authority has signed."""
    return Authority(tmp_path, above=Authority(tmp_path) if hasattr(request, "param") else None)


@pytest.fixture
def pod(tmp_path, authority):
    """The folder that a kubelet mounts into a pod, and the environment it sets."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "ca.crt").write_bytes(authority.path.read_bytes())
    (folder / "namespace").write_text("operators")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    return folder, environment


class Clock:
    """A time of day that a test sets."""

    now = 1_800_000_000.0

    def __call__(self):
        """Return the time."""
        return self.now


@pytest.fixture
def clock():
    """A time of day that a test sets."""
    return Clock()


@pytest.fixture
def plugin(tmp_path):
    """Write an exec plugin that prints this status, and return the user of a kubeconfig that calls it."""
    script = tmp_path / "plugin.py"

    def user(status=None, code=0):
        said = json.dumps(
            {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        )
        script.write_text(f"import sys\nprint({said!r})\nsys.exit({code})\n")
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": [str(script)],
                "interactiveMode": "Never",
            }
        }

    return user


def token(access):
    """Return what is sent as credentials."""
    return access.headers().get("Authorization")


class TestPod:
    """A service account in a pod."""

    def test_pod_speaks_as_its_service_account(self, pod):
        """In a pod server, token, CA and namespace are those that the kubelet gave."""
        folder, environment = pod

        access = load_access(environ=environment, service_account=folder)

        assert access.server == "https://10.0.0.1:443"
        assert access.namespace == "operators"
        assert token(access) == "Bearer first"
        assert access.ssl.verify_mode is ssl.CERT_REQUIRED

    def test_old_token_stays_while_the_new_cannot_be_read(self, pod, clock):
        """A file that is missing for a moment costs nothing; it is tried again soon."""
        folder, environment = pod
        access = load_access(environ=environment, service_account=folder, clock=clock)
        (folder / "token").unlink()

        with pytest.raises(AccessError, match="does not exist"):
            access.reload()

        assert token(access) == "Bearer first"
        assert not access.due()
        clock.now += 11
        assert access.due()

    def test_kubeconfig_given_by_name_wins(self, pod, kubeconfig):
        """Who names a kubeconfig means it, also in a pod."""
        folder, environment = pod

        access = load_access(kubeconfig(), environ=environment, service_account=folder)

        assert access.server == "https://api.example:8443"


class TestKubeconfig:
    """Kubeconfig files."""

    def test_context_is_chosen_by_name(self, kubeconfig):
        """The context that is named counts, but for its namespace: operators of one cluster share a Lease."""
        path = kubeconfig(context={"namespace": "team-a"})

        assert load_access(path, "here").namespace == "dra-operator"
        with pytest.raises(AccessError, match="elsewhere"):
            load_access(path, "elsewhere")

    def test_token_file_is_relative_and_read_again(self, tmp_path, kubeconfig, clock):
        """A token file is found beside the kubeconfig, and read again after a 401."""
        (tmp_path / "my-token").write_text("one\n")
        access = load_access(kubeconfig(user={"tokenFile": "my-token"}), clock=clock)
        assert token(access) == "Bearer one"

        (tmp_path / "my-token").write_text("two\n")
        access.reload()

        assert token(access) == "Bearer two"

    def test_missing_file_says_where_it_was_sought(self, tmp_path):
        """The error says what was tried and what to do, and nothing of what was not looked at."""
        with pytest.raises(AccessError, match=r"no kubeconfig at .*/none; set --kubeconfig to one"):
            load_access(str(tmp_path / "none"), environ=NOBODY)

    @pytest.mark.parametrize("text", ["", "{}", "[]", "{", "contexts: 5"])
    def test_broken_file_is_an_access_error(self, tmp_path, text):
        """Whatever is wrong with a file, the error names it."""
        path = tmp_path / "broken"
        path.write_text(text)

        with pytest.raises(AccessError, match="broken"):
            load_access(str(path), environ=NOBODY)


class TestExecPlugin:
    """Programs that print credentials."""

    def test_plugin_that_fails_later_leaves_the_old_token_in_use(self, kubeconfig, plugin):
        """As nobody, each request would be refused for another reason."""
        access = load_access(kubeconfig(user=plugin({"token": "one"})))
        plugin(None, 1)

        with pytest.raises(AccessError, match="there are none any more"):
            access.reload()

        assert token(access) == "Bearer one"

    def test_plugin_without_expiry_runs_once(self, kubeconfig, plugin, clock):
        """A plugin that names no expiry runs again only after a 401."""
        access = load_access(kubeconfig(user=plugin({"token": "one"})), clock=clock)

        clock.now += 1_000_000

        assert not access.due()


@pytest.fixture
async def secure_server(request, authority):
    """An HTTPS server that demands a client certificate and says whose it was; by its parameter its only name."""
    only = getattr(request, "param", None)
    certificate, key = authority.issue(only, hosts=()) if only else authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # As lenient as the real one, which Go's rules hold for.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(authority.path)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate, key)

    async def who(request):
        subject = request.transport.get_extra_info("peercert")["subject"]
        return web.json_response({"name": dict(part[0] for part in subject)["commonName"]})

    application = web.Application()
    application.router.add_get("/who", who)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


class TestTls:
    """Certificates, of the server and our own."""

    @pytest.fixture
    def user(self, authority):
        """A user with a client certificate."""
        certificate, key = authority.issue("client")
        return {"client-certificate": str(certificate), "client-key": str(key)}

    @pytest.fixture
    def strict(self, monkeypatch):
        """TLS contexts as strict as Python makes them from 3.13 on."""
        make = ssl.create_default_context

        def create(*arguments, **named):
            context = make(*arguments, **named)
            context.verify_flags |= ssl.VERIFY_X509_STRICT
            return context

        monkeypatch.setattr(ssl, "create_default_context", create)

    @pytest.mark.usefixtures("strict")
    @pytest.mark.parametrize("authority", [pytest.param("other", id="signed by another")], indirect=True)
    async def test_authorities_are_trusted_as_kubectl_does(self, kubeconfig, authority, user, secure_server):
        """An authority may be without key identifiers and be signed by another one, for us and for Kopf."""
        server = f"https://localhost:{secure_server}"
        access = load_access(
            kubeconfig(user, {"server": server, "certificate-authority": str(authority.path)})
        )
        async with ApiSession(access) as session:
            assert await session.request("GET", "/who") == {"name": "client"}
        async with (
            session_for(access.connection_info()).aiohttp_session as session,
            session.get(f"{server}/who") as answer,
        ):
            assert await answer.json() == {"name": "client"}

    @pytest.mark.parametrize("secure_server", ["localhost"], indirect=True)
    async def test_a_common_name_is_no_name_of_a_server(self, kubeconfig, authority, user, secure_server):
        """A certificate has to list the names that it is for, as for kubectl."""
        server = f"https://localhost:{secure_server}"
        cluster = {"server": server, "certificate-authority": str(authority.path)}
        async with ApiSession(load_access(kubeconfig(user, cluster))) as session:
            with pytest.raises(ApiUnreachable, match="certificate"):
                await session.request("GET", "/who")

    async def test_server_name_is_checked_as_told(self, kubeconfig, authority, user, secure_server):
        """With `tls-server-name` the server's certificate must be for that name."""
        cluster = {
            "server": f"https://127.0.0.1:{secure_server}",
            "certificate-authority": str(authority.path),
            "tls-server-name": "api.example",
        }
        async with ApiSession(load_access(kubeconfig(user, cluster))) as session:
            assert await session.request("GET", "/who") == {"name": "client"}

    async def test_verification_can_be_switched_off(self, kubeconfig, user, secure_server):
        """With `insecure-skip-tls-verify` any certificate will do, as the user wishes."""
        cluster = {"server": f"https://127.0.0.1:{secure_server}", "insecure-skip-tls-verify": True}
        async with ApiSession(load_access(kubeconfig(user, cluster))) as session:
            assert await session.request("GET", "/who") == {"name": "client"}


class TestConnectionInfo:
    """The same access for Kopf."""

    def test_kopf_speaks_as_we_do(self, pod):
        """Kopf gets the same server, token, CA and namespace."""
        folder, environment = pod

        info = load_access(environ=environment, service_account=folder).connection_info()

        assert info.server == "https://10.0.0.1:443"
        assert (info.scheme, info.token) == ("Bearer", "first")
        assert info.ca_path == str(folder / "ca.crt")
        assert info.default_namespace == "operators"

    def test_kopf_logs_in_again(self, pod, clock):
        """What Kopf gets expires, so that it takes the next for new; that is read anew if it is due."""
        folder, environment = pod
        access = load_access(environ=environment, service_account=folder, clock=clock)
        first = access.connection_info().expiration

        (folder / "token").write_text("second")
        clock.now += 61
        second = access.connection_info()

        assert (second.token, second.expiration > first) == ("second", True)
