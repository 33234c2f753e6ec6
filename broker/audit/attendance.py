"""The Sessions view: who was there, what they did and were granted, folded from the log's events and nothing else.

Pure. A session that began before the first event that is held has no beginning here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from broker.audit.activity import Row, Told
from broker.contract.reasons import Category
from broker.contract.wire import JsonObject, JsonValue
from broker.core.events import EventName

_DENIED = frozenset(
    category.value
    for category in (
        Category.POLICY_DENIED,
        Category.SESSION_DENIED,
        Category.CALL_DENIED,
        Category.APPROVAL_TIMEOUT,
        Category.EVIDENCE_REQUIRED,
        Category.RECONCILE_REQUIRED,
    )
)
_NOUNS = ("session.", "grant.")


@dataclass(slots=True, kw_only=True)
class Attendance:
    """One session, as its events so far tell it."""

    id: str
    agent: str | None = None
    pid: int | None = None
    exe: str | None = None
    span: str | None = None
    opened_at_ms: int | None = None
    ended_at_ms: int | None = None
    why: str | None = None
    muted: bool = False
    last_seq: int = 0
    requests: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    denied: int = 0
    open: int = 0
    waiting: int = 0
    last_denial: JsonObject | None = None
    grants: dict[str, dict[str, JsonValue]] = field(default_factory=dict)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "id": self.id,
            "agent": self.agent,
            "pid": self.pid,
            "exe": self.exe,
            "span": self.span,
            "opened_at_ms": self.opened_at_ms,
            "ended_at_ms": self.ended_at_ms,
            "why": self.why,
            "muted": self.muted,
            "last_seq": self.last_seq,
            "requests": self.requests,
            "effects": dict(sorted(self.effects.items())),
            "denied": self.denied,
            "open": self.open,
            "waiting": self.waiting,
            "last_denial": self.last_denial,
            "grants": list(self.grants.values()),
        }


def concerns_a_session(event: JsonObject) -> bool:
    """Whether the Sessions view needs this event itself; of requests it takes their rows."""
    name = event.get("event")
    return isinstance(name, str) and name.startswith(_NOUNS)


def attendances(told: Iterable[Told], rows: Sequence[Row]) -> list[Attendance]:
    """Every session that these events or rows name, the one heard of last first."""
    held: dict[str, Attendance] = {}
    for seq, event in told:
        fields = event.get("fields")
        _happened(held, seq, event, fields if isinstance(fields, dict) else {})
    for row in rows:
        if row.session_id is not None and row.fields is None:
            _asked(held.setdefault(row.session_id, Attendance(id=row.session_id)), row)
    return sorted(held.values(), key=lambda one: (-one.last_seq, one.id))


def _happened(held: dict[str, Attendance], seq: int, event: JsonObject, told: dict[str, JsonValue]) -> None:
    session_id = event.get("session_id") or told.get("session")
    if not isinstance(session_id, str):
        return
    one = held.setdefault(session_id, Attendance(id=session_id))
    one.last_seq = max(one.last_seq, seq)
    one.agent = _text(told.get("agent")) or one.agent
    at_ms = _number(event.get("at_ms"))
    match event.get("event"):
        case EventName.SESSION_OPENED:
            one.opened_at_ms = _number(told.get("opened_at_ms")) or at_ms  # it may be recorded late
            one.pid, one.exe, one.span = _number(told.get("pid")), _text(told.get("exe")), _text(told.get("span"))
        case EventName.SESSION_ENDED:
            one.ended_at_ms, one.why = at_ms, _text(told.get("why"))
            for grant in one.grants.values():
                grant["ended_at_ms"] = grant["ended_at_ms"] or at_ms
        case EventName.SESSION_MUTED | EventName.SESSION_UNMUTED:
            one.muted = event.get("event") == EventName.SESSION_MUTED
        case EventName.GRANT_MADE:
            _granted(one, told, at_ms)
        case EventName.GRANT_ENDED:
            ended = one.grants.get(_text(told.get("grant")) or "")
            if ended is not None:
                ended["ended_at_ms"] = at_ms
        case _:
            pass  # no other event of these nouns changes what is shown


def _granted(one: Attendance, told: dict[str, JsonValue], at_ms: int | None) -> None:
    name = _text(told.get("grant"))
    if name is None:
        return
    kept = {key: _text(told.get(key)) for key in ("rule", "scope", "effect")}
    limits = {key: _number(told.get(key)) for key in ("max_uses", "expires_at_ms")}
    one.grants[name] = {"id": name, **kept, **limits, "made_at_ms": at_ms, "ended_at_ms": None}


def _asked(one: Attendance, row: Row) -> None:
    one.last_seq = max(one.last_seq, row.last_seq)
    one.agent = one.agent or row.agent
    one.requests += 1
    if row.effect is not None:
        one.effects[row.effect] += 1
    one.open += row.state != "ended"
    one.waiting += row.state == "waiting"
    if row.category in _DENIED:
        one.denied += 1
        one.last_denial = {"at_ms": row.ended_at_ms, "id": row.id, "category": row.category, "code": row.code}


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
