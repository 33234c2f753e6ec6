"""The words of the Activity screen: what a row and each event of its trail say, in signs and short sentences.

Everything that came from elsewhere is neutralised here; reasons that a human gave stand in quotes. Pure.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from broker.client import card_words as words
from broker.client.lock_words import lock_words
from broker.contract.wire import JsonValue, dump
from ui.paper import Paper, Role
from ui.served import EventRow, Fields
from ui.served_log import ActivityRow

_REFUSED = frozenset(
    {
        *("policy_denied", "session_denied", "call_denied", "approval_timeout", "evidence_required"),
        *("reconcile_required", "vault_locked", "invalid_request", "broker_unavailable"),
    }
)
_ROLES = {"+": Role.GOOD, "~": Role.LOOK, "!": Role.LOOK, "?": Role.UNKNOWN}
REMOTE = frozenset({"remote.answered", "deadline.expired", "transport.failed"})
_STATES = {"asked": "asked", "waiting": "waits for you", "sent": "under way"}
_ASKING = {
    "none": "no asking",
    "session": "ask once in each session",
    "per_call": "ask each time",
    "deny": "denied",
}
_INCOMPLETE = {
    "MORE_PAGES_AVAILABLE": "more pages",
    "RESULT_LIMIT_REACHED": "limit",
    "TIME_BUDGET_EXCEEDED": "time",
    "SOURCE_UNAVAILABLE": "a source is missing",
    "VISIBILITY_RESTRICTED": "not all visible",
    "ITEM_FAILURES": "items failed",
    "OUTPUT_TRUNCATED": "cut",
    "CURSOR_EXPIRED": "cursor expired",
    "SNAPSHOT_CHANGED": "changed meanwhile",
    "COMPLETENESS_UNVERIFIED": "unverified",
    "IN_PROGRESS": "in progress",
}
_PHASES = {
    "connecting": "connecting",
    "connected": "connected",
    "headers_sent": "head sent",
    "body_sent": "handed over whole",
    "response_started": "answer begun",
    "response_complete": "answered",
}
NARROW = 13  # what may stand beside a short end in a narrow window
_SETTLED = {True: "done", False: "not done"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A row in words, neutralised. `short` is what of `more` fits beside the end in a narrow window."""

    sign: str
    who: str
    effect: str
    what: str
    target: str
    end: str
    more: str
    short: str
    ms: str

    @property
    def role(self) -> Role:
        return _ROLES.get(self.sign, Role.NO)


def told(item: ActivityRow, about: ActivityRow | None, paper: Paper) -> Told:
    """`about` is the request that a human's act is about, where it is known."""
    return _act(item, about, paper) if item.alone else _request(item, paper)


def _request(item: ActivityRow, paper: Paper) -> Told:
    more, short = _more(item, paper)
    end = item.category or ("given again" if item.recorded else _STATES.get(item.state, "ended"))
    what = item.operation or ("read back" if item.event == "reconcile.started" else "not named")
    return Told(
        sign=_sign(item),
        who=paper.foreign(item.agent or "not known", limit=40),
        effect=paper.foreign(item.effect or "", limit=24),
        what=paper.foreign(what.replace(".", " ", 1), limit=80),
        target=paper.foreign(item.target or "", limit=80),
        end=paper.foreign(end, limit=40),
        more=more,
        short=short,
        ms="" if item.elapsed_ms is None else str(item.elapsed_ms),
    )


def _sign(item: ActivityRow) -> str:
    match item.category:
        case None:
            return "+" if item.recorded else "!" if item.state == "waiting" else "."
        case "success":
            return "~" if item.complete is False else "+"
        case "partial":
            return "~"
        case "outcome_unknown":
            return "?"
        case category:
            return "-" if category in _REFUSED else "x"


def _more(item: ActivityRow, paper: Paper) -> tuple[str, str]:
    """What stands beside the end, and what of it stands there in a narrow window."""
    match item.category:
        case "success" | "partial":
            text = _how_much(item, paper)
            return text, text if len(text) <= NARROW else text.partition(",")[0]
        case "outcome_unknown":
            return "may have happened", ""
        case "call_denied" if item.decision == "deny":
            return (f"by you: {paper.quote(item.reason, limit=60)}" if item.reason else "by you"), ""
        case None:
            return (f"as {_short_id(item.recorded, paper)}" if item.recorded else ""), ""
        case category if category in _REFUSED or item.status is None:
            return paper.foreign(item.code or "", limit=40).replace("_", " "), ""
        case _:
            return f"{item.status}, {paper.foreign(item.remote_effect or '', limit=24)}", str(item.status)


