"""Who may ask on control.sock: kernel facts, control sessions and signed statements. Each no is recorded.

Whatever an agent's session started is refused; a statement counts once, for the verb, process, log and vault term that
it names. What is then done is the Office's business.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web

from broker.contract.statements import control_bytes, statement_bytes
from broker.contract.wire import JsonObject
from broker.core.identity import UNIDENTIFIED, identify
from broker.ports import PolicySource
from broker.server.challenges import Challenges
from broker.server.connections import Connection, Connections
from broker.server.faults import ControlError
from broker.server.office import Claimed, Office, Refused, Signed
from broker.server.peer import PeerError
from broker.server.sessions import SessionRegistry
from broker.server.shapes import decoded

RECORDED = {
    "agent_session",
    "control_session_required",
    "unsigned",
    "bad_signature",
    "stale_nonce",
    "changed",
}


class Need(StrEnum):
    """What a route asks of its caller, beyond not being an agent."""

    NOTHING = "nothing"
    OPEN = "open"  # an agent may look too
    SESSION = "session"  # a control session
    SIGNATURE = "signature"  # a statement signed for this very verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Looks at callers and at what they signed."""

    office: Office
    connections: Connections
    sessions: SessionRegistry
    policies: PolicySource
    challenges: Challenges

    def admit(self, request: web.Request, need: Need) -> Connection:
        """Who asks; an agent's session, or anything that an agent started, is refused."""
        try:
            connection = self.connections.of(request)
        except PeerError as cause:
            raise ControlError("agent_session", f"It can't be told who asks: {cause}.") from None
        if need is Need.OPEN:
            return connection
        if self._is_agents(connection):
            raise ControlError("agent_session", "An agent's session decides nothing and changes nothing.")
        if need is Need.SESSION:
            self.require_session(connection.facts.process.key)
        return connection

    def require_session(self, process: Hashable) -> None:
        if self.challenges.session(process) is None:
            raise ControlError(
                "control_session_required", "This is sealed. Open a control session with the approver key first."
            )

    def opened(self, document: JsonObject, connection: Connection) -> str:
        """The id of the key that answered the challenge."""
        process = connection.facts.process
        nonce = str(document["nonce"])
        if not self.challenges.use(nonce, process.key):
            raise ControlError("stale_nonce", "The nonce is used up, expired or another process's.")
        message = control_bytes({"nonce": nonce, "pid": process.pid, "log_id": self.office.log_id})
        return self._signer(message, document)

    def signed(self, document: JsonObject, verb: str, process: Hashable) -> Signed:
        """What an approver signed. `verb` is the one of the route; `family.*` takes all of a family."""
        claimed, secret = self.claimed(document, verb, process), document.get("secret")
        return Signed(
            verb=claimed.verb,
            params=claimed.params,
            key_id=self._signer(claimed.message, document),
            secret=secret if isinstance(secret, dict) else {},
        )

    def claimed(self, document: JsonObject, verb: str, process: Hashable) -> Claimed:
        """The same but for the signature, which whoever opens the vault has to check."""
        statement = document.get("statement")
        if not isinstance(statement, dict) or "signature" not in document:
            raise ControlError("unsigned", "This verb needs a statement signed by an approver.")
        said, params = str(statement["verb"]), statement["params"]
        family = verb.removesuffix("*")
        if not (said == verb or (family.endswith(".") and said.startswith(family))):
            raise ControlError("changed", f"The statement is signed for {said}, not for this verb.")
        if statement["log_id"] != self.office.log_id or statement["vault_term"] != self.office.term:
            raise ControlError("changed", "The statement was signed for another log or vault term.")
        if not self.challenges.use(str(statement["nonce"]), process):
            raise ControlError("stale_nonce", "The statement's nonce is used up, expired or another process's.")
        return Claimed(
            verb=said,
            params=params if isinstance(params, dict) else {},
            message=statement_bytes(statement),
            signature=decoded(document, "signature"),
        )

    def record(self, error: ControlError, route: str, request: web.Request) -> None:
        """Tell the audit log of a refusal that says who tried what."""
        if error.recorded or error.code not in RECORDED:
            return
        try:
            facts = self.connections.of(request).facts
        except PeerError:
            self.office.refused(Refused(code=error.code, route=route))
            return
        agents, sessions = self.policies.current().agents, self.sessions
        caller = identify(facts, agents=agents, holders=sessions.holders, listeners=sessions.listeners)
        process = facts.process
        self.office.refused(Refused(code=error.code, route=route, agent=caller.agent, pid=process.pid, exe=process.exe))

    def _signer(self, message: bytes, document: JsonObject) -> str:
        key_id = self.office.key_of(message, decoded(document, "signature"))
        if key_id is None:
            raise ControlError("bad_signature", "No enrolled approver key made this signature.")
        return key_id

    def _is_agents(self, connection: Connection) -> bool:
        facts, sessions = connection.facts, self.sessions
        if any(sessions.anchors(process.key) for process in facts.chain):
            return True
        agents = self.policies.current().agents
        return identify(facts, agents=agents, holders=sessions.holders).agent != UNIDENTIFIED
