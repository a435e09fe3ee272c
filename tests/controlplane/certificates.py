"""Keys and certificates of a control plane that lives for one test run.

One authority, one certificate for the API server, one key that signs service account tokens. Everything is
made in memory with `cryptography` in a few milliseconds and written as files that only this user can read.
The extensions are complete, since Python 3.13 refuses certificates that OpenSSL used to let pass.
"""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES = ("127.0.0.1", "10.0.0.1")


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files that the API server and its clients are told of."""

    authority: Path
    server: Path
    server_key: Path
    kubelet_client: Path
    kubelet_client_key: Path
    service_account_key: Path
    service_account_public_key: Path


def write_certificates(directory: Path) -> Certificates:
    """Make the keys and certificates and write them into `directory`."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    server_key = ec.generate_private_key(ec.SECP256R1())
    server = _server(server_key, authority, authority_key)
    client_key = ec.generate_private_key(ec.SECP256R1())
    client = _client("kube-apiserver-kubelet-client", client_key, authority, authority_key)
    account_key = ec.generate_private_key(ec.SECP256R1())
    files = Certificates(
        authority=directory / "ca.crt",
        server=directory / "apiserver.crt",
        server_key=directory / "apiserver.key",
        kubelet_client=directory / "kubelet-client.crt",
        kubelet_client_key=directory / "kubelet-client.key",
        service_account_key=directory / "service-account.key",
        service_account_public_key=directory / "service-account.pub",
    )
    pem = serialization.Encoding.PEM
    files.authority.write_bytes(authority.public_bytes(pem))
    files.server.write_bytes(server.public_bytes(pem))
    write_secret(files.server_key, _private_bytes(server_key))
    files.kubelet_client.write_bytes(client.public_bytes(pem))
    write_secret(files.kubelet_client_key, _private_bytes(client_key))
    write_secret(files.service_account_key, _private_bytes(account_key))
    files.service_account_public_key.write_bytes(
        account_key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return files


def write_secret(file: Path, content: bytes) -> None:
    """Write a file that only its owner may read."""
    file.touch(mode=0o600)
    file.write_bytes(content)


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(common: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # An hour back: clocks of machines that share a test run may differ.
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=30))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return (
        _builder("control plane of a test run", key)
        .issuer_name(_name("control plane of a test run"))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _server(
    key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    names = [
        *(x509.DNSName(name) for name in _NAMES),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES),
    ]
    return (
        _leaf("kube-apiserver", key, authority, authority_key, ExtendedKeyUsageOID.SERVER_AUTH)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _client(
    common: str,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    builder = _leaf(common, key, authority, authority_key, ExtendedKeyUsageOID.CLIENT_AUTH)
    return builder.sign(authority_key, hashes.SHA256())


def _leaf(
    common: str,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    usage: x509.ObjectIdentifier,
) -> x509.CertificateBuilder:
    return (
        _builder(common, key)
        .issuer_name(authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
