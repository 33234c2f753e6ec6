"""How far an attempt over SSH got, and what follows where no end of the command was seen.

Before the channel is open nothing was started. From then on the command may run: the answer to the exec request can
be lost, and with it the word that it was taken.
"""

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.core.classify.ssh_case import SshCase, done, refused, unknown
from broker.core.outcome import Verdict
from broker.core.ssh.frozen import Put
from broker.core.ssh.outcome import HostKeySeen, Replaced, SshFault, SshPhase

_UNSTARTED = frozenset(
    {
        SshPhase.BUILT,
        SshPhase.CONNECTING,
        SshPhase.BANNER,
        SshPhase.HOST_KEY,
        SshPhase.LOGIN,
        SshPhase.LOGGED_IN,
    }
)
_LOGGING_IN = frozenset({SshPhase.BANNER, SshPhase.HOST_KEY, SshPhase.LOGIN})
_SLOW = frozenset(
    {
        SshFault.CONNECT_TIMEOUT,
        SshFault.LOGIN_TIMEOUT,
        SshFault.EXEC_TIMEOUT,
        SshFault.IDLE_TIMEOUT,
        SshFault.TOTAL_TIMEOUT,
    }
)
_BOUNDED = {
    SshFault.DNS_FAILED: "the name of the host could not be resolved.",
    SshFault.CONNECT_REFUSED: "the host refused the connection.",
    SshFault.CONNECT_TIMEOUT: "no connection came about before the deadline.",
    SshFault.CONNECT_FAILED: "the connection broke before it could be used.",
    SshFault.LOGIN_TIMEOUT: "the login was not finished before the deadline.",
    SshFault.CHANNEL_REFUSED: "the host refused to open a channel for it.",
}
_FOR_A_HUMAN = {
    SshFault.ADDRESS_REFUSED: (
        "address_refused",
        "the host leads to an address that may not be dialled. A human has to change the policy or the binding.",
    ),
    SshFault.NOT_SSH: ("connect_failed", "what answers there does not speak SSH 2. A human has to look at it."),
    SshFault.HOST_KEY_UNKNOWN: (
        "host_key_unknown",
        "the host's key is not known, so no login was tried. A human has to compare it and take it.",
    ),
    SshFault.HOST_KEY_CHANGED: (
        "host_key_changed",
        "the host has another key than the known one, so no login was tried. A human has to find out why.",
    ),
    SshFault.HOST_KEY_REVOKED: (
        "host_key_revoked",
        "the host's key is revoked, so no login was tried. A human has to look at it.",
    ),
    SshFault.HOST_KEY_WEAK: (
        "host_key_unknown",
        "the host has only weak keys (DSA, RSA below 2048 bits), so no login was tried. A human has to renew them.",
    ),
}
_LOGIN = {
    SshFault.LOGIN_REJECTED: (
        "The host rejected the login; no other credential was tried. A human has to look at the account or the key."
    ),
    SshFault.KEY_UNUSABLE: (
        "No login was tried: the stored key can't be used (its form, kind or size). A human has to replace it."
    ),
}
_LOST = {
    SshFault.EXEC_TIMEOUT: ("first_byte_timeout", "The host did not say in time whether it took the command."),
    SshFault.IDLE_TIMEOUT: ("total_timeout", "The command was silent for longer than is waited for."),
    SshFault.TOTAL_TIMEOUT: ("total_timeout", "The time for the command ran out before its end was seen."),
    SshFault.CONNECTION_LOST: ("connection_lost", "The connection was lost before the end of the command was seen."),
    SshFault.OVERFLOW: ("channel_lost", "The command wrote more than is read; the channel was closed before its end."),
}
_CLOSED = ("channel_lost", "The channel closed without a word on how the command ended.")
_DROPPED = " The operation says that it cuts its own connection; only a look-up can tell what became of it."


def judge_unstarted(case: SshCase) -> Verdict | None:
    """None where something may have been started."""
    seen = case.seen
    fault = seen.fault or SshFault.INTERNAL
    if seen.fault is SshFault.COMMAND_REFUSED:
        message = "The command can't be sent: it holds a NUL, or is longer than is taken."
        return refused(Category.INVALID_REQUEST, "schema", message)
    if seen.fault is SshFault.NO_SFTP:
        message = "The host offers no file transfer (SFTP). Nothing was changed."
        return refused(Category.CONFIRMED_FAILURE, "precondition", message)
    if seen.fault is not SshFault.CHANNEL_REFUSED and seen.phase not in _UNSTARTED:
        return None
    if fault is SshFault.INTERNAL:
        message = "Nothing was started: the broker could not carry out the request. A human has to look at its log."
        return refused(Category.BROKER_UNAVAILABLE, "internal", message, retry=Retry.AFTER_HUMAN)
    if fault in _LOGIN:
        return refused(Category.AUTHENTICATION_FAILED, "ssh_rejected", _LOGIN[fault])
    if fault in _FOR_A_HUMAN:
        code, why = _FOR_A_HUMAN[fault]
        message = f"Nothing was started: {why}{_shown(seen.host_key)}"
        return refused(Category.LOCAL_FAILURE, code, message, retry=Retry.AFTER_HUMAN)
    met = _met(fault, seen.phase)
    return refused(Category.LOCAL_FAILURE, met.value, f"Nothing was started: {_BOUNDED[met]}", retry=Retry.BOUNDED)


