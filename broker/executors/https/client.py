"""The HTTP executor: sends a frozen request once and reports how far it got and what came back.

Whatever happens is a RawOutcome. No redirect is followed, no proxy, cookie, netrc or environment is used, nothing is
sent twice, and a connection that saw a timeout, an overflow or broken framing is closed. Judges nothing.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial

import aiohttp
from aiohttp import ClientResponse, hdrs
from aiohttp.http import HttpResponseParser
from multidict import CIMultiDict
from yarl import URL

from broker.core.credential import HttpSecret, SshSecret
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit
from broker.core.key_argument import with_key
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.reach import reach
from broker.core.repeats import goes_with_key
from broker.executors.https.attempt import Attempt, SlicedBody, once
from broker.executors.https.faults import AddressRefusedError, ExecutorError, fault_of
from broker.executors.https.pool import CarefulConnector, PoolKey, Pools
from broker.executors.https.receive import receive
from broker.executors.https.resolver import Destination, Lookup, SystemLookup
from broker.ports import AnswerSink, SecretStore

MAX_BODY_BYTES = 1 << 20  # what predicates and strict JSON look at, whatever a policy allows

# Framing and connection control are this module's business; a request that brings its own was not checked.
_OURS = frozenset(
    {
        "accept-encoding", "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te",
        "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_TOKEN = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")
_AUTOMATIC = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.USER_AGENT)


def assert_fast_parser() -> None:
    """Raise ExecutorError unless aiohttp's C parser is in use: the other one is laxer and slower."""
    if HttpResponseParser.__module__ != "aiohttp._http_parser":
        raise ExecutorError("aiohttp's C extensions are missing; install a wheel of it for this platform")


class HttpsExecutor:
    """Implements the Executor port. `body_limit_bytes` is asked anew for each request."""

    def __init__(
        self,
        *,
        secrets: SecretStore,
        body_limit_bytes: Callable[[], int],
        version: str,
        lookup: Lookup | None = None,
    ) -> None:
        assert_fast_parser()
        self._secrets = secrets
        self._body_limit_bytes = body_limit_bytes
        self._user_agent = f"doorward/{version}"
        self._system_lookup = SystemLookup()
        self._pools = Pools(lookup or self._system_lookup)

    async def execute(self, permit: Permit, answer: AnswerSink | None = None) -> RawOutcome:
        """Never raises but for cancellation, which closes the connection. `answer` gets a success while it comes."""
        frozen = permit.frozen
        if not isinstance(frozen, FrozenRequest):
            raise TypeError("the permit is for another channel")
        decided_bytes = len(frozen.body)
        try:
            frozen = _under_key(permit, frozen)
        except (ExecutorError, ValueError) as cause:
            return Attempt(frozen.deadlines).outcome(fault_of(cause))
        attempt = Attempt(frozen.deadlines, body=frozen.body, added_bytes=len(frozen.body) - decided_bytes)
        total = asyncio.timeout(frozen.deadlines.total_s)
        watch = asyncio.timeout(None)
        try:
            url = _url(frozen)
            key = self._pool_key(frozen, url.scheme, permit.credential_version)
            attempt.secret = self._secret(permit)
            async with self._pools.lease(key) as session, total, watch:
                attempt.watch_by(watch)
                await self._exchange(session, permit, frozen, url, attempt, answer)
        except TimeoutError as cause:
            if total.expired():
                return attempt.outcome(Fault.TOTAL_TIMEOUT)
            return attempt.outcome(attempt.deadline_fault if watch.expired() else fault_of(cause))
        except Exception as cause:  # noqa: BLE001 - every ending is a value; faults.py names the known ones
            return attempt.outcome(fault_of(cause))
        return attempt.outcome(None)

    async def close_credential(self, name: str) -> None:
        """Drop kept connections that were made with a credential; requests under way end first."""
        await self._pools.retire(name)

    async def close(self) -> None:
        await self._pools.close()
        self._system_lookup.close()

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        permit: Permit,
        frozen: FrozenRequest,
        url: URL,
        attempt: Attempt,
        answer: AnswerSink | None,
    ) -> None:
        headers = self._headers(frozen)
        _put_key(headers, permit, frozen)
        attempt.reach(Phase.CONNECTING)
        response = await session.request(
            frozen.method,
            url,
            headers=headers,
            data=SlicedBody(frozen.body, attempt) if frozen.body else None,
            skip_auto_headers=_AUTOMATIC,
            allow_redirects=False,
            middlewares=(partial(once, attempt),),
        )
        try:
            await receive(
                response,
                attempt,
                cap_bytes=self._cap_bytes(frozen),
                answer=answer,
                stop_unheard=not frozen.is_write,
            )
        finally:
            _part(session, response, attempt, is_clean=attempt.body_complete and attempt.sent_bytes == len(frozen.body))

    def _headers(self, frozen: FrozenRequest) -> CIMultiDict[str]:
        headers: CIMultiDict[str] = CIMultiDict()
        for name, value in frozen.headers:
            if name in _OURS or name.startswith("proxy-") or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
                raise ExecutorError("the frozen request holds a header that may not be sent")
            headers.add(name, value)
        headers.setdefault("accept", "*/*")
        headers.setdefault("user-agent", self._user_agent)
        headers["accept-encoding"] = "gzip"
        return headers

    def _cap_bytes(self, frozen: FrozenRequest) -> int:
        declared = None if frozen.declared is None else frozen.declared.max_bytes
        return min(self._body_limit_bytes() if declared is None else declared, MAX_BODY_BYTES)

    def _secret(self, permit: Permit) -> HttpSecret | None:
        name = permit.frozen.service.credential
        if name is None:
            return None
        if permit.credential_version is None:
            raise ExecutorError("the permit names no version of the service's credential")
        secret = self._secrets.secret_of(name, permit.credential_version)
        if isinstance(secret, SshSecret):
            raise ExecutorError("the service's credential is one of SSH, and goes nowhere by HTTP")
        return secret

    def _pool_key(self, frozen: FrozenRequest, scheme: str, credential_version: int | None) -> PoolKey:
        """Raises AddressRefusedError where the host can't lead anywhere allowed."""
        service = frozen.service
        destination = Destination(scheme=scheme, host=frozen.host, port=frozen.port, named=frozen.host == service.host)
        if not reach(host=destination.host, scheme=destination.scheme, named=destination.named):
            raise AddressRefusedError
        return PoolKey(
            destination=destination,
            credential=service.credential,
            credential_version=credential_version,
            tls=service.tls,
        )