def _how_much(item: ActivityRow, paper: Paper) -> str:
    if item.effect == "RUN" and item.status is not None:
        return f"exit {item.status}"
    if item.returned is None:
        return ""
    if item.complete:
        return f"{item.returned}, complete"
    why = next((_INCOMPLETE.get(code, paper.foreign(code, limit=24)) for code in item.incomplete), "")
    return f"{item.returned} seen, {why}" if why else f"{item.returned} seen"


def _act(item: ActivityRow, about: ActivityRow | None, paper: Paper) -> Told:
    noun, _, verb = item.event.partition(".")
    sign, who, what, more = _act_words(item, about, noun, verb.replace("_", " "), paper)
    return Told(sign=sign, who=who, effect="", what=what, target=more, end="", more="", short="", ms="")


def _act_words(
    item: ActivityRow, about: ActivityRow | None, noun: str, verb: str, paper: Paper
) -> tuple[str, str, str, str]:
    """Sign, who, what, and with what."""

    def text(name: str) -> str:
        return paper.foreign(item.text(name), limit=60)

    operation = "" if about is None or about.operation is None else about.operation.partition(".")[2]
    match item.event:
        case "approval.decided":
            covers = "for the session" if item.text("scope") == "session" else "once"
            return "=", "you", f"approved {paper.foreign(operation or 'a request', limit=60)}", covers
        case "grant.made":
            lifetime_s = round(((item.number("expires_at_ms") or item.at_ms) - item.at_ms) / 1000)
            uses = words.counted(item.number("max_uses") or 0, "call")
            return "=", "you", f"granted {text('rule')}", f"{uses}, {words.lifetime(lifetime_s)}"
        case "operation.settled":
            fields = item.fields or {}
            done = _SETTLED.get(fields.get("applied") is True, "")
            return "=", "you", f"settled {paper.foreign(operation or 'a change', limit=60)}", done
        case "policy.trusted":
            return "=", "you", "trusted the policy", f"counter {item.number('counter')}, {_hex(text('digest'))}"
        case "policy.edit_refused":
            return "!", "policy", "edit does not load", text("first")
        case "policy.reloaded":
            return "=", "root", "changed the machine's policy", _hex(text("digest"))
        case "vault.unlocked" | "vault.locked":
            why = lock_words(item.text("reason"))
            return ".", "vault", verb, f"term {item.number('term')}" + ("" if why is None else f", {why}")
        case "flood.summary":
            return "!", "flood", f"{item.number('count')} more refused", text("code") or text("of")
        case "control.opened":
            return "=", "you", "opened a control session", f"pid {item.number('pid')}"
        case "control.refused":
            return "-", text("agent") or "not known", "refused at control.sock", f"{text('code')} {text('route')}"
        case "unreadable":
            return "!", "log", f"record {item.seq} can't be read", text("unreadable")
        case _:
            sign = "=" if noun in {"credential", "approver", "session", "hostkey"} or item.text("key") else "."
            sign = "!" if verb in {"quarantined", "frozen", "recovered", "unlock failed"} else sign
            who = "you" if sign == "=" else paper.foreign(noun, limit=24)
            what = f"{verb} {noun}" if who == "you" else verb
            about_it = ("credential", "host", "method", "why", "verdict", "rung", "version", "note")
            named = [text(name) for name in about_it]
            return sign, who, paper.foreign(what, limit=40), ", ".join(one for one in named if one)


def clock_ms(at_ms: int) -> str:
    """Time of day here, to the millisecond."""
    return f"{words.clock_time(at_ms)}.{at_ms % 1000:03}"


def day(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at_ms / 1000))