def judge_unended(case: SshCase) -> Verdict:
    """The command may have started, and neither a status nor a signal of it came."""
    if case.seen.fault is SshFault.INTERNAL:
        return internal(case)
    if case.seen.fault is SshFault.OVERFLOW and not case.is_write:
        return cut_by_broker()
    code, message = _CLOSED if case.seen.fault is None else _LOST.get(case.seen.fault, _CLOSED)
    if case.declared is not None and case.declared.expect_disconnect and case.is_write:
        message += _DROPPED
    return unknown(case, code, message)


def cut_by_broker() -> Verdict:
    """A read that wrote more than is read."""
    return Verdict(
        category=Category.PARTIAL,
        code="incomplete",
        retry=Retry.NEVER,
        remote_effect=RemoteEffect.NONE,
        message="The command wrote more than is read; it was cut off. Ask for less.",
    )


def internal(case: SshCase) -> Verdict:
    return Verdict(
        category=Category.BROKER_UNAVAILABLE,
        code="internal",
        retry=case.settle if case.is_write else Retry.AFTER_HUMAN,
        remote_effect=case.unless_read,
        message=case.with_effect("The broker failed after the command may have started."),
    )


def judge_put(case: SshCase, action: Put) -> Verdict:
    """An upload replaces its target in one step; before that step the target is as it was."""
    transfer, fault = case.seen.transfer, case.seen.fault
    replaced = Replaced.NO if transfer is None else transfer.replaced
    if replaced is Replaced.YES:
        return done(case, f"The file was replaced with the {len(action.content)} bytes that were sent.")
    if replaced is Replaced.UNKNOWN:
        code = "total_timeout" if fault in _SLOW else "connection_lost"
        return unknown(case, code, "The upload was sent and the answer to the last step, the rename, did not come.")
    return _kept(fault, "The file there is as it was; a temporary file may lie beside it.")


def judge_get(case: SshCase) -> Verdict:
    transfer = case.seen.transfer
    if transfer is not None and transfer.complete:
        return done(case, "The file was read.")
    if transfer is not None and transfer.cut:
        return cut_by_broker()
    if case.seen.fault in {SshFault.REMOTE_FILE, SshFault.INTERNAL}:
        return _kept(case.seen.fault, "Nothing was read.")
    code = "total_timeout" if case.seen.fault in _SLOW else "connection_lost"
    return unknown(case, code, "The file was not read to its end.")


def _kept(fault: SshFault | None, ending: str) -> Verdict:
    if fault is SshFault.REMOTE_FILE:
        message = f"No such transfer: the file is missing, no plain file, not allowed, or there is no room. {ending}"
        return refused(Category.CONFIRMED_FAILURE, "client_error", message)
    if fault is SshFault.INTERNAL:
        message = f"The broker failed during the transfer. {ending} A human has to look at its log."
        return refused(Category.BROKER_UNAVAILABLE, "internal", message, retry=Retry.AFTER_HUMAN)
    code = "connect_timeout" if fault in _SLOW else "connect_failed"
    return refused(Category.LOCAL_FAILURE, code, f"The transfer was cut short. {ending}", retry=Retry.BOUNDED)


def _met(fault: SshFault, phase: SshPhase) -> SshFault:
    """The fault in the words of the phase that it was met in."""
    if fault in _SLOW:
        if phase is SshPhase.LOGGED_IN:
            return SshFault.CHANNEL_REFUSED
        return SshFault.LOGIN_TIMEOUT if phase in _LOGGING_IN else SshFault.CONNECT_TIMEOUT
    return fault if fault in _BOUNDED else SshFault.CONNECT_FAILED


def _shown(key: HostKeySeen | None) -> str:
    """The fingerprint is our own reckoning of the key; nothing that the host says stands in a message."""
    return "" if key is None else f" Offered: {key.fingerprint[:64]}"
