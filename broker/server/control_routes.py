"""control.sock: what humans do, as one table of routes that says for each what it needs.

Agents' sessions are refused on all but the status; what widens needs an approver's signature; what is sealed needs a
control session. Who asks and what was signed is checked here; the Office does what was asked.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from aiohttp import web

from broker.contract.wire import JsonObject, JsonValue
from broker.core.audit_query import AuditQuery
from broker.core.identity import PeerFacts
from broker.ports import PolicySource
from broker.server import faults
from broker.server.admission import Admission, Need
from broker.server.audit_query import audit_query
from broker.server.challenges import NONCE_S, Challenges
from broker.server.connections import Connection, Connections
from broker.server.events import EventHub, TooManyListenersError
from broker.server.faults import ControlError
from broker.server.office import Office, Signed
from broker.server.sessions import SessionRegistry
from broker.server.shapes import ShapeError, UnreadableError, decoded, read_body

BODY_MAX = 1 << 18
READ_S = 30.0
_CORRELATION_ID = re.compile(r"op_[0-9a-f]{44}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A request on control.sock after its caller was looked at."""

    request: web.Request
    connection: Connection
    document: JsonObject
    signed: Signed | None = None

    @property
    def peer(self) -> PeerFacts:
        return self.connection.facts

    @property
    def process(self) -> Hashable:
        return self.peer.process.key

    @property
    def name(self) -> str:
        return self.request.match_info.get("id", "")


