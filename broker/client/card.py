"""A card as the daemon sends it, parsed once into frozen values.

`parse_card` refuses a card of another version, with missing or wrongly typed fields, and with fields that this
client could not show: what was not drawn must not be signed. Holds foreign text as it came; drawing neutralises it.
"""

from dataclasses import dataclass

from broker.client.card_before import Before, read_before, read_memory
from broker.client.card_evidence import Evidence, read_evidence
from broker.client.card_fields import Fields
from broker.client.card_ssh import Ssh, read_ssh
from broker.client.faults import Broken
from broker.contract.wire import JsonValue

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    effect: str  # READ | WRITE | DELETE | RUN
    service: str
    operation: str
    identifies: str
    targets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    method: str
    url: str
    plain_http: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAttempt:
    correlation_id: str
    sent_at_ms: int
    summary: str
    agent: str
    same_session: bool
    read_back: str | None = None  # what would be looked at to tell; None where nothing could


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One process of the chain, nearest first."""

    pid: int
    name: str
    anchors: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What an entry of `[agents]` would have to say."""

    exe: str
    argv: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    agent: str
    identified: bool
    interpreter: bool
    exe: str | None
    pid: int
    span: str  # process | tree | connection
    chain: tuple[Link, ...]
    cwd: str | None
    container: bool
    session_id: str
    opened_at_ms: int
    calls: int
    denied: int
    label: str | None
    says: str | None
    naming: Naming | None = None  # what would name it, where no policy does


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    rule: str
    reason: str
    gate: str  # session | per_call
    rules: tuple[str, ...]
    policy: str
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    credential: str | None
    version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOffer:
    offered: bool
    per: str | None
    what: str | None
    max_uses: int | None
    max_age_s: int | None
    why_not: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Yes:
    once: str
    undo: bool
    session: SessionOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    size_bytes: int
    sha256: str | None
    media: str | None
    text: str | None
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Everything that a decision on one request rests on."""

    approval_id: str
    correlation_id: str
    created_at_ms: int
    expires_at_ms: int
    arming_ms: int
    log_id: str
    vault_term: int
    summary: Summary
    target: Target
    evidence: Evidence
    doubts: tuple[EarlierAttempt, ...]
    who: Who
    why: Why
    uses: Uses
    yes: Yes
    body: Body
    request_digest: str
    headers: tuple[tuple[str, str], ...]
    typed_word: str | None
    ssh: Ssh | None = None  # of a request by SSH
    before: Before | None = None  # what a human said to the like earlier
    idempotency_key: str | None = None  # the broker's own, which would travel along
    denial_memory_s: int | None = None  # for how long a no stands


def parse_card(value: JsonValue) -> Card:
    """Raises Broken on anything that this client does not know how to show."""
    top = Fields(value, "card")
    version = top.integer("v")
    if version != VERSION:
        raise Broken(f"the card has version {version}, this client shows version {VERSION}: update doorward")
    exact = top.part("exact")
    card = Card(
        approval_id=top.text("approval_id"),
        correlation_id=top.text("correlation_id"),
        created_at_ms=top.integer("created_at_ms"),
        expires_at_ms=top.integer("expires_at_ms"),
        arming_ms=top.integer("arming_ms"),
        log_id=top.text("log_id"),
        vault_term=top.integer("vault_term"),
        summary=_summary(top.part("summary")),
        target=_target(top.part("target")),
        evidence=read_evidence(top.part("evidence")),
        doubts=tuple(_attempt(item) for item in top.parts("doubts")),
        who=_who(top.part("who")),
        why=_why(top.part("why")),
        uses=_uses(top.part("uses")),
        yes=_yes(top.part("yes")),
        body=_body(top.part("body")),
        request_digest=exact.text("request_digest"),
        headers=_headers(exact),
        typed_word=top.text_or_none("typed_word"),
        ssh=read_ssh(top.part_or_none("ssh")),
        before=read_before(top.part_or_none("before")),
        idempotency_key=exact.text_if_there("idempotency_key"),
        denial_memory_s=read_memory(top.part_or_none("no")),
    )
    top.close()
    return card


def _summary(part: Fields) -> Summary:
    return Summary(
        effect=part.text("effect"),
        service=part.text("service"),
        operation=part.text("operation"),
        identifies=part.text("identifies"),
        targets=part.integer("targets"),
    )


def _target(part: Fields) -> Target:
    return Target(method=part.text("method"), url=part.text("url"), plain_http=part.flag("plain_http"))


def _attempt(part: Fields) -> EarlierAttempt:
    return EarlierAttempt(
        correlation_id=part.text("correlation_id"),
        sent_at_ms=part.integer("sent_at_ms"),
        summary=part.text("summary"),
        agent=part.text("agent"),
        same_session=part.flag("same_session"),
        read_back=part.text_if_there("read_back"),
    )


def _link(part: Fields) -> Link:
    return Link(pid=part.integer("pid"), name=part.text("name"), anchors=part.flag("anchors"))


def _who(part: Fields) -> Who:
    return Who(
        agent=part.text("agent"),
        identified=part.flag("identified"),
        interpreter=part.flag("interpreter"),
        exe=part.text_or_none("exe"),
        pid=part.integer("pid"),
        span=part.text("span"),
        chain=tuple(_link(item) for item in part.parts("chain")),
        cwd=part.text_or_none("cwd"),
        container=part.flag("container"),
        session_id=part.text("session_id"),
        opened_at_ms=part.integer("opened_at_ms"),
        calls=part.integer("calls"),
        denied=part.integer("denied"),
        label=part.text_or_none("label"),
        says=part.text_or_none("says"),
        naming=_naming(part.part_or_none("naming")),
    )


def _naming(part: Fields | None) -> Naming | None:
    return None if part is None else Naming(exe=part.text("exe"), argv=part.text_or_none("argv"))


def _why(part: Fields) -> Why:
    return Why(
        rule=part.text("rule"),
        reason=part.text("reason"),
        gate=part.text("gate"),
        rules=part.texts("rules"),
        policy=part.text("policy"),
        file=part.text_or_none("file"),
        line=part.integer_or_none("line"),
    )


def _uses(part: Fields) -> Uses:
    return Uses(credential=part.text_or_none("credential"), version=part.integer_or_none("version"))


def _yes(part: Fields) -> Yes:
    offer = part.part("session")
    return Yes(
        once=part.text("once"),
        undo=part.flag("undo"),
        session=SessionOffer(
            offered=offer.flag("offered"),
            per=offer.text_or_none("per"),
            what=offer.text_or_none("what"),
            max_uses=offer.integer_or_none("max_uses"),
            max_age_s=offer.integer_or_none("max_age_s"),
            why_not=offer.text_or_none("why_not"),
        ),
    )


def _body(part: Fields) -> Body:
    return Body(
        size_bytes=part.integer("bytes"),
        sha256=part.text_or_none("sha256"),
        media=part.text_or_none("media"),
        text=part.text_or_none("text"),
        cut=part.flag("cut"),
    )


def _headers(exact: Fields) -> tuple[tuple[str, str], ...]:
    out: list[tuple[str, str]] = []
    for pair in exact.items("headers"):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(word, str) for word in pair):
            raise Broken("the daemon's card is not readable: card.exact.headers is not a list of pairs")
        out.append((str(pair[0]), str(pair[1])))
    return tuple(out)
