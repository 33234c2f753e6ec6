"""Posting a checkpoint to somebody else's web server: https, or http to this machine.

No redirect is followed, no proxy asked, no credential sent; the whole has one limit, and what is no 2xx is a fault.
"""

import contextlib
import http.client
import ipaddress
import queue
import ssl
import threading
from urllib.parse import SplitResult, urlsplit

from broker.cli.checkpoint_targets import TargetError

WEBHOOK_S = 10.0
_LONGEST_URL_CHARS = 2048


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
