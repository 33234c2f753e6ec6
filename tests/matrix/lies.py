"""Lies: what a run left behind, made to say something else in one place, as a daemon, a log or a far side would.

Each names the case that it is told of, the assertion that has to break, and words that the message has to have.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from broker.matrix.observed import Event, Observed
from broker.matrix.transcript import Step

Doctor = Callable[[Observed], Observed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lie:
    """One planted fault."""

    kind: str  # category | retry | effect | completeness | trail | secret | remote state | next action
    name: str
    case: str
    breaks: str
    says: str
    doctor: Doctor


def told(**changes: Any) -> Doctor:
    """The case's own answer says something else, and so does the record of it."""

    def doctor(seen: Observed) -> Observed:
        return _with_primary(seen, lambda step: _changed(step, changes))

    return doctor


def whole(**changes: Any) -> Doctor:
    """Its completeness says something else."""

    def doctor(seen: Observed) -> Observed:
        return _with_primary(
            seen, lambda step: _changed(step, {"completeness": {**_table(step, "completeness"), **changes}})
        )

    return doctor


def pointed(**changes: Any) -> Doctor:
    """Its next action does."""

    def doctor(seen: Observed) -> Observed:
        return _with_primary(seen, lambda step: _changed(step, {"next": {**_table(step, "next"), **changes}}))

    return doctor


def at(deed: str, **changes: Any) -> Doctor:
    """The answer to another deed of the run does."""

    def doctor(seen: Observed) -> Observed:
        steps = tuple(_changed(step, changes) if step.deed == deed else step for step in seen.steps)
        return replace(seen, steps=steps)

    return doctor


def without(*names: str) -> Doctor:
    """Records are missing from the log."""

    def doctor(seen: Observed) -> Observed:
        return replace(seen, trail=tuple(one for one in seen.trail if one.name not in names))

    return doctor


def recorded(name: str, **changes: Any) -> Doctor:
    """Records say something else."""

    def doctor(seen: Observed) -> Observed:
        trail = tuple(_record(one, changes) if one.name == name else one for one in seen.trail)
        return replace(seen, trail=trail)

    return doctor


def far_lacks(what: str) -> Doctor:
    def doctor(seen: Observed) -> Observed:
        return replace(seen, far=tuple(one for one in seen.far if one.what != what))

    return doctor


def far_twice(seen_as: str, **changes: Any) -> Doctor:
    """Something happened at the far side once more than it did."""

    def doctor(seen: Observed) -> Observed:
        (first, *_) = [one for one in seen.far if one.what == seen_as]
        return replace(seen, far=(*seen.far, replace(first, **changes)))

    return doctor


def far_other(**changes: Any) -> Doctor:
    def doctor(seen: Observed) -> Observed:
        return replace(seen, far=tuple(replace(one, **changes) for one in seen.far))

    return doctor


def as_stranger(seen: Observed) -> Observed:
    """What arrived came with the credential of another run."""
    return far_other(credential="Bearer canary-of-another-run")(seen)


def arrives_after_all(seen: Observed) -> Observed:
    """What was refused here got to the far side nevertheless."""
    from broker.matrix.records import Seen  # noqa: PLC0415 - the one place that makes one

    return replace(seen, far=(Seen(case=seen.name, what="received", detail="DELETE /v1/items/x", status=None),))


def does_it_again(seen: Observed) -> Observed:
    """The agent sends the change once more after an answer that does not permit it."""
    first = next(step for step in seen.steps if step.deed != "warm_up")
    again = _changed(first, {"correlation_id": "op_" + "f" * 44})
    return replace(seen, steps=(*seen.steps, again))


def goes_elsewhere(seen: Observed) -> Observed:
    """The agent does something that no transition permits."""
    return replace(seen, steps=(*seen.steps, replace(seen.steps[-1], deed="clean_up")))


def deletes_on_a_part(seen: Observed) -> Observed:
    """A change on the ground of a list that was not whole went through."""
    return at("delete", category="success", ok=True, status="success")(seen)


