"""The Activity view: what one row says, folded from its events and from nothing else.

A request is one row with its whole trail; what humans, the vault and the daemon did stands in rows of its own. Pure,
and lenient: a field that is missing, or of another type than expected, reads as not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject, JsonValue
from broker.core.effects import effect_word
from broker.core.events import EventName

Told: TypeAlias = tuple[int, JsonObject]
"""A record's number and its event."""

OPENERS = frozenset({EventName.ACTION_REQUESTED.value, EventName.RECONCILE_STARTED.value})
_ALONE = frozenset(
    {
        EventName.GRANT_MADE.value,
        EventName.SESSION_MUTED.value,
        EventName.SESSION_UNMUTED.value,
        EventName.OPERATION_SETTLED.value,
        EventName.FLOOD_SUMMARY.value,
    }
)
_ALONE_NOUNS = frozenset(
    {"vault", "credential", "policy", "approver", "hostkey", "listener", "markers", "control", "audit", "daemon"}
)


def _heads(name: str) -> bool:
    if name in OPENERS or name in _ALONE:
        return True
    return name.partition(".")[0] in _ALONE_NOUNS and name != EventName.POLICY_DECIDED.value


_HEADS = {name.value: _heads(name.value) for name in EventName}
_EFFECTS = frozenset(effect.value for effect in Effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row. What is not known, or does not apply, is None."""

    id: str  # the correlation id, or `seq-N` of a record that stands alone
    seq: int  # of its first record, which is its place in the list
    last_seq: int
    events: int
    event: str  # name of its first record
    state: str  # asked | waiting | sent | ended
    at_ms: int
    ended_at_ms: int | None = None
    agent: str | None = None
    session_id: str | None = None
    effect: str | None = None  # READ | WRITE | DELETE | RUN
    operation: str | None = None
    target: str | None = None
    rules: tuple[str, ...] = ()
    decision: str | None = None  # what became of its card
    reason: str | None = None  # the human's words
    category: str | None = None
    code: str | None = None
    retry: str | None = None
    remote_effect: str | None = None
    status: int | None = None  # of the answer: HTTP's, or the command's exit status
    returned: int | None = None
    complete: bool | None = None
    incomplete: tuple[str, ...] = ()
    recorded: str | None = None  # the request whose outcome was given again
    of: str | None = None  # the request that this one settles
    sent_bytes: int | None = None
    elapsed_ms: int | None = None
    credential: str | None = None
    asking: str | None = None  # how the policy has it asked for: none | session | per_call | deny
    fields: JsonObject | None = None  # of a record that stands alone

    def to_json(self) -> dict[str, JsonValue]:
        return {name: _plain(getattr(self, name)) for name in _NAMES}


_NAMES = tuple(one.name for one in fields(Row))


def heads_a_row(event: JsonObject) -> bool:
    """Whether a row begins with this event."""
    name = event.get("event")
    if not isinstance(name, str):
        return True  # a record that can't be opened, or holds no event: it is shown
    heads = _HEADS.get(name)
    if heads is None:
        heads = _heads(name)
    return heads or (name == EventName.APPROVAL_DECIDED.value and is_a_yes(event))


def is_a_yes(event: JsonObject) -> bool:
    return _part(event, "fields").get("decision") == "approve"


def alone(seq: int, event: JsonObject) -> Row:
    """The row of a record that stands for itself."""
    told = _part(event, "fields")
    at_ms = _number(event, "at_ms") or 0
    return Row(
        id=f"seq-{seq}",
        seq=seq,
        last_seq=seq,
        events=1,
        event=_text(event, "event") or "unreadable",
        state="ended",
        at_ms=at_ms,
        ended_at_ms=at_ms,
        agent=_text(told, "agent"),
        session_id=_text(event, "session_id") or _text(told, "session"),
        of=_text(told, "of") or _text(event, "correlation_id"),
        fields=told if "event" in event else {"unreadable": event.get("unreadable")},
    )


def request(correlation_id: str, trail: Sequence[Told]) -> Row:
    """The row of a request, or of a reconciliation, from its events in order. The first one opens it."""
    known: dict[str, object] = {}
    state, ended_at_ms = "asked", None
    first_seq, first = trail[0]
    for _, event in trail:
        name, told = event.get("event"), _part(event, "fields")
        match name:
            case EventName.ACTION_REQUESTED | EventName.RECONCILE_STARTED:
                known |= _said(agent=_text(told, "agent"), of=_text(told, "of"))
            case EventName.POLICY_DECIDED:
                known |= _decided(told)
            case EventName.APPROVAL_REQUESTED:
                state = "waiting"
            case EventName.APPROVAL_DECIDED:
                state = "asked"
                known |= _said(decision=_text(told, "decision"), reason=_text(told, "reason"))
            case EventName.DISPATCH_STARTED:
                state = "sent"
                known |= _said(credential=_text(told, "credential"))
            case EventName.REMOTE_ANSWERED | EventName.DEADLINE_EXPIRED | EventName.TRANSPORT_FAILED:
                known |= _answered(told)
            case EventName.ACTION_RESULT:
                state, ended_at_ms = "ended", _number(event, "at_ms")
                known |= _ended(told)
            case EventName.OPERATION_IN_DOUBT:
                state, ended_at_ms = "ended", _number(event, "at_ms")
                known |= {"category": "outcome_unknown", "code": "unrecorded"}
            case _:
                pass  # it is in the trail, and changes nothing in the row
    sessions = (_text(event, "session_id") for _, event in trail)
    return Row(
        id=correlation_id,
        seq=first_seq,
        last_seq=trail[-1][0],
        events=len(trail),
        event=_text(first, "event") or "",
        state=state,
        at_ms=_number(first, "at_ms") or 0,
        ended_at_ms=ended_at_ms,
        session_id=next((session for session in sessions if session), None),
        **known,  # type: ignore[arg-type]  # each value was read by the type of its field
    )


def _decided(told: JsonObject) -> dict[str, object]:
    asked = _part(told, "request")
    effect = _text(asked, "effect")
    return _said(
        effect=effect_word(Effect(effect), destructive=asked.get("destructive") is True)
        if effect in _EFFECTS
        else None,
        operation=_text(asked, "operation"),
        target=_text(told, "identifies") or ", ".join(_texts(asked, "targets")) or _text(asked, "url"),
        rules=_texts(told, "rules"),
        asking=_text(told, "decision"),
    )


def _answered(told: JsonObject) -> dict[str, object]:
    status = _number(told, "status")
    return _said(
        status=_number(told, "exit_status") if status is None else status,
        elapsed_ms=_number(told, "elapsed_ms"),
        sent_bytes=_number(told, "sent_body_bytes"),
    )


def _ended(told: JsonObject) -> dict[str, object]:
    complete = told.get("complete")
    return _said(
        category=_text(told, "category"),
        code=_text(told, "code"),
        retry=_text(told, "retry"),
        remote_effect=_text(told, "remote_effect"),
        returned=_number(told, "returned"),
        complete=complete if isinstance(complete, bool) else None,
        incomplete=_texts(told, "incomplete"),
        recorded=_text(told, "recorded"),
        operation=_text(told, "operation"),
    )


def _said(**known: object) -> dict[str, object]:
    """What is there; what is missing leaves what was known before."""
    return {name: value for name, value in known.items() if value is not None and value != ()}


def _part(value: JsonObject, name: str) -> JsonObject:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(value: JsonObject, name: str) -> str | None:
    found = value.get(name)
    return found if isinstance(found, str) else None


def _texts(value: JsonObject, name: str) -> tuple[str, ...]:
    found = value.get(name)
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def _number(value: JsonObject, name: str) -> int | None:
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _plain(value: object) -> JsonValue:
    return list(value) if isinstance(value, tuple) else value  # type: ignore[return-value]  # fields of a Row are JSON but for tuples
