"""What the daemon's lists say, parsed once into values for the screens.

Lenient where a screen can say "not known" (a field that is missing reads as nothing), strict where the shape itself is
wrong (Broken). Holds foreign text as it came; drawing neutralises it. The card has its own strict parser.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.client.faults import Broken
from broker.contract.wire import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the daemon says of itself."""

    version: str = ""
    log_id: str = ""
    vault_state: str = ""
    vault_term: int = 0
    vault_reason: str | None = None
    kdf: JsonValue = None
    policy_digest: str | None = None
    policy_pending: bool = False
    audit_seq: int = 0
    audit_anchored: bool = False
    audit_trouble: str | None = None
    audit_verdict: str | None = None
    audit_rung: str | None = None
    audit_known: bool = False
    audit_verified_at_ms: int = 0
    audit_verifying: int | None = None
    frozen: bool = False
    in_doubt: int = 0
    vault_methods: tuple[str, ...] = ()
    vault_ready_since_ms: int | None = None
    vault_locked_for: str | None = None
    vault_idle_lock_in_ms: int | None = None
    policy_state: str = ""
    audit_behind_ms: int | None = None
    audit_head: str = ""
    audit_head_at_ms: int | None = None
    audit_segment: int | None = None
    audit_anchors: tuple[tuple[str, int | None], ...] = ()  # the record that each rung tells of
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One entry of the queue."""

    id: str
    state: str
    created_at_ms: int
    expires_at_ms: int
    effect: str
    operation: str
    target: str
    agent: str
    joined: int
    ended_by: str | None
    group: str = ""  # cards of one session, rule and operation share it

    @property
    def pending(self) -> bool:
        return self.state == "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A process from the session outwards; `never` is one that is never a session itself."""

    pid: int
    name: str
    never: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """What a session has asked for that has no end yet."""

    effect: str
    operation: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """How many cards a session may raise before it is muted; None where it is not told."""

    cards_per_min: int | None = None
    cards_per_session: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    id: str
    agent: str
    identified: bool
    span: str
    pid: int
    exe: str | None
    cwd: str | None
    label: str | None
    opened_at_ms: int
    calls: int
    denied: int
    muted: bool
    named_by: str | None = None
    digest_ok: bool = False
    chain: tuple[Link, ...] = ()
    container: str | None = None
    muted_why: str | None = None
    muted_at_ms: int | None = None
    waiting: int = 0
    in_flight: tuple[InFlight, ...] = ()
    in_flight_more: int = 0
    done: tuple[tuple[str, int], ...] = ()
    interpreter: bool = False
    naming: tuple[str, str | None] | None = None  # exe and argv that would name it


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    id: str
    session_id: str
    agent: str
    rule: str
    scope: str
    effect: str
    used: int
    max_uses: int
    made_at_ms: int
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRow:
    name: str
    kind: str
    origins: tuple[str, ...]
    version: int
    created_at_ms: int
    rotated_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtRow:
    """A change whose end is not known."""

    correlation_id: str
    phase: str
    operation: str
    summary: str
    agent: str
    sent_at_ms: int
    read_back: str | None
    change_key: str | None
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    seq: int
    name: str
    at_ms: int
    correlation_id: str | None
    session_id: str | None
    fields: JsonObject


class Fields:
    """Reading of one JSON object; what is missing or of another type reads as nothing."""

    def __init__(self, value: JsonValue) -> None:
        if not isinstance(value, Mapping):
            raise Broken("the daemon's answer is not readable: an object was expected")
        self._fields: JsonObject = value

    @property
    def whole(self) -> JsonObject:
        return self._fields

    def text(self, name: str) -> str:
        return self.text_or_none(name) or ""

    def text_or_none(self, name: str) -> str | None:
        value = self._fields.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int:
        return self.number_or_none(name) or 0

    def number_or_none(self, name: str) -> int | None:
        value = self._fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool:
        return self._fields.get(name) is True

    def value(self, name: str) -> JsonValue:
        return self._fields.get(name)

    def part(self, name: str) -> "Fields":
        value = self._fields.get(name)
        return Fields(value if isinstance(value, Mapping) else {})

    def items(self, name: str) -> Sequence[JsonValue]:
        value = self._fields.get(name)
        return value if isinstance(value, Sequence) and not isinstance(value, str) else ()

    def parts(self, name: str) -> "list[Fields]":
        return [Fields(item) for item in self.items(name) if isinstance(item, Mapping)]

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(item for item in self.items(name) if isinstance(item, str))