def trail_line(event: EventRow, paper: Paper) -> str:
    """What an event of a request says, in one sentence."""
    fields = Fields(event.fields)

    def text(name: str) -> str:
        return paper.foreign(fields.text(name), limit=60)

    match event.name:
        case "action.requested":
            return f"asked by {text('agent')} pid {fields.number('pid')}"
        case "policy.decided":
            rules = ", ".join(paper.foreign(rule, limit=40) for rule in fields.texts("rules")) or "no rule"
            asking = _ASKING.get(fields.text("decision"), text("decision"))
            return f"rule {rules}: {asking}, policy {_hex(text('policy'))}, request {_hex(text('digest'))}"
        case "approval.requested":
            return f"put before you as {text('approval_id')}"
        case "approval.decided":
            return _answer(fields, paper)
        case "approval.refused":
            return f"an answer was not accepted: {text('code')}"
        case "dispatch.started":
            credential = fields.text_or_none("credential")
            using = f", with credential {paper.foreign(credential, limit=40)}" if credential else ""
            return f"the intent is on record; sending begins{using}"
        case "remote.answered":
            return f"answered {fields.number('status')} after {fields.number('elapsed_ms')} ms, {_sent(fields)}"
        case "deadline.expired":
            waited_s = round(fields.number("elapsed_ms") / 1000, 1)
            return f"no answer in {waited_s:g} s ({phase_words(fields.text('phase'), paper)}), {_sent(fields)}"
        case "transport.failed":
            return f"failed: {_spaced(text('fault'))} ({phase_words(fields.text('phase'), paper)}), {_sent(fields)}"
        case "action.result":
            return _result(fields, paper)
        case "reconcile.started":
            return f"read-back of {_short_id(fields.text('of'), paper)} for {text('agent')}"
        case "reconcile.settled":
            return f"settled: {text('category')} / {text('code')}"
        case _:
            return f"{paper.foreign(event.name, limit=40)} {fields_line(event, paper)}".rstrip()


def condensed(trail: tuple[EventRow, ...], paper: Paper) -> list[tuple[int, str]]:
    """Times and sentences of a trail: an answered card is one line, and so are what came back and what it means."""
    out: list[tuple[int, str]] = []
    names = {event.name for event in trail}
    for event in trail:
        if event.name == "approval.requested" and "approval.decided" in names:
            continue
        fields = Fields(event.fields)
        if event.name == "action.result" and fields.text("category") and out and names & REMOTE:
            at_ms, happened = out[-1]
            retry = fields.text("retry")
            again = f", retry {paper.foreign(retry, limit=24)}" if retry not in {"", "never"} else ""
            out[-1] = (at_ms, f"{happened}: {paper.foreign(fields.text('category'), limit=40)}{again}")
            continue
        out.append((event.at_ms, trail_line(event, paper)))
    return out


def fields_line(event: EventRow, paper: Paper) -> str:
    """All fields of an event, as they are."""
    told_fields = ((name, value) for name, value in event.fields.items() if value not in (None, "", []))
    return "   ".join(f"{paper.foreign(name, limit=40)} {_spelled(value, paper)}" for name, value in told_fields)


def url_of(trail: tuple[EventRow, ...], paper: Paper) -> str:
    """Method and URL as they were frozen, where the trail tells them."""
    for event in trail:
        asked = event.fields.get("request")
        if isinstance(asked, Mapping):
            request = Fields(asked)
            return paper.foreign(f"{request.text('method')} {request.text('url')}".strip(), limit=200)
    return ""


def _answer(fields: Fields, paper: Paper) -> str:
    reason = fields.text_or_none("reason")
    because = f": {paper.quote(reason, limit=80)}" if reason else ""
    match fields.text("decision"):
        case "approve":
            covers = "for the session" if fields.text("scope") == "session" else "once"
            signed = ", signed" if fields.text_or_none("signature") else ""
            return f"you approved {covers}{signed}{because}"
        case "deny":
            return f"you denied it{because}"
        case other:
            return f"the card ended: {paper.foreign(other, limit=40).replace('_', ' ')}"


def _result(fields: Fields, paper: Paper) -> str:
    recorded = fields.text_or_none("recorded")
    if recorded is not None:
        return f"the recorded outcome of {_short_id(recorded, paper)} was given again"
    names = (fields.text("category"), fields.text("code"), fields.text("retry"), fields.text("remote_effect"))
    category, code, retry, effect = (paper.foreign(name, limit=40) for name in names)
    return f"{category} / {code}, retry {retry}, remote effect {effect}"


def _sent(fields: Fields) -> str:
    return f"{words.counted(fields.number('sent_body_bytes'), 'byte')} sent"


def _short_id(name: str | None, paper: Paper) -> str:
    text = paper.foreign(name or "not known", limit=60)
    return text if len(text) <= 21 else f"{text[:16]}{paper.dots}{text[-4:]}"


def phase_words(phase: str, paper: Paper) -> str:
    """How far a request got."""
    return _PHASES.get(phase) or paper.foreign(phase.replace("_", " "), limit=24)


def _spaced(name: str) -> str:
    return name.replace("_", " ") or "not known"


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")[:8] or "none"


def _spelled(value: JsonValue, paper: Paper) -> str:
    return paper.foreign(value if isinstance(value, str) else dump(value).decode("utf-8", "replace"), limit=400)
