"""Access whose files are replaced while it is in use: what was good stays in use, what is new is found soon."""

import ssl

import pytest
from aiohttp import web

from dra_operator.cluster.access import AccessError, load_access
from dra_operator.cluster.session import ApiSession, ApiUnreachable

from .authority import Authority


@pytest.mark.parametrize("content", ["", "\n"])
def test_a_token_file_that_is_empty_for_a_moment_makes_nobody_of_us(tmp_path, kubeconfig, content):
    """As nobody each request would get 403, upon which credentials are not read again for a minute."""
    file = tmp_path / "token"
    file.write_text("one\n")
    access = load_access(kubeconfig(user={"tokenFile": str(file)}))
    file.write_text(content)
    with pytest.raises(AccessError, match="there are none any more"):
        access.reload()
    assert access.headers() == {"Authorization": "Bearer one"}

    file.write_text("two\n")
    access.reload()
    assert access.headers() == {"Authorization": "Bearer two"}


def test_a_token_that_is_emptied_is_sought_again_soon(tmp_path, kubeconfig):
    """Ten seconds later, not with the next minute."""
    now = 1000.0
    file = tmp_path / "token"
    file.write_text("one")
    access = load_access(kubeconfig(user={"tokenFile": str(file)}), wall=lambda: now)
    file.write_text("")
    with pytest.raises(AccessError):
        access.reload()
    now += 10

    assert access.due()


def test_whoever_needed_no_credentials_needs_none_later(kubeconfig):
    """A server that asks for none is asked without."""
    access = load_access(kubeconfig())
    access.reload()

    assert access.headers() == {}


@pytest.fixture
async def secure(tmp_path):
    """A server whose certificate a new authority has signed, and that authority."""
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))

    async def answer(_request):
        return web.json_response({})

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://localhost:{runner.addresses[0][1]}", authority
    await runner.cleanup()


async def test_a_new_authority_is_found_soon(tmp_path, kubeconfig, secure):
    """A certificate that is not to be trusted has the files read again ten seconds later, not with the next minute."""
    now, (server, authority) = 1000.0, secure
    file = tmp_path / "ca.crt"
    file.write_bytes(Authority(tmp_path).path.read_bytes())
    access = load_access(
        kubeconfig(cluster={"server": server, "certificate-authority": str(file)}), wall=lambda: now
    )
    async with ApiSession(access) as session:
        with pytest.raises(ApiUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await session.request("GET", "/")
        file.write_bytes(authority.path.read_bytes())
        now += 9
        with pytest.raises(ApiUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await session.request("GET", "/")
        now += 1

        assert await session.request("GET", "/") == {}
