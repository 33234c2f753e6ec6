"""What stopped an attempt, as an SshFault. No text of an exception leaves this module but as diagnosis.

An exception says what broke, never how far the attempt had got: that is measured (see attempt.py).
"""

import socket

import asyncssh

from broker.core.ssh.outcome import SshFault, SshPhase
from broker.executors.addresses import AddressRefusedError

SAID_BYTES = 2048

_BEFORE_VERSIONS = frozenset({SshPhase.BUILT, SshPhase.CONNECTING})
_LOGGING_IN = frozenset({SshPhase.CONNECTING, SshPhase.BANNER, SshPhase.HOST_KEY, SshPhase.LOGIN})


class SshExecutorError(Exception):
    """The executor can't work as it is built or called. The message says what to change; it holds no secret."""


class StoppedError(Exception):
    """The attempt ended here. `said` is for diagnostics: words of the far side, or our own."""

    def __init__(self, fault: SshFault, said: bytes | str = b"") -> None:
        super().__init__(fault.value)
        self.fault = fault
        self.said = (said.encode("utf-8", "replace") if isinstance(said, str) else said)[:SAID_BYTES]


def stopped(error: Exception, phase: SshPhase) -> StoppedError:
    """The end that an exception of the transport means, by how far the attempt had got."""
    match error:
        case StoppedError():
            return error
        case asyncssh.PermissionDenied():
            return StoppedError(SshFault.LOGIN_REJECTED, error.reason)
        case asyncssh.ProtocolNotSupported():
            return StoppedError(SshFault.NOT_SSH, error.reason)
        case asyncssh.DisconnectError():
            return _disconnected(error, phase)
        case OSError():
            return StoppedError(_lost(phase))
        case _:
            return StoppedError(SshFault.INTERNAL, type(error).__name__)


def _disconnected(error: asyncssh.DisconnectError, phase: SshPhase) -> StoppedError:
    if phase is SshPhase.LOGIN and "authentication fail" in error.reason.lower():
        return StoppedError(SshFault.LOGIN_REJECTED, error.reason)
    if phase in _BEFORE_VERSIONS and isinstance(error, asyncssh.ProtocolError):
        return StoppedError(SshFault.NOT_SSH, error.reason)
    return StoppedError(_lost(phase), error.reason)


def dial_fault(error: OSError) -> StoppedError:
    """The end that an error means before there was a connection."""
    match error:
        case AddressRefusedError():
            return StoppedError(SshFault.ADDRESS_REFUSED)
        case socket.gaierror():
            return StoppedError(SshFault.DNS_FAILED)
        case ConnectionRefusedError():
            return StoppedError(SshFault.CONNECT_REFUSED)
        case _:
            return StoppedError(SshFault.CONNECT_FAILED)


def _lost(phase: SshPhase) -> SshFault:
    return SshFault.LOST_DURING_LOGIN if phase in _LOGGING_IN else SshFault.CONNECTION_LOST
