"""TLS trust of one service: the system's store, a CA of its own beside it, and the pinned public key of the peer.

Built by hand rather than by `ssl.create_default_context`, which would honour SSLKEYLOGFILE and write session keys
wherever the environment says.
"""

import hashlib
import hmac
import re
import ssl

from broker.core.policy.model import Tls
from broker.executors.https.faults import ExecutorError

_PIN = re.compile(r"sha256:([0-9a-f]{64})")


def trust_context(tls: Tls) -> ssl.SSLContext:
    """A client context that verifies chain and name. Raises ExecutorError on a CA or a pin that can't be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # certificate and host name are required by it
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.ca_pem is not None:
        try:
            context.load_verify_locations(cadata=tls.ca_pem)
        except (ssl.SSLError, ValueError):
            raise ExecutorError("the service's CA file holds no certificate that can be read") from None
    if tls.pin is not None and not _PIN.fullmatch(tls.pin):
        raise ExecutorError("a pin is sha256: and 64 lower-case hexadecimal digits, of the public key")
    return context


def is_pinned(leaf_der: bytes, pin: str) -> bool:
    """Whether the SHA-256 of the certificate's SubjectPublicKeyInfo is the pinned one."""
    from cryptography import x509  # noqa: PLC0415 - 40 ms of import that only pinned services need
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415 - likewise

    key = x509.load_der_x509_certificate(leaf_der).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hmac.compare_digest("sha256:" + hashlib.sha256(spki).hexdigest(), pin)
