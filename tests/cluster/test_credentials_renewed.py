"""Access whose files are replaced while it is in use: what was good stays in use, what is new is found soon."""

import ssl

import pytest
from aiohttp import web

from dra_operator.cluster.credentials import AccessError, load_access
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable

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


@pytest.fixture
async def secure(tmp_path):
    """A server whose certificate a new authority has signed, and that authority.

    Who shows it the certificate of `expired` is refused.
    """
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(authority.path)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(*authority.issue("server"))

    async def answer(request):
        shown = request.transport.get_extra_info("peercert") or {}
        names = [value for part in shown.get("subject", ()) for _, value in part]
        return web.json_response({}, status=401 if "expired" in names else 200)

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
        kubeconfig(cluster={"server": server, "certificate-authority": str(file)}), clock=lambda: now
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


async def test_a_certificate_that_has_expired_is_shown_no_more(kubeconfig, secure):
    """Connections that it was shown on stay open, and the API server knows whoever comes by them by it."""
    server, authority = secure
    certificate, key = authority.issue("expired")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    cluster = {"server": server, "certificate-authority": str(authority.path)}
    async with ApiSession(load_access(kubeconfig(user, cluster))) as session:
        with pytest.raises(ApiError, match="401"):
            await session.request("GET", "/")
        for old, new in zip((certificate, key), authority.issue("renewed"), strict=True):
            old.write_bytes(new.read_bytes())

        assert await session.request("GET", "/") == {}


async def test_an_authority_that_was_replaced_is_trusted_no_more(tmp_path, kubeconfig, secure):
    """Somebody may have its key."""
    server, authority = secure
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.path.read_bytes())
    access = load_access(kubeconfig(cluster={"server": server, "certificate-authority": str(file)}))
    async with ApiSession(access) as session:
        assert await session.request("GET", "/") == {}
        file.write_bytes(Authority(tmp_path).path.read_bytes())
        access.reload()

        with pytest.raises(ApiUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await session.request("GET", "/")