def _url(frozen: FrozenRequest) -> URL:
    """The URL that is dialled; raises ExecutorError unless it is, part by part, the one that was shown."""
    url = URL(frozen.url, encoded=True)
    shown = (frozen.host, frozen.port, frozen.path, frozen.query)
    read = (url.host, url.port, url.raw_path, url.raw_query_string)
    if read != shown or url.scheme not in {"https", "http"} or url.raw_user or url.raw_password or url.raw_fragment:
        raise ExecutorError("the frozen request's URL and its parts differ")
    return url


def _under_key(permit: Permit, frozen: FrozenRequest) -> FrozenRequest:
    """With the broker's own key, where it is an argument. Where one is declared nothing is sent without it."""
    if not goes_with_key(frozen) or frozen.declared is None or frozen.declared.idempotency.key_param is None:
        return frozen
    if permit.idempotency_key is None:
        raise ExecutorError("the permit names no key for a request that goes with one")
    return with_key(frozen, permit.idempotency_key)


def _put_key(headers: CIMultiDict[str], permit: Permit, frozen: FrozenRequest) -> None:
    """The same where it is a header."""
    name = None if frozen.declared is None else frozen.declared.idempotency.key_header
    if name is None or not frozen.is_write:
        return
    if permit.idempotency_key is None:
        raise ExecutorError("the permit names no key for a request that goes with one")
    headers.popall(name, None)
    headers[name] = permit.idempotency_key


def _part(session: aiohttp.ClientSession, response: ClientResponse, attempt: Attempt, *, is_clean: bool) -> None:
    """Let the connection be kept, or close it: whatever else it says belongs to this request."""
    protocol = attempt.protocol
    if is_clean and protocol is not None and isinstance(session.connector, CarefulConnector):
        session.connector.vouch(protocol)
        response.release()
        return
    response.close()
    if protocol is not None:  # the library may have kept it already; nobody else is given it
        protocol.close()
