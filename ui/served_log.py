"""What the daemon tells of the log, parsed once into values for the screens. As lenient as ui/served.py."""

from collections.abc import Mapping
from dataclasses import dataclass

from broker.contract.wire import JsonObject, JsonValue
from ui.served import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityRow:
    """One row of the Activity view."""

    id: str
    seq: int
    last_seq: int
    event: str
    state: str
    at_ms: int
    agent: str | None = None
    session_id: str | None = None
    effect: str | None = None
    operation: str | None = None
    target: str | None = None
    rules: tuple[str, ...] = ()
    decision: str | None = None
    reason: str | None = None
    category: str | None = None
    code: str | None = None
    retry: str | None = None
    remote_effect: str | None = None
    status: int | None = None
    returned: int | None = None
    complete: bool | None = None
    incomplete: tuple[str, ...] = ()
    recorded: str | None = None
    of: str | None = None
    sent_bytes: int | None = None
    elapsed_ms: int | None = None
    credential: str | None = None
    asking: str | None = None
    fields: JsonObject | None = None

    @property
    def alone(self) -> bool:
        """Whether it is one record that stands for itself."""
        return self.fields is not None

    def number(self, name: str) -> int | None:
        return Fields(self.fields or {}).number_or_none(name)

    def text(self, name: str) -> str:
        return Fields(self.fields or {}).text(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSession:
    """A session as the log tells of it."""

    id: str
    agent: str
    pid: int | None
    opened_at_ms: int | None
    ended_at_ms: int | None
    why: str | None
    requests: int
    denied: int
    open: int
    waiting: int
    effects: tuple[tuple[str, int], ...]
    last_denial: tuple[int, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What the files say by their sizes."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A signed note that was written at this window's wish."""

    at_ms: int
    note: str
    size: int
    countersigned: bool

    def line(self, number: int) -> str:
        """A line of the note: 0 its origin, 1 its size, 2 its root."""
        lines = self.note.split("\n")
        return lines[number] if number < len(lines) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidVerdict:
    """What a verifier of its own found. An empty verdict: it could not be run."""

    verdict: str
    rung: str
    note: str
    records: int
    segment: str | None
    offset: int | None
    seq: int | None
    proven_to: int | None
    at_ms: int
    took_s: float

    @classmethod
    def none(cls, *, at_ms: int) -> "SaidVerdict":
        return cls(
            verdict="",
            rung="",
            note="",
            records=0,
            segment=None,
            offset=None,
            seq=None,
            proven_to=None,
            at_ms=at_ms,
            took_s=0.0,
        )


def activity(value: JsonValue) -> tuple[ActivityRow, ...]:
    return tuple(_row(item) for item in Fields(value).parts("rows"))


def past_sessions(value: JsonValue) -> tuple[PastSession, ...]:
    return tuple(_past(item) for item in Fields(value).parts("sessions"))


def _row(item: Fields) -> ActivityRow:
    complete, fields = item.value("complete"), item.value("fields")
    return ActivityRow(
        id=item.text("id"),
        seq=item.number("seq"),
        last_seq=item.number("last_seq"),
        event=item.text("event"),
        state=item.text("state"),
        at_ms=item.number("at_ms"),
        agent=item.text_or_none("agent"),
        session_id=item.text_or_none("session_id"),
        effect=item.text_or_none("effect"),
        operation=item.text_or_none("operation"),
        target=item.text_or_none("target"),
        rules=item.texts("rules"),
        decision=item.text_or_none("decision"),
        reason=item.text_or_none("reason"),
        category=item.text_or_none("category"),
        code=item.text_or_none("code"),
        retry=item.text_or_none("retry"),
        remote_effect=item.text_or_none("remote_effect"),
        status=item.number_or_none("status"),
        returned=item.number_or_none("returned"),
        complete=complete if isinstance(complete, bool) else None,
        incomplete=item.texts("incomplete"),
        recorded=item.text_or_none("recorded"),
        of=item.text_or_none("of"),
        sent_bytes=item.number_or_none("sent_bytes"),
        elapsed_ms=item.number_or_none("elapsed_ms"),
        credential=item.text_or_none("credential"),
        asking=item.text_or_none("asking"),
        fields=fields if isinstance(fields, Mapping) else None,
    )


def _past(item: Fields) -> PastSession:
    effects, denial = item.part("effects"), item.value("last_denial")
    last = Fields(denial) if isinstance(denial, Mapping) else None
    return PastSession(
        id=item.text("id"),
        agent=item.text("agent"),
        pid=item.number_or_none("pid"),
        opened_at_ms=item.number_or_none("opened_at_ms"),
        ended_at_ms=item.number_or_none("ended_at_ms"),
        why=item.text_or_none("why"),
        requests=item.number("requests"),
        denied=item.number("denied"),
        open=item.number("open"),
        waiting=item.number("waiting"),
        effects=tuple((name, effects.number(name)) for name in effects.whole),
        last_denial=None if last is None else (last.number("at_ms"), last.text("code") or last.text("category")),
    )
