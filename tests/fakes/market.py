"""A policy with one operation of every kind, requests for them, and processes that ask."""

from dataclasses import replace
from types import MappingProxyType

from broker.contract.reasons import ApprovalRule, Effect
from broker.contract.wire import JsonValue
from broker.core.identity import UNIDENTIFIED, Caller, PeerFacts, ProcessFacts, Span, identify
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.policy.model import AgentProgram, Operation, Policy, ReadBack, Rule, Service
from broker.core.policy.place import Place
from broker.core.resolve import HttpAsk

DIGEST = "sha256:" + "1a" * 32
OTHER_DIGEST = "sha256:" + "2b" * 32
TOKEN = "canary-token-0123456789abcdef"
BASE_URL = "https://api.market.example"
PLACE = Place(file="market.toml", line=7)


def operation(name: str, method: str, path: str, effect: Effect = Effect.WRITE, **more: object) -> Operation:
    return replace(Operation(name=name, method=method, path=path, effect=effect, place=PLACE), **more)  # type: ignore[arg-type]  # the names are Operation's own


_OPERATIONS = (
    operation("prices.get", "GET", "/prices/{item}", Effect.READ),
    operation("prices.list", "GET", "/prices", Effect.READ, query=("page",)),
    operation("secrets.get", "GET", "/secrets", Effect.READ),
    operation(
        "orders.create",
        "POST",
        "/stalls/{stall}/orders",
        query=("trace",),
        body=("name", "note", "at"),
        change_key=("stall", "name"),
        reconcile=ReadBack(operation="prices.list", args=MappingProxyType({}), match="[?name == $name]"),
    ),
    operation("orders.cancel", "DELETE", "/orders/{order}", destructive=True),
    operation("notes.put", "PUT", "/notes/{note}", body=("text",)),
    operation("notes.send", "POST", "/notes/{note}/send", body=("text",)),
    operation("tips.give", "POST", "/tips", body=("cents",)),
    operation("jobs.run", "POST", "/jobs", Effect.EXEC, body=("job",)),
)

_RULES = (
    Rule(id="free", approval=ApprovalRule.NONE, operations=("prices.get", "tips.give", "POST", "GET"), place=PLACE),
    Rule(id="look", approval=ApprovalRule.SESSION, operations=("prices.list",), max_uses=3, max_age_s=60, place=PLACE),
    Rule(id="never", approval=ApprovalRule.DENY, operations=("secrets.get",), place=PLACE),
    Rule(id="buy", approval=ApprovalRule.PER_CALL, operations=("orders.*", "jobs.run"), place=PLACE),
    Rule(id="note", approval=ApprovalRule.SESSION, operations=("notes.put",), place=PLACE),
    Rule(id="send", approval=ApprovalRule.SESSION, operations=("notes.send",), in_doubt="ask", place=PLACE),
)


def service(name: str, *, credential: str | None, operations: tuple[Operation, ...] = ()) -> Service:
    return Service(
        name=name,
        base_url=BASE_URL if name == "market" else f"https://{name}.example",
        scheme="https",
        host="api.market.example" if name == "market" else f"{name}.example",
        port=443,
        base_path="",
        credential=credential,
        ad_hoc=("GET", "POST"),
        operations={operation.name: operation for operation in operations},
        place=PLACE,
    )


POLICY = Policy(
    digest=DIGEST,
    rules=_RULES,
    services={
        "market": service("market", credential="market", operations=_OPERATIONS),
        "square": service("square", credential=None),
        "cellar": service("cellar", credential="cellar"),
        "fair": service("fair", credential="market"),
    },
)


def ask(operation: str, /, **args: JsonValue) -> HttpAsk:
    return HttpAsk(service="market", operation=operation, args=args)


READ = ask("prices.get", item="leek")
LISTING = ask("prices.list", page="1")
FORBIDDEN = ask("secrets.get")
CREATE = ask("orders.create", stall="s1", name="leek", note="fresh")
CANCEL = ask("orders.cancel", order="o-7")
NOTE = ask("notes.put", note="n1", text="hello")
SEND = ask("notes.send", note="n1", text="hello")
TIP = ask("tips.give", cents=50)
JOB = ask("jobs.run", job="sweep")
AD_HOC = HttpAsk(service="market", method="POST", path="/anything", body=b"{}", body_media="application/json")


def agent(pid: int = 4711, *, name: str = "claude-code", parent: ProcessFacts | None = None) -> Caller:
    """A process that asks; named ones span a tree, others a connection alone."""
    process = ProcessFacts(
        pid=pid,
        start_ticks=pid * 10,
        inode=pid * 100,
        uid=1000,
        exe="/opt/agent",
        exe_id=(8, 1),
        argv=("agent",),
        cwd="/",
    )
    peer = PeerFacts(process=process, ancestors=() if parent is None else (parent,), boot_id="boot-1")
    agents = {} if name == UNIDENTIFIED else {name: AgentProgram(name=name, exe="/opt/agent")}
    holders = {} if parent is None else {parent.key: Span.TREE}
    return identify(peer, agents=agents, holders=holders)


def answered(
    status: int, body: bytes = b'{"id":"o-1"}', *headers: tuple[str, str], fault: Fault | None = None, sent: int = 1000
) -> RawOutcome:
    return RawOutcome(
        phase=Phase.RESPONSE_COMPLETE if fault is None else Phase.RESPONSE_STARTED,
        fault=fault,
        status=status,
        headers=(("content-type", "application/json"), *headers),
        body=body,
        body_complete=fault is None,
        sent_bytes=sent,
        elapsed_ms=12,
    )


def failed(fault: Fault, phase: Phase, *, sent: int = 0) -> RawOutcome:
    return RawOutcome(phase=phase, fault=fault, sent_bytes=sent, elapsed_ms=12)


LOST = failed(Fault.CONNECTION_LOST, Phase.BODY_SENT, sent=20)
TIMED_OUT = failed(Fault.FIRST_BYTE_TIMEOUT, Phase.BODY_SENT, sent=20)
REFUSED = failed(Fault.CONNECT_REFUSED, Phase.CONNECTING)
