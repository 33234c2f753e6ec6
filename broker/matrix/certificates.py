"""A throw-away authority, and server certificates of each kind that a client has to tell apart. Nothing is kept."""

import datetime as dt
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ADDRESS = "127.0.0.1"
_DAY = dt.timedelta(days=1)


class Authority:
    """One CA; `pem` is what a client has to trust."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        own = self._certificate(self._name, self._key.public_key(), now - _DAY, now + _DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.pem = own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    def server(self, *, is_named: bool = True, is_expired: bool = False) -> ssl.SSLContext:
        """A context for our address, for another name, or of last week."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        span = (now - 7 * _DAY, now - _DAY) if is_expired else (now - _DAY, now + _DAY)
        who: x509.GeneralName = (
            x509.IPAddress(ipaddress.ip_address(ADDRESS)) if is_named else x509.DNSName("another.invalid")
        )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a far side")])
        certificate = (
            self._certificate(subject, key.public_key(), *span)
            .add_extension(x509.SubjectAlternativeName([who]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _context(key, certificate)

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, start: dt.datetime, end: dt.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
        )


def _context(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with tempfile.TemporaryDirectory() as directory:  # the ssl module reads keys from files alone
        file = Path(directory) / "server.pem"
        file.touch(mode=0o600)
        file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(file)
    return context
