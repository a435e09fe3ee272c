"""A certificate authority for tests."""

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    """A certificate authority for tests; its certificates are PEM files in a folder.

    Like those of many old clusters they have no key identifiers. `above` is the authority that has signed this one's.
    """

    def __init__(self, folder, above=None):
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {id(self)}")])
        basics = x509.BasicConstraints(ca=True, path_length=None)
        signer = above or self
        certificate = signer._builder(self.name, self.key).add_extension(basics, critical=True)
        self.path = folder / f"ca-{id(self)}.crt"
        self.path.write_bytes(signer._pem(certificate))

    def issue(self, name, *, hosts=("localhost", "api.example")):
        """Return the paths of a certificate and its key, good for a server with these names and for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = self._builder(subject, key).add_extension(usage, critical=False)
        if hosts:
            named = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
            certificate = certificate.add_extension(named, critical=False)
        crt, pem = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        crt.write_bytes(self._pem(certificate))
        pem.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return crt, pem

    def _builder(self, subject, key):
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
        )

    def _pem(self, builder):
        certificate = builder.sign(self.key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)