def concludes_otherwise(seen: Observed) -> Observed:
    return _with_primary(seen, lambda step: replace(step, decision="proceed"))


def unanswered(seen: Observed) -> Observed:
    """Nothing is known of an answer at all."""
    return replace(seen, steps=())


def sent_before_it_was_asked(seen: Observed) -> Observed:
    """The card was shown when everything had happened."""
    order = {"dispatch.started": 0, "remote.answered": 1, "approval.requested": 2, "approval.decided": 3}
    own = seen.steps[0].correlation_id
    middle = sorted((one for one in seen.trail if one.name in order), key=lambda one: order[one.name])
    rest = [one for one in seen.trail if one.name not in order and one.correlation_id == own]
    moved = [rest[0], rest[1], *[one for one in middle if one.correlation_id == own], *rest[2:]]
    return replace(seen, trail=tuple(replace(one, seq=seq) for seq, one in enumerate(moved)))


def out_of_order(seen: Observed) -> Observed:
    return replace(seen, trail=tuple(reversed(seen.trail)))


def of_another_call(seen: Observed) -> Observed:
    """The records of the call stand under another correlation id."""
    return replace(seen, trail=tuple(replace(one, correlation_id="op_" + "0" * 44) for one in seen.trail))


def ends_twice(seen: Observed) -> Observed:
    last = next(one for one in reversed(seen.trail) if one.name == "action.result")
    return replace(seen, trail=(*seen.trail, replace(last, seq=last.seq + 1000)))


def forged_log(seen: Observed) -> Observed:
    return replace(seen, verdict="ALTERED")


def hidden_prompt(seen: Observed) -> Observed:
    """A human was asked once more than the case says."""
    cards = [one for one in seen.trail if one.name in {"approval.requested", "approval.decided"}]
    more = [replace(one, seq=one.seq + 1000) for one in cards[:2]]
    return replace(seen, trail=(*seen.trail, *more))


def leaked_plainly(seen: Observed) -> Observed:
    return told(message=f"Authorization: Bearer {seen.token}")(seen)


def leaked_in_base64(seen: Observed) -> Observed:
    hidden = base64.b64encode(f"user:{seen.token}".encode()).decode()
    return told(warnings=[{"code": "PROVIDER_NOTICE", "message": hidden}])(seen)


def leaked_in_a_request(seen: Observed) -> Observed:
    return _with_primary(seen, lambda step: replace(step, request={**step.request, "reason": seen.token}))


def leaked_into_the_log(seen: Observed) -> Observed:
    first, *rest = seen.trail
    return replace(seen, trail=(_record(first, {"note": seen.token.encode().hex()}), *rest))


def leaked_into_a_file(seen: Observed) -> Observed:
    return replace(seen, leaks=("state/ledger.db (plain)",))


def _with_primary(seen: Observed, change: Callable[[Step], Step]) -> Observed:
    primary = seen.primary
    return replace(seen, steps=tuple(change(step) if step is primary else step for step in seen.steps))


def _changed(step: Step, changes: Mapping[str, Any]) -> Step:
    outcome = str(changes["category"]) if step.verb != "reconcile" and "category" in changes else step.outcome
    return replace(step, envelope={**(step.envelope or {}), **changes}, outcome=outcome)


def _record(event: Event, changes: Mapping[str, Any]) -> Event:
    return replace(event, fields={**event.fields, **changes})


def _table(step: Step, key: str) -> dict[str, Any]:
    found = step.told(key)
    return dict(found) if isinstance(found, Mapping) else {}


DENIED, LATE, LOST, SLOW, READ = "C03", "C05", "C05-lost", "C07", "C01"
CUT, REFUSED, KEYED, ASKED, MALFORMED = (
    "broker-stops-after-pages", "call-declined", "key-sent-answer-lost-same-key-again", "read-asked-once",
    "create-id-null",
)  # fmt: skip
AFTER_EXIT, HASTY, FREE, STALE = "change-after-exit", "empty-first-page-is-no-proof", "free-read", "comp-049"
OK = {"category": "success", "ok": True, "status": "success"}