Handler = Callable[[Asking], Awaitable[JsonValue]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str
    need: Need
    schema: str
    handler: Handler
    verb: str | None = None


class ControlApi:
    """The routes of control.sock over an Office."""

    def __init__(
        self,
        *,
        office: Office,
        connections: Connections,
        sessions: SessionRegistry,
        policies: PolicySource,
        challenges: Challenges,
        hub: EventHub,
        tasks: asyncio.TaskGroup,
        now_ms: Callable[[], int],
        read_s: float = READ_S,
    ) -> None:
        self._office = office
        self._challenges = challenges
        self._hub = hub
        self._tasks = tasks
        self._now_ms = now_ms
        self._read_s = read_s
        self._admission = Admission(
            office=office, connections=connections, sessions=sessions, policies=policies, challenges=challenges
        )

    def table(self) -> list[Route]:
        """Every route but the event feed, with what it needs."""
        office = self._office
        nothing, session, signature = Need.NOTHING, Need.SESSION, Need.SIGNATURE
        decline: Handler = lambda ask: office.decline_credential(ask.name, ask.document)  # noqa: E731 - as the others
        enrol: Handler = lambda ask: office.enrol_approver(_signed(ask))  # noqa: E731 - likewise
        return [
            _route("GET", "/v1/status", Need.OPEN, self._status),
            _route("GET", "/v1/openapi.json", nothing, self._openapi),
            _route("GET", "/v1/schemas/{id}", nothing, self._schema),
            _route("GET", "/v1/nonce", nothing, self._nonce),
            _route("POST", "/v1/control-session", nothing, self._open_session, "control-session"),
            _route("POST", "/v1/unlock", nothing, self._unlock, "unlock"),
            _route("POST", "/v1/lock", nothing, lambda _: office.lock()),
            _route("POST", "/v1/vault/methods", signature, self._add_method, verb="vault.method.add"),
            _route("POST", "/v1/vault/methods/remove", signature, self._remove_method, verb="vault.method.remove"),
            _route("POST", "/v1/vault/passphrase", signature, self._change_passphrase, verb="vault.passphrase"),
            _route("GET", "/v1/vault/quarantine", nothing, lambda _: office.quarantine()),
            _route("POST", "/v1/vault/readopt", nothing, self._readopt, "vault-readopt"),
            _route("POST", "/v1/freeze", nothing, lambda _: office.freeze()),
            _route("POST", "/v1/thaw", signature, lambda ask: office.thaw(_signed(ask)), verb="thaw"),
            _route("GET", "/v1/approvals", nothing, self._approvals),
            _route("GET", "/v1/approvals/{id}", session, self._approval),
            _route("POST", "/v1/approvals/{id}/decision", nothing, self._decide, "decision"),
            _route("GET", "/v1/sessions", nothing, lambda _: office.sessions()),
            _route("DELETE", "/v1/sessions/{id}", nothing, self._revoke),
            _route("POST", "/v1/sessions/{id}/mute", nothing, lambda ask: office.mute(ask.name)),
            _route("POST", "/v1/sessions/{id}/unmute", signature, self._unmute, verb="session.unmute"),
            _route("POST", "/v1/listeners", signature, self._open_listener, verb="listener.open"),
            _route("GET", "/v1/grants", nothing, lambda _: office.grants()),
            _route("DELETE", "/v1/grants/{id}", nothing, lambda ask: office.revoke_grant(ask.name)),
            _route("GET", "/v1/credentials", session, lambda _: office.credentials()),
            _route("POST", "/v1/credentials", signature, self._add_credential, verb="credential.add"),
            _route("PUT", "/v1/credentials/{id}", signature, self._change_credential, verb="credential.*"),
            _route("POST", "/v1/credentials/{id}/check", session, lambda ask: office.check_credential(ask.name)),
            _route("DELETE", "/v1/credentials/{id}", signature, self._remove_credential, verb="credential.remove"),
            _route("GET", "/v1/credential-requests", nothing, lambda _: office.credential_requests()),
            _route("GET", "/v1/credential-requests/{id}", session, lambda ask: office.credential_request(ask.name)),
            _route("POST", "/v1/credential-requests/{id}/decline", nothing, decline, "credential-decline"),
            _route("GET", "/v1/approvers", session, lambda _: office.approvers()),
            _route("POST", "/v1/approvers", signature, enrol, verb="approver.enrol"),
            _route("DELETE", "/v1/approvers/{id}", signature, self._remove_approver, verb="approver.remove"),
            _route("GET", "/v1/host-keys", session, lambda _: office.host_keys()),
            _route("POST", "/v1/host-keys/forget", signature, self._forget_host_key, verb="host_key.forget"),
            _route("GET", "/v1/policy", nothing, lambda _: office.policy()),
            _route("GET", "/v1/policy/pending", nothing, self._policy_pending),
            _route("POST", "/v1/policy/trust", nothing, self._trust, "policy-trust"),
            _route("POST", "/v1/explain", session, lambda ask: office.explain(ask.document), "control-explain-request"),
            _route("GET", "/v1/operations", session, self._operations),
            _route("POST", "/v1/operations/{id}/settle", signature, self._settle, verb="operation.settle"),
            _route("POST", "/v1/operations/{id}/reconcile", session, self._reconcile),
            _route("GET", "/v1/audit/events", session, lambda ask: office.audit_events(_query(ask))),
            _route("GET", "/v1/audit/activity", session, lambda ask: office.audit_activity(_query(ask))),
            _route("GET", "/v1/audit/sessions", session, lambda ask: office.audit_sessions(_query(ask))),
            _route("GET", "/v1/audit/checkpoints", session, lambda ask: office.audit_checkpoints(_query(ask))),
            _route("POST", "/v1/audit/checkpoint", nothing, lambda _: office.audit_checkpoint()),
            _route("GET", "/v1/diagnostics/{id}", session, lambda ask: office.diagnostic(ask.name)),
        ]

    def routes(self) -> list[web.RouteDef]:
        listed = [web.route(route.method, route.path, self._handler(route)) for route in self.table()]
        return [*listed, web.get("/v1/events", self.events)]

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events, resumed by Last-Event-ID."""
        process = self._admit(request, Need.NOTHING, "/v1/events").facts.process.key
        last = request.headers.get("last-event-id", "")
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-store"})
        feed = self._hub.listen(
            int(last[:18]) if last.isascii() and last.isdecimal() else None,
            process=process,
            is_approver=self._challenges.session(process) is not None,
        )
        try:
            first = await anext(feed)
            await response.prepare(request)
            await response.write(first)
            async for frame in feed:
                await response.write(frame)
        except TooManyListenersError:
            raise ControlError("limit", "The feed has as many listeners as it takes.") from None
        finally:
            await feed.aclose()
        return response

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            connection = self._admit(request, route.need, route.path)
            document = await self._read(request, route)
            try:
                signed = None
                if route.need is Need.SIGNATURE:
                    signed = self._admission.signed(document, route.verb or "", connection.facts.process.key)
                asking = Asking(request=request, connection=connection, document=document, signed=signed)
                if route.method == "GET":
                    return faults.json_answer(await route.handler(asking))
                return faults.json_answer(await self._to_its_end(route.handler(asking)))
            except ControlError as error:
                self._admission.record(error, route.path, request)
                raise

        return handle

    def _admit(self, request: web.Request, need: Need, path: str) -> Connection:
        try:
            return self._admission.admit(request, need)
        except ControlError as error:
            self._admission.record(error, path, request)
            raise

    async def _to_its_end(self, work: Awaitable[JsonValue]) -> JsonValue:
        """Do it whole even where the client hangs up half-way: a lock that was begun is a lock."""
        outcome: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()

        async def do() -> None:
            try:
                value = await work
            except Exception as fault:  # noqa: BLE001 - it is the client's answer, and must not end the daemon
                if not outcome.done():
                    outcome.set_exception(fault)
            else:
                if not outcome.done():
                    outcome.set_result(value)
            finally:
                outcome.cancel()

        self._tasks.create_task(do())
        return await outcome

    async def _read(self, request: web.Request, route: Route) -> JsonObject:
        try:
            async with asyncio.timeout(self._read_s):
                raw = await request.read()
        except TimeoutError:
            raise ControlError("unreadable", "The body can't be read: it did not arrive in time.") from None
        except web.HTTPRequestEntityTooLarge:
            raise _too_large() from None
        if len(raw) > BODY_MAX:
            raise _too_large()
        try:
            return read_body(raw, route.schema, max_bytes=BODY_MAX)
        except UnreadableError as cause:
            raise ControlError("unreadable", f"The body can't be read: {cause}.") from None

    async def _status(self, _: Asking) -> JsonValue:
        return await self._office.status()

    async def _openapi(self, _: Asking) -> JsonValue:
        return self._office.openapi()

    async def _schema(self, asking: Asking) -> JsonValue:
        found = self._office.schema(asking.name.removesuffix(".json"))
        if found is None:
            raise ControlError("unknown", "There is no schema of this name; the OpenAPI document names all of them.")
        return found

    async def _nonce(self, asking: Asking) -> JsonValue:
        return {
            "nonce": self._challenges.issue(asking.process),
            "expires_at_ms": self._now_ms() + int(NONCE_S * 1000),
        }

    async def _open_session(self, asking: Asking) -> JsonValue:
        key_id, term = self._admission.opened(asking.document, asking.connection), self._office.term
        await self._office.session_opened(key_id, asking.peer.process.pid)  # on record before it is of use
        if self._office.term != term:
            raise ControlError("vault_locked", "The vault was locked meanwhile. A human has to run: doorward unlock")
        self._challenges.open(asking.process, key_id, asking.connection.pinned.pidfd)
        return {"key_id": key_id, "opened": True}

    async def _unlock(self, asking: Asking) -> JsonValue:
        document = asking.document
        return await self._office.unlock(decoded(document, "kek_b64") if "kek_b64" in document else None)

    async def _add_method(self, asking: Asking) -> JsonValue:
        return await self._office.add_method(_signed(asking))

    async def _remove_method(self, asking: Asking) -> JsonValue:
        return await self._office.remove_method(_signed(asking))

    async def _change_passphrase(self, asking: Asking) -> JsonValue:
        return await self._office.change_passphrase(_signed(asking))

    async def _readopt(self, asking: Asking) -> JsonValue:
        claimed = self._admission.claimed(asking.document, "vault.readopt", asking.process)
        return await self._office.readopt(decoded(asking.document, "kek_b64"), claimed)

    async def _approvals(self, asking: Asking) -> JsonValue:
        return self._office.approvals(asking.request.query.get("state"))

    async def _approval(self, asking: Asking) -> JsonValue:
        return self._office.approval(asking.name, asking.process)

    async def _decide(self, asking: Asking) -> JsonValue:
        document = asking.document
        if document["decision"] == "approve":
            self._admission.require_session(asking.process)
        return await self._office.decide(asking.name, document, asking.process)

    async def _revoke(self, asking: Asking) -> JsonValue:
        return await self._office.revoke(asking.name, kill=asking.request.query.get("kill") == "1")

    async def _forget_host_key(self, asking: Asking) -> JsonValue:
        return await self._office.forget_host_key(_signed(asking))

    async def _unmute(self, asking: Asking) -> JsonValue:
        _same(asking, "id")
        return await self._office.unmute(asking.name, _signed(asking))

    async def _open_listener(self, asking: Asking) -> JsonValue:
        return await self._office.open_listener(_signed(asking), asking.peer.process)

    async def _add_credential(self, asking: Asking) -> JsonValue:
        return await self._office.add_credential(_signed(asking))

    async def _change_credential(self, asking: Asking) -> JsonValue:
        _same(asking, "name")
        signed = _signed(asking)
        if signed.verb == "credential.rotate":
            return await self._office.rotate_credential(signed)
        if signed.verb == "credential.rebind":
            return await self._office.rebind_credential(signed)
        raise ControlError("changed", f"The statement is signed for {signed.verb}, not for this verb.")

    async def _remove_approver(self, asking: Asking) -> JsonValue:
        _same(asking, "key_id")
        return await self._office.remove_approver(_signed(asking))

    async def _remove_credential(self, asking: Asking) -> JsonValue:
        _same(asking, "name")
        return await self._office.remove_credential(_signed(asking))

    async def _policy_pending(self, asking: Asking) -> JsonValue:
        by_approver = self._challenges.session(asking.process) is not None
        return await self._office.policy_pending(by_approver=by_approver)

    async def _trust(self, asking: Asking) -> JsonValue:
        document = asking.document
        counter = document["counter"]
        return await self._office.trust(
            digest=str(document["policy_digest"]),
            counter=counter if isinstance(counter, int) else 0,
            signature=decoded(document, "signature"),
        )

    async def _operations(self, asking: Asking) -> JsonValue:
        return await self._office.operations(asking.request.query.get("state"))

    async def _settle(self, asking: Asking) -> JsonValue:
        _same(asking, "correlation_id")
        return await self._office.settle(_signed(asking))

    async def _reconcile(self, asking: Asking) -> JsonValue:
        if not _CORRELATION_ID.fullmatch(asking.name):  # the answer names it, and names nothing else so
            raise ControlError("unknown", "There is no operation of that id. See: doorward operations list")
        return await self._office.reconcile(asking.name)


@web.middleware
async def control_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn every error into `{"error": ...}`; what was not foreseen is logged and told as such."""
    try:
        return await handler(request)
    except ControlError as error:
        return faults.control_answer(error)
    except ShapeError as cause:
        told: list[JsonValue] = [fault.to_json() for fault in cause.faults]
        return faults.control_answer(ControlError("schema", "The body breaks the schema.", faults=told))
    except web.HTTPException as error:
        code = "unknown" if error.status in {404, 405} else "schema"
        return faults.control_answer(ControlError(code, f"There is no {request.method} {request.path} here."))
    except Exception:  # noqa: BLE001 - a fault of ours must not reach a client as a traceback
        faults.LOG.exception("control request failed", extra={"route": request.path})
        return faults.control_answer(ControlError("internal", "The daemon met a fault of its own; see its log."))


def _route(
    method: str, path: str, need: Need, handler: Handler, schema: str = "nothing", *, verb: str | None = None
) -> Route:
    shape = "statement" if need is Need.SIGNATURE else schema
    return Route(method=method, path=path, need=need, schema=shape, handler=handler, verb=verb)


def _query(asking: Asking) -> AuditQuery:
    return audit_query(asking.request.query.items())


def _too_large() -> ControlError:
    return ControlError("limit", f"The body is larger than {BODY_MAX} bytes.", status=413)


def _signed(asking: Asking) -> Signed:
    if asking.signed is None:
        raise TypeError("the route was not declared to need a signature")
    return asking.signed


def _same(asking: Asking, name: str) -> None:
    """The object in the path is the one that was signed for."""
    if _signed(asking).params.get(name) != asking.name:
        raise ControlError("changed", f"The statement names another {name} than the path.")
