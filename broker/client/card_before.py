"""The card's parts on what a human said to the like earlier, and on how long a no stands."""

from dataclasses import dataclass

from broker.client.card_fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """How often this agent was denied under this rule within a day."""

    rule: str
    times: int
    last_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value that differs. `was` is None for what is new, `now` for what is gone."""

    what: str
    was: str | None
    now: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """The last request of this operation and agent that a human approved; `more` differences are not listed."""

    correlation_id: str
    approved_at_ms: int
    scope: str  # once | session
    request_digest: str
    changes: tuple[Change, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    denied: Denied | None
    previous: Previous | None


def read_before(part: Fields | None) -> Before | None:
    if part is None:
        return None
    return Before(denied=_denied(part.part_or_none("denied")), previous=_previous(part.part_or_none("previous")))


def read_memory(part: Fields | None) -> int | None:
    return None if part is None else part.integer("memory_s")


def _denied(part: Fields | None) -> Denied | None:
    if part is None:
        return None
    return Denied(rule=part.text("rule"), times=part.integer("times"), last_at_ms=part.integer("last_at_ms"))


def _previous(part: Fields | None) -> Previous | None:
    if part is None:
        return None
    return Previous(
        correlation_id=part.text("correlation_id"),
        approved_at_ms=part.integer("approved_at_ms"),
        scope=part.text("scope"),
        request_digest=part.text("request_digest"),
        changes=tuple(
            Change(what=item.text("what"), was=item.text_or_none("was"), now=item.text_or_none("now"))
            for item in part.parts("changes")
        ),
        more=part.integer("more"),
    )