_ROWS: tuple[tuple[str, str, str, str, str, Doctor], ...] = (
    ("category", "a refusal is told as a success", DENIED, "result", "category is 'success'", told(**OK)),
    ("category", "a doubt is told as a failure", LATE, "result", "expected 'outcome_unknown'",
     told(category="confirmed_failure", code="client_error", retry="never", remote_effect="none")),
    ("category", "what never got out is told as a doubt", READ, "result", "expected 'local_failure'",
     told(category="outcome_unknown", code="connection_lost")),
    ("category", "another code below the category", MALFORMED, "result", "code is 'schema'", told(code="schema")),
    ("category", "ok says something else than the category", DENIED, "result", "do not agree", told(ok=True)),
    ("category", "a status that nobody sent", DENIED, "trail", "not those that the far side sent",
     recorded("remote.answered", status=409)),
    ("retry", "a doubt may be tried again", LATE, "result", "retry is 'bounded'", told(retry="bounded")),
    ("retry", "a denial may be tried again later", DENIED, "result", "retry is 'after_delay'",
     told(retry="after_delay")),
    ("retry", "a shorter wait than was told", SLOW, "result", "retry_after_s is 1, expected 30", told(retry_after_s=1)),
    ("retry", "a broken answer to a change may be ignored", MALFORMED, "result", "retry is 'never'",
     told(retry="never")),
    ("effect", "nothing was changed, and something was", LATE, "result", "remote_effect is 'none'",
     told(remote_effect="none")),
    ("effect", "a read that changed something", FREE, "result", "a read has changed something",
     told(remote_effect="applied")),
    ("effect", "a change that calls itself a read", LATE, "result", "effect is 'read'", told(effect="read")),
    ("effect", "a change in doubt that is claimed", LOST, "remote", "changes are claimed, and 0 were made",
     told(remote_effect="applied")),
    ("completeness", "a part that is called whole", CUT, "result", "complete, with reasons", whole(complete=True)),
    ("completeness", "a whole without any reason against it", CUT, "result", "completeness.complete is True",
     whole(complete=True, incomplete_reasons=[])),
    ("completeness", "the broker's own limit is kept quiet", CUT, "result", "incomplete_reasons are",
     lambda seen: whole(incomplete_reasons=_table(seen.steps[0], "completeness")["incomplete_reasons"][:1])(seen)),
    ("completeness", "the broker's own limit is laid on the provider", CUT, "result", "said to come from",
     lambda seen: whole(incomplete_reasons=[
         {**one, "by": "provider"} for one in _table(seen.steps[0], "completeness")["incomplete_reasons"]
     ])(seen)),
    ("completeness", "more rows than came", CUT, "result", "completeness.returned is 3", whole(returned=3)),
    ("completeness", "no word of a cut", CUT, "result", "truncated is False", whole(truncated=False)),
    ("completeness", "no completeness at all", CUT, "result", "there is no completeness", told(completeness=None)),
    ("completeness", "a success over a part", CUT, "result", "a success that is not complete", told(**OK)),
    ("completeness", "an old list without a warning", STALE, "result", "warnings are []", told(warnings=[])),
    ("trail", "no result on record", DENIED, "trail", "it ends 0 times", without("action.result")),
    ("trail", "no answer on record", DENIED, "trail", "are not pairs", without("remote.answered")),
    ("trail", "nothing sent on record", DENIED, "trail", "requests arrived, and 0 are on record",
     without("dispatch.started")),
    ("trail", "no deadline on record", LATE, "trail", "deadline.expired is not on record", without("deadline.expired")),
    ("trail", "a card without an answer", DENIED, "trail", "what became of them are not pairs",
     without("approval.decided")),
    ("trail", "no card at all", DENIED, "trail", "a human was asked 0 times",
     without("approval.requested", "approval.decided")),
    ("trail", "a second card", ASKED, "trail", "a human was asked 2 times", hidden_prompt),
    ("trail", "a yes for once that counts for a session", AFTER_EXIT, "trail", "covers ['session']",
     recorded("approval.decided", scope="session")),
    ("trail", "sent before somebody was asked", DENIED, "trail", "before somebody was asked", sent_before_it_was_asked),
    ("trail", "records in another order", DENIED, "trail", "not in the order of the log", out_of_order),
    ("trail", "records of another call", DENIED, "trail", "does not begin with a request", of_another_call),
    ("trail", "two results", DENIED, "trail", "it ends 2 times", ends_twice),
    ("trail", "another outcome on record than was told", DENIED, "trail", "on record and 'authorization_denied' told",
     recorded("action.result", category="success")),
    ("trail", "a log that was altered", DENIED, "trail", "does not verify offline: ALTERED", forged_log),
    ("secret", "the credential in a message", DENIED, "secret", "(plain", leaked_plainly),
    ("secret", "the credential in base64", DENIED, "secret", "base64", leaked_in_base64),
    ("secret", "the credential in a request", DENIED, "secret", "in the transcript", leaked_in_a_request),
    ("secret", "the credential in hexadecimal on record", DENIED, "secret", "in the audit log", leaked_into_the_log),
    ("secret", "the credential in a file", DENIED, "secret", "state/ledger.db", leaked_into_a_file),
    ("remote state", "a change that was not made", MALFORMED, "remote", "committed is 0", far_lacks("committed")),
    ("remote state", "a change that was made twice", MALFORMED, "remote", "remote_committed 2 times",
     far_twice("committed")),
    ("remote state", "a change behind a confirmed no", DENIED, "remote", "remote_committed 1 times",
     far_twice("received", what="committed")),
    ("remote state", "one more request than was sent", DENIED, "trail", "2 requests arrived, and 1 are",
     far_twice("received")),
    ("remote state", "what was refused arrived", REFUSED, "remote", "nothing was to be sent", arrives_after_all),
    ("remote state", "a second key for one change", KEYED, "remote", "keys is 2", far_twice("received", key="another")),
    ("remote state", "the credential of another run", DENIED, "remote", "credential of another run", as_stranger),
    ("remote state", "a look-up that finds what is not there", LOST, "remote", "found a change that was never made",
     at("lookup_by_request_id", remote_effect="applied")),
    ("remote state", "a look-up that misses what is there", LATE, "remote", "nothing was changed, and it was",
     at("lookup_by_request_id", remote_effect="none")),
    ("next action", "a change in doubt is sent again", LATE, "next", "forbidden transition",
     lambda seen: replace(seen, steps=(seen.steps[0], seen.steps[0], *seen.steps[1:]))),
    ("next action", "a change goes out again under another id", MALFORMED, "next", "went out again after",
     does_it_again),
    ("next action", "somewhere that nothing permits", DENIED, "next", "is no permitted transition", goes_elsewhere),
    ("next action", "a change on a part of a list", HASTY, "next", "forbidden transition", deletes_on_a_part),
    ("next action", "the agent goes on as if nothing was", DENIED, "next", "concludes 'proceed'", concludes_otherwise),
    ("next action", "never leads to a retry", DENIED, "next", "never does not lead to 'retry'",
     pointed(action="retry")),
    ("next action", "a wait of another length", SLOW, "next", "another time than the result says", pointed(after_s=1)),
    ("next action", "no way to look it up", LATE, "next", "nothing says how to reconcile", pointed(command=None)),
    ("next action", "no answer to the case's own request", DENIED, "result", "no answer", unanswered),
)  # fmt: skip
LIES = tuple(
    Lie(kind=kind, name=name, case=case, breaks=breaks, says=says, doctor=doctor)
    for kind, name, case, breaks, says, doctor in _ROWS
)
