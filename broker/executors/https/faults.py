"""What an exception of the transport proves, as a Fault. No text of an exception leaves this module.

An exception says what broke, never how far the request had got: that is measured (see attempt.py).
"""

import errno
import ssl
from typing import Final

import aiohttp

from broker.core.outcome import Fault
from broker.executors.addresses import AddressRefusedError

__all__ = [
    "AddressRefusedError",
    "AttemptLostError",
    "ContentFaultError",
    "ExecutorError",
    "PinMismatchError",
    "fault_of",
]

CERT_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
CERT_NOT_YET_VALID: Final = 9  # X509_V_ERR_CERT_NOT_YET_VALID
NAME_MISMATCHES: Final = frozenset({62, 63, 64})  # X509_V_ERR_HOSTNAME_, EMAIL_ and IP_ADDRESS_MISMATCH


class ExecutorError(Exception):
    """The executor can't work as it is built or called. The message says what to change; it holds no secret."""


class PinMismatchError(aiohttp.ClientError):
    """The peer's certificate is trusted but is not the pinned one. Nothing was sent."""


class AttemptLostError(aiohttp.ClientError):
    """The connection ended before an answer. Its type keeps the client library from sending again."""


class ContentFaultError(Exception):
    """The answer's body, or its framing, can't be used."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def fault_of(error: Exception) -> Fault:
    """The fault that an exception stands for, whatever the phase."""
    match error:
        case ContentFaultError(fault=fault):
            return fault
        case AddressRefusedError():
            return Fault.ADDRESS_REFUSED
        case PinMismatchError():
            return Fault.TLS_UNTRUSTED
        case aiohttp.ClientConnectorCertificateError():
            return _certificate_fault(error.certificate_error)
        case aiohttp.ClientConnectorSSLError():
            return Fault.TLS_FAILED
        case aiohttp.ClientConnectorError():
            return _connect_fault(error)
        case aiohttp.ClientPayloadError():
            return _payload_fault(error)
        case aiohttp.ClientResponseError():
            return Fault.FRAMING
        case AttemptLostError() | aiohttp.ClientConnectionError() | OSError():
            return Fault.CONNECTION_LOST
        case _:
            return Fault.INTERNAL


def _connect_fault(error: aiohttp.ClientConnectorError) -> Fault:
    cause = error.os_error
    if isinstance(cause, AddressRefusedError):
        return Fault.ADDRESS_REFUSED
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Fault.DNS_FAILED
    if cause.errno == errno.ECONNREFUSED:
        return Fault.CONNECT_REFUSED
    return Fault.CONNECT_FAILED


def _certificate_fault(error: Exception) -> Fault:
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
    if code in NAME_MISMATCHES:
        return Fault.TLS_NAME
    if code in {CERT_EXPIRED, CERT_NOT_YET_VALID}:
        return Fault.TLS_EXPIRED
    return Fault.TLS_UNTRUSTED


def _payload_fault(error: aiohttp.ClientPayloadError) -> Fault:
    """Cut short by the connection's end, or broken in its chunking."""
    cause = error.__cause__
    if isinstance(cause, aiohttp.http_exceptions.ContentLengthError):
        return Fault.TRUNCATED
    if isinstance(cause, aiohttp.http_exceptions.TransferEncodingError):
        return Fault.TRUNCATED if "Not enough data" in str(cause) else Fault.FRAMING
    return Fault.TRUNCATED
