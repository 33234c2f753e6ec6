"""agent.sock: what agents may ask for. Every answer but 404 is an envelope or a plain document about the caller.

Nothing here decides about a request, and nothing here can approve, add or change anything.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject, JsonValue
from broker.core import refusals, reply
from broker.core.asks import Asked
from broker.core.identity import UNIDENTIFIED, Caller, Span, identify, may_anchor
from broker.core.ledger import Attempt
from broker.core.policy.overview import could_open
from broker.core.refusals import Refusal
from broker.ports import Clock, PolicySource, Vault
from broker.server import faults
from broker.server.answered import Answered, refused
from broker.server.collect_routes import CollectApi
from broker.server.connections import Connection, Connections
from broker.server.credential_ask import CredentialAsk
from broker.server.floods import Floods
from broker.server.http_routes import HttpApi
from broker.server.incoming import BODY_MAX, Incoming, Reader, digest_of
from broker.server.peer import PeerError
from broker.server.reach import by_service
from broker.server.runs import Overloaded, Run, RunTable, Stopping
from broker.server.sessions import SessionRegistry
from broker.server.shapes import ShapeError, UnreadableError, read_body, text_or_none, texts
from broker.server.ssh_routes import SshApi
from broker.server.ssh_shapes import asked
from broker.steps import Received

READ_S = 30.0
WAIT_S = 150.0
RUNS_PER_ANCHOR = 512
ONE_SHOT_AGENT = "doorward-cli"
NEEDS_SESSION = "wait_s: 0 needs a session that outlives this call. Start the agent by: doorward run -- AGENT"
SENT_ALREADY = "It was sent already and can't be undone. Ask for its result."


class Engine(Protocol):
    """What performs: the pipeline and the reconciler behind it."""

    async def perform(self, received: Received) -> JsonObject: ...
    async def reconcile(self, correlation_id: str, target: str, caller: Caller) -> JsonObject: ...
    async def explain(self, caller: Caller, ask: Asked) -> JsonObject: ...
    async def want(self, ask: CredentialAsk) -> JsonObject: ...
    async def recorded(self, correlation_id: str, caller: Caller) -> Attempt | None: ...
    def withdraw(self, correlation_id: str) -> bool: ...


def new_correlation_id(now_ms: int) -> str:
    return f"op_{now_ms:012x}{secrets.token_hex(16)}"


class AgentApi:
    """The handlers of agent.sock."""

    def __init__(
        self,
        *,
        engine: Engine,
        connections: Connections,
        sessions: SessionRegistry,
        runs: RunTable,
        floods: Floods,
        policies: PolicySource,
        vault: Vault,
        clock: Clock,
        version: str,
        openapi: Callable[[], JsonObject],
        schema: Callable[[str], JsonObject | None],
        read_s: float = READ_S,
    ) -> None:
        self._engine = engine
        self._connections = connections
        self._sessions = sessions
        self._runs = runs
        self._floods = floods
        self._policies = policies
        self._vault = vault
        self._clock = clock
        self._version = version
        self._openapi = openapi
        self._schema = schema
        self._read_s = read_s

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/health", self.health),
            web.get("/v1/openapi.json", self.openapi),
            web.get("/v1/schemas/{name}", self.schemas),
            web.get("/v1/session", self.session),
            web.post("/v1/session", self.open_session),
            web.get("/v1/services", self.services),
            web.post("/v1/reconcile", self.reconcile),
            web.post("/v1/explain", self.explain),
            web.post("/v1/credential-requests", self.want_credential),
            web.get("/v1/results/{correlation_id}", self.result),
            web.delete("/v1/results/{correlation_id}", self.cancel),
            *HttpApi(self).routes(),
            *CollectApi(self).routes(),
            *SshApi(self).routes(),
        ]

    async def health(self, _: web.Request) -> web.Response:
        return faults.json_answer({"status": "ok", "version": self._version, "vault": self._vault.state.value})

    async def openapi(self, _: web.Request) -> web.Response:
        return faults.json_answer(self._openapi())

    async def schemas(self, request: web.Request) -> web.Response:
        found = self._schema(request.match_info["name"].removesuffix(".json"))
        if found is None:
            raise web.HTTPNotFound
        return faults.json_answer(found)

    async def session(self, request: web.Request) -> web.Response:
        caller = self._caller(request)
        return faults.json_answer(self._about(caller))

    async def open_session(self, request: web.Request) -> web.Response:
        document = await self._read(request, "session-request")
        claimed = document.get("ancestor_pid")
        if isinstance(claimed, int):
            self._connection(request).claimed = claimed
        caller = self._caller(request)
        if document.get("tree") is True and caller.span is not Span.CONTAINER:  # that is all that it may be already
            process = caller.peer.process
            if not may_anchor(process) or not self._sessions.declare_tree(process):
                raise refused(refusals.session_ended())
            caller = self._caller(request)
        if self._vault.state is VaultState.READY and not self._sessions.frozen:
            entered = self._sessions.enter(caller, label=text_or_none(document, "label"))
            if isinstance(entered, Refusal):
                raise refused(entered)
        return faults.json_answer(self._about(caller))

    async def services(self, request: web.Request) -> web.Response:
        caller = self._caller(request)
        reach: JsonValue = []
        if self._vault.state is VaultState.READY:
            reach = by_service(could_open(self._policies.current(), caller.agent))
        return faults.json_answer({"vault": self._vault.state.value, "services": reach})

    async def take(self, request: web.Request, schema: str, read: Reader) -> Incoming:
        """The body of a request for an action."""
        caller, is_here = self._caller(request), request.content.is_eof()
        raw = await self._raw(request)
        return Incoming.of(raw, schema, read, caller=caller if is_here else None)  # a wait would make the look old

    async def answer(self, request: web.Request, incoming: Incoming) -> web.Response:
        """Perform it and answer with its envelope."""
        run, wait_s = self.begin(request, incoming)
        envelope = await self.ended(run, wait_s)
        return faults.envelope_answer(envelope, run.taken(envelope))

    def begin(self, request: web.Request, incoming: Incoming) -> tuple[Run, float]:
        """Begin the run of an action, and how long its client waits for a human."""
        caller, document = incoming.caller or self._caller(request), incoming.document
        correlation_id = new_correlation_id(self._clock.now_ms())
        wait_s = _seconds(document.get("wait_s"), WAIT_S)
        if wait_s == 0 and caller.span is Span.CONNECTION and _one_shot(request):
            incoming = incoming.refused(refusals.misshapen(NEEDS_SESSION))
        received = Received(
            correlation_id=correlation_id,
            caller=caller,
            ask=incoming.ask,
            body_digest=incoming.body_digest,
            request_id=text_or_none(document, "request_id"),
            says=text_or_none(document, "reason"),
            frames=incoming.frames,
            evidence=texts(document, "evidence"),
        )
        run = self._start(correlation_id, caller, lambda: self._engine.perform(received), weight=incoming.weight)
        return run, wait_s

    async def ended(self, run: Run, wait_s: float) -> JsonObject:
        return await self._runs.wait(run, wait_s)

    async def reconcile(self, request: web.Request) -> web.Response:
        caller = self._caller(request)
        document = await self._read(request, "reconcile-request")
        target = str(document["correlation_id"])
        correlation_id = new_correlation_id(self._clock.now_ms())
        run = self._start(correlation_id, caller, lambda: self._engine.reconcile(correlation_id, target, caller))
        return faults.envelope_answer(await self.ended(run, _seconds(document.get("wait_s"), WAIT_S)))

    async def explain(self, request: web.Request) -> web.Response:
        caller = self._caller(request)
        document = await self._read(request, "explain-request")
        about = document.get("request")
        ask = asked(str(document.get("action")), about if isinstance(about, dict) else {})
        told = await self._engine.explain(caller, ask)
        return faults.json_answer(told)

    async def want_credential(self, request: web.Request) -> web.Response:
        """Have a human asked for the credential of a service that the policy names."""
        caller, raw = self._caller(request), await self._raw(request)
        document = _parsed(raw, "credential-request")
        wait_s = _seconds(document.get("wait_s"), WAIT_S)
        self._refuse_short_lived(request, caller, wait_s)
        ask = CredentialAsk(
            correlation_id=new_correlation_id(self._clock.now_ms()),
            caller=caller,
            service=str(document["service"]),
            purpose=str(document["purpose"]),
            body_digest=digest_of(raw),
        )
        run = self._start(ask.correlation_id, caller, lambda: self._engine.want(ask), weight=len(raw))
        return faults.envelope_answer(await self.ended(run, wait_s))

    def _refuse_short_lived(self, request: web.Request, caller: Caller, wait_s: float) -> None:
        if wait_s == 0 and caller.span is Span.CONNECTION and _one_shot(request):
            raise refused(refusals.misshapen(NEEDS_SESSION))

    async def result(self, request: web.Request) -> web.Response:
        caller = self._caller(request)
        correlation_id = request.match_info["correlation_id"]
        run = self._runs.find(correlation_id, caller.anchor.id)
        if run is not None:
            return faults.envelope_answer(await self._runs.wait(run, _wait_of(request), for_work=False))
        if self._vault.state is not VaultState.READY:
            raise refused(refusals.vault(self._vault.state))
        attempt = await self._engine.recorded(correlation_id, caller)
        if attempt is None:
            raise refused(refusals.unknown_result())
        return faults.envelope_answer(attempt.envelope or reply.crashed(attempt))

    async def cancel(self, request: web.Request) -> web.Response:
        """Before dispatch the request is withdrawn; after it the answer says that nothing can be undone.

        One that joined another's card stays pending: that card is withdrawn by who it was put up for.
        """
        caller = self._caller(request)
        run = self._runs.find(request.match_info["correlation_id"], caller.anchor.id)
        if run is None:
            raise refused(refusals.unknown_result())
        await self._runs.withdrawable(run)
        if run.answer is not None or self._engine.withdraw(run.correlation_id):
            return faults.envelope_answer(await self._runs.wait(run, WAIT_S))
        told = run.pending or faults.still_running(run.correlation_id, SENT_ALREADY)
        return faults.envelope_answer(told)

    def _start(
        self, correlation_id: str, caller: Caller, work: Callable[[], Awaitable[JsonObject]], *, weight: int = 0
    ) -> Run:
        program = caller.budget
        if self._runs.active_of(caller.anchor.id) >= RUNS_PER_ANCHOR or self._floods.turns_away(
            caller.anchor.id, program
        ):
            raise refused(refusals.local_limit())

        async def noted() -> JsonObject:
            envelope = await work()
            self._floods.note(caller.anchor.id, program, envelope)
            return envelope

        try:
            return self._runs.start(correlation_id, caller.anchor.id, noted, weight=weight)
        except Overloaded:
            raise refused(refusals.overloaded()) from None
        except Stopping:
            raise refused(refusals.shutting_down()) from None

    def _connection(self, request: web.Request) -> Connection:
        try:
            return self._connections.of(request)
        except PeerError as cause:
            raise refused(refusals.no_peer(str(cause))) from None

    def _caller(self, request: web.Request) -> Caller:
        caller = self._identified(request)
        if caller.anchor_process is not caller.peer.process and not self._sessions.exe_unchanged(caller):
            self._connections.drop(
                request.protocol
            )  # what it hangs on runs another program now: look at all of it again
            caller = self._identified(request)
        return caller

    def _identified(self, request: web.Request) -> Caller:
        connection, policy = self._connection(request), self._policies.current()
        return identify(
            self._connections.facts(connection, policy),
            agents=policy.agents,
            holders=self._sessions.holders,
            listeners=self._sessions.listeners,
            claimed=() if connection.claimed is None else (connection.claimed,),
        )

    async def _raw(self, request: web.Request) -> bytes:
        if (request.content_length or 0) > BODY_MAX:
            raise refused(refusals.too_large(BODY_MAX))
        try:
            if request.content.is_eof():
                return await request.read()
            async with asyncio.timeout(self._read_s):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise refused(refusals.too_large(BODY_MAX)) from None
        except TimeoutError:
            raise refused(refusals.unreadable("it did not arrive in time")) from None

    async def _read(self, request: web.Request, name: str) -> JsonObject:
        return _parsed(await self._raw(request), name)

    def _about(self, caller: Caller) -> dict[str, JsonValue]:
        view = self._sessions.find(caller)
        policy = self._policies.current()
        session: JsonValue = None
        if view is not None:
            session = {
                "id": view.id,
                "opened_at_ms": view.opened_at_ms,
                "calls": view.calls,
                "denied": view.denied,
                "muted": view.muted,
                "label": view.label,
            }
        return {
            "agent": caller.agent,
            "identified": caller.agent != UNIDENTIFIED,
            "span": caller.span.value,
            "anchor": {"pid": caller.anchor.pid, "exe": caller.program.exe},
            "session": session,
            "grants": [] if view is None else [dict(grant) for grant in self._sessions.grant_listing(view.id)],
            "limits": {
                "prompts_per_minute": policy.limits.prompts_per_minute,
                "pending_cards": policy.limits.pending_cards,
                "body_bytes": policy.limits.body_bytes,
            },
            "vault": self._vault.state.value,
        }


@web.middleware
async def envelopes(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn every ending of a handler into an answer; what was not foreseen is logged and told as such."""
    try:
        return await handler(request)
    except Answered as answer:
        return faults.envelope_answer(answer.envelope)
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
        return faults.json_answer({"error": f"There is no {request.method} {request.path} here."}, status=404)
    except web.HTTPException:
        raise
    except Exception:  # noqa: BLE001 - a fault of ours must not reach an agent as a traceback
        faults.LOG.exception("agent request failed", extra={"route": request.path})
        return faults.envelope_answer(faults.refused(refusals.fault()))


def _parsed(raw: bytes, schema: str) -> JsonObject:
    try:
        return read_body(raw, schema, max_bytes=BODY_MAX)
    except UnreadableError as cause:
        raise refused(refusals.unreadable(str(cause))) from None
    except ShapeError as cause:
        raise refused(refusals.misshapen(str(cause))) from None


def _wait_of(request: web.Request) -> float:
    try:
        return min(600.0, max(0.0, float(request.query.get("wait_s", "0"))))
    except ValueError:
        raise refused(refusals.misshapen("wait_s: a number of seconds was expected")) from None


def _seconds(value: JsonValue, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def _one_shot(request: web.Request) -> bool:
    return request.headers.get("user-agent", "").startswith(ONE_SHOT_AGENT)
