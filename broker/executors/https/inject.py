"""The last step before the wire: what the credential adds. Called once per attempt, on a connection that is up.

Whatever stands in the request under the same name gives way. No other part of the executor reveals a secret.
"""

import hashlib
import time
from datetime import UTC, datetime
from urllib.parse import unquote_plus

from aiohttp import ClientRequest
from multidict import CIMultiDict
from yarl import URL

from broker.core.http_secrets import (
    HttpSecret,
    QuerySecret,
    SigV4Secret,
    claims,
    header_for,
    parameter_for,
)
from broker.core.secret import Secret
from broker.core.sigv4 import SigningError, ToSign, sign
from broker.executors.https.faults import ExecutorError


def inject(request: ClientRequest, secret: HttpSecret, body: bytes) -> tuple[Secret, ...]:
    """Add the credential; what was made of it on the way, and may be given back to nobody. Raises ExecutorError."""
    match secret:
        case QuerySecret():
            request.url = _with_parameter(request.url, secret)
            return ()
        case SigV4Secret():
            return _signed(request, secret, body)
        case _:
            name, value = header_for(secret)
            _put(request.headers, name, value)
            return ()


def _put(headers: CIMultiDict[str], name: str, value: Secret) -> None:
    headers.popall(name, None)
    try:
        headers[name] = value.reveal().decode("ascii")
    except UnicodeDecodeError:  # its text would repeat the value
        raise ExecutorError(f"the credential's value can't stand in the header {name}") from None


def _with_parameter(url: URL, secret: QuerySecret) -> URL:
    claimed = claims(secret).parameters
    pairs = [pair for pair in url.raw_query_string.split("&") if pair]
    kept = [pair for pair in pairs if unquote_plus(pair.partition("=")[0]).casefold() not in claimed]
    query = "&".join([*kept, parameter_for(secret).reveal().decode("ascii")])
    return URL.build(
        scheme=url.scheme, authority=url.raw_authority, path=url.raw_path, query_string=query, encoded=True
    )


def _signed(request: ClientRequest, secret: SigV4Secret, body: bytes) -> tuple[Secret, ...]:
    headers = request.headers
    for name in claims(secret).headers:
        headers.popall(name, None)
    to_sign = ToSign(
        method=request.method,
        host=headers["Host"],
        path=request.url.raw_path,
        query=request.url.raw_query_string,
        headers=tuple(headers.items()),
        body_sha256=hashlib.sha256(body).hexdigest(),
    )
    try:
        signature = sign(secret, to_sign, now=datetime.fromtimestamp(time.time(), tz=UTC))
    except SigningError as cause:
        raise ExecutorError(str(cause)) from None
    for name, value in signature.headers:
        _put(headers, name, value)
    return signature.derived
