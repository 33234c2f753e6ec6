"""Where a checkpoint can be kept: a file of notes, the system's log, somebody else's web server.

Each either has taken the note when its function returns, or raises TargetError with the reason; none waits longer than
its limit. Nothing is followed: no link, no redirect, no proxy; and no credential is ever sent.
"""

import base64
import contextlib
import errno
import http.client
import ipaddress
import os
import queue
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from broker.audit import AuditError
from broker.audit.checkpoint import MAX_FILE_BYTES, parse_note, parse_notes
from broker.audit.disk import LocalDisk, read_private_file, write_durably

DEV_LOG = "/dev/log"
WEBHOOK_S = 10.0
SYSLOG_S = 5.0
_AUTHPRIV_NOTICE = 10 * 8 + 5
_MOST_NAME_CHARS = 255
_LONGEST_URL_CHARS = 2048


class TargetError(Exception):
    """The note was not taken, or nobody can tell. Says why."""


def append_to(path: Path, note: bytes) -> None:
    """Add the note to a file of checkpoints of the same log, whole or not at all. Raises TargetError."""
    try:
        before = read_private_file(path, max_bytes=MAX_FILE_BYTES) if os.path.lexists(path) else b""
    except AuditError as cause:
        raise TargetError(str(cause)) from cause
    if before and not _of_same_log(before, note):
        raise TargetError("it holds something else than checkpoints of this log, and was left as it is")
    parted = before if not before or before.endswith(b"\n\n") else before + b"\n"
    if len(parted) + len(note) > MAX_FILE_BYTES:
        raise TargetError("it is full; begin another file and keep this one")
    try:
        write_durably(path, parted + note, LocalDisk())
    except (OSError, ValueError) as cause:
        raise TargetError((cause.strerror if isinstance(cause, OSError) else None) or str(cause)) from cause


def _of_same_log(before: bytes, note: bytes) -> bool:
    kept, fresh = parse_notes(before), parse_note(note)
    return kept is not None and fresh is not None and all(old.origin == fresh.origin for old in kept)


def send_to_syslog(address: str, note: bytes, size: int, *, limit_s: float = SYSLOG_S) -> None:
    """One RFC 5424 line; the note stands in it in base64. Raises TargetError."""
    line = syslog_line(note, size)
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, kind)) as log:
                log.settimeout(limit_s)
                log.connect(address)
                log.sendall(line if kind == socket.SOCK_DGRAM else line + b"\n")
        except OSError as cause:
            if kind == socket.SOCK_DGRAM and cause.errno == errno.EPROTOTYPE:
                continue  # it listens for streams
            raise TargetError(cause.strerror or str(cause)) from cause
        except ValueError as cause:  # a name with a NUL in it
            raise TargetError(str(cause)) from cause
        else:
            return


def syslog_line(note: bytes, size: int) -> bytes:
    """Printable ASCII without a line end, whatever the machine is called."""
    host = "".join(sign for sign in socket.gethostname() if "!" <= sign <= "~")[:_MOST_NAME_CHARS] or "-"
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = f"<{_AUTHPRIV_NOTICE}>1 {at} {host} doorward {os.getpid()} audit-checkpoint -"
    return f"{head} size={size} note={base64.b64encode(note).decode()}".encode("ascii")


def check_url(url: str) -> SplitResult:
    """Raises TargetError where nothing may be posted to it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as cause:
        raise TargetError(f"this is no URL: {cause}") from cause
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= _LONGEST_URL_CHARS
    if not plain or parts.scheme not in {"https", "http"} or not parts.hostname or port == 0:
        raise TargetError("the webhook has to be a plain https URL")
    if "@" in parts.netloc:
        raise TargetError("the webhook's URL holds a user or a password; nothing of that kind is sent")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise TargetError("the webhook has to be https; http is for this machine's own addresses, written as numbers")
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may lead anywhere


def post(url: str, note: bytes, *, limit_s: float = WEBHOOK_S) -> None:
    """Post the note as text; any 2xx is a yes. Raises TargetError."""
    parts = check_url(url)
    outcome: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def work() -> None:
        outcome.put(_posted(parts, note, limit_s))

    threading.Thread(target=work, daemon=True).start()  # names are looked up without a limit, so it may be left behind
    try:
        fault = outcome.get(timeout=limit_s)
    except queue.Empty:
        raise TargetError(f"no answer within {limit_s:.0f} s; it may have the note or not") from None
    if fault is not None:
        raise TargetError(fault)


def _posted(parts: SplitResult, note: bytes, limit_s: float) -> str | None:
    """What went wrong, if anything."""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"content-type": "text/plain; charset=utf-8", "user-agent": "doorward", "connection": "close"}
    try:
        with contextlib.closing(_connection(parts, limit_s)) as connection:
            connection.request("POST", target, body=note, headers=headers)
            status = connection.getresponse().status
    except TimeoutError:
        return f"no answer within {limit_s:.0f} s; it may have the note or not"
    except ssl.SSLError as cause:
        return f"its certificate or its TLS is not to be trusted: {cause.reason or cause}"
    except (OSError, http.client.HTTPException, ValueError) as cause:
        return (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
    if 300 <= status < 400:
        return f"it answered {status}; a redirect is not followed"
    return None if 200 <= status < 300 else f"it answered {status}"


def _connection(parts: SplitResult, limit_s: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, parts.port, timeout=limit_s, context=ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        )
    return http.client.HTTPConnection(host, parts.port, timeout=limit_s)