def status(value: JsonValue) -> Status:
    top = Fields(value)
    vault, policy, audit = top.part("vault"), top.part("policy"), top.part("audit")
    return Status(
        version=top.text("version"),
        log_id=top.text("log_id"),
        vault_state=vault.text("state"),
        vault_term=vault.number("term"),
        vault_reason=vault.text_or_none("reason"),
        kdf=vault.value("kdf"),
        policy_digest=policy.text_or_none("digest"),
        policy_pending=policy.flag("pending"),
        audit_seq=audit.number("seq"),
        audit_anchored=audit.flag("anchored"),
        audit_trouble=audit.text_or_none("trouble"),
        audit_verdict=audit.text_or_none("verdict"),
        audit_rung=audit.text_or_none("rung"),
        audit_known=audit.flag("known"),
        audit_verified_at_ms=audit.number("verified_at"),
        audit_verifying=audit.number_or_none("verifying"),
        frozen=top.flag("frozen"),
        in_doubt=top.part("operations").number("in_doubt"),
        vault_methods=vault.texts("methods"),
        vault_ready_since_ms=vault.number_or_none("ready_since_ms"),
        vault_locked_for=vault.text_or_none("locked_for"),
        vault_idle_lock_in_ms=vault.number_or_none("idle_lock_in_ms"),
        policy_state=policy.text("state"),
        audit_behind_ms=audit.number_or_none("behind_ms"),
        audit_head=audit.part("head").text("hash"),
        audit_head_at_ms=audit.part("head").number_or_none("at_ms"),
        audit_segment=audit.part("head").number_or_none("segment"),
        audit_anchors=tuple((name, audit.part("anchors").number_or_none(name)) for name in audit.part("anchors").whole),
        warnings=top.texts("warnings"),
    )


def waiting(value: JsonValue) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(
            id=item.text("id"),
            state=item.text("state"),
            created_at_ms=item.number("created_at_ms"),
            expires_at_ms=item.number("expires_at_ms"),
            effect=item.text("effect"),
            operation=item.text("operation"),
            target=item.text("target"),
            agent=item.text("agent"),
            joined=item.number("joined"),
            ended_by=item.text_or_none("ended_by"),
            group=item.text("group"),
        )
        for item in Fields(value).parts("approvals")
    )


def sessions(value: JsonValue) -> tuple[SessionRow, ...]:
    return tuple(
        SessionRow(
            id=item.text("id"),
            agent=item.text("agent"),
            identified=item.flag("identified"),
            span=item.text("span"),
            pid=item.number("pid"),
            exe=item.text_or_none("exe"),
            cwd=item.text_or_none("cwd"),
            label=item.text_or_none("label"),
            opened_at_ms=item.number("opened_at_ms"),
            calls=item.number("calls"),
            denied=item.number("denied"),
            muted=item.flag("muted"),
            named_by=item.text_or_none("named_by"),
            digest_ok=item.flag("digest_ok"),
            chain=tuple(
                Link(pid=link.number("pid"), name=link.text("name"), never=link.flag("never"))
                for link in item.parts("chain")
            ),
            container=item.text_or_none("container"),
            muted_why=item.text_or_none("muted_why"),
            muted_at_ms=item.number_or_none("muted_at_ms"),
            waiting=item.number("waiting"),
            in_flight=tuple(
                InFlight(effect=one.text("effect"), operation=one.text("operation"), since_ms=one.number("since_ms"))
                for one in item.parts("in_flight")
            ),
            in_flight_more=item.number("in_flight_more"),
            done=tuple((name, item.part("done").number(name)) for name in item.part("done").whole),
            interpreter=item.flag("interpreter"),
            naming=_naming(item.part("naming")),
        )
        for item in Fields(value).parts("sessions")
    )


def _naming(part: Fields) -> tuple[str, str | None] | None:
    argv = part.value("argv")
    words = argv if isinstance(argv, str) else " ".join(part.texts("argv")) or None
    return (part.text("exe"), words) if part.text("exe") else None


def session_limits(value: JsonValue) -> SessionLimits:
    limits = Fields(value).part("limits")
    return SessionLimits(
        cards_per_min=limits.number_or_none("cards_per_min"),
        cards_per_session=limits.number_or_none("cards_per_session"),
    )


def grants(value: JsonValue) -> tuple[GrantRow, ...]:
    return tuple(
        GrantRow(
            id=item.text("id"),
            session_id=item.text("session_id"),
            agent=item.text("agent"),
            rule=item.text("rule"),
            scope=item.text("scope"),
            effect=item.text("effect"),
            used=item.number("used"),
            max_uses=item.number("max_uses"),
            made_at_ms=item.number("made_at_ms"),
            expires_at_ms=item.number("expires_at_ms"),
        )
        for item in Fields(value).parts("grants")
    )


def credentials(value: JsonValue) -> tuple[CredentialRow, ...]:
    return tuple(
        CredentialRow(
            name=item.text("name"),
            kind=item.text("kind"),
            origins=item.texts("origins"),
            version=item.number("version"),
            created_at_ms=item.number("created_at_ms"),
            rotated_at_ms=item.number_or_none("rotated_at_ms"),
        )
        for item in Fields(value).parts("credentials")
    )


def operations(value: JsonValue) -> tuple[DoubtRow, ...]:
    return tuple(
        DoubtRow(
            correlation_id=item.text("correlation_id"),
            phase=item.text("phase"),
            operation=item.text("operation"),
            summary=item.text("summary"),
            agent=item.text("agent"),
            sent_at_ms=item.number("sent_at_ms"),
            read_back=item.text_or_none("read_back"),
            change_key=item.text_or_none("change_key"),
            effect=item.text("effect"),
        )
        for item in Fields(value).parts("operations")
    )


def events(value: JsonValue) -> tuple[EventRow, ...]:
    return tuple(
        EventRow(
            seq=item.number("seq"),
            name=item.text("event"),
            at_ms=item.number("at_ms"),
            correlation_id=item.text_or_none("correlation_id"),
            session_id=item.text_or_none("session_id"),
            fields=item.part("fields").whole,
        )
        for item in Fields(value).parts("events")
    )
