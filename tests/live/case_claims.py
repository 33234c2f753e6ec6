"""What every case is held to, as sentences about what was observed: result, next action, far side, trail.

Pure: the observations are values, so a doctored one has to be told. The meanings are written down here once more, from
the contract and not from the broker's code.
"""

import re
from typing import Any

from tests.live.case_world import TOKEN, Real, Step, is_in_doubt

NEXT = {
    "never": {"none", "fix_request", "ask_human"},
    "bounded": {"retry", "continue"},
    "after_delay": {"wait"},
    "after_human": {"ask_human"},
    "reconcile_first": {"reconcile"},
}
ENDINGS = {"remote.answered", "deadline.expired", "transport.failed"}
SLACK_S = 10  # a machine's breath between the clock of a plan and the answer


def told_wrong(one: Real, steps: list[Step]) -> list[str]:
    """Everything that does not hold; each begins with the assertion it breaks."""
    (asked,) = [step for step in steps if step.did == "ask"]
    return [
        *result(one, asked.envelope),
        *next_action(one, steps),
        *far_side(one, steps),
        *(fault for step in steps for fault in trail(step)),
    ]


def result(one: Real, envelope: dict[str, Any]) -> list[str]:
    """1. What the envelope says is what the case expects."""
    expected = {"retry_after_s": None, "complete": None} | one.case["expect"]
    expected.pop("items", None)  # counted in the core; an envelope tells them in words
    found = _found(envelope, one)
    wrong = [
        f"result: {name} is {found[name]!r}, expected {want!r}"
        for name, want in expected.items()
        if found[name] != want and not _is_near(name, found[name], want)
    ]
    if envelope["ok"] != (envelope["category"] == "success"):
        wrong.append("result: ok says something else than the category")
    return wrong


def next_action(one: Real, steps: list[Step]) -> list[str]:
    """2. What the agent is told to do next is what the contract allows, and what it must not do comes to nothing."""
    wrong = []
    for step in steps:
        envelope = step.envelope
        action = envelope["next"]["action"]
        if action not in NEXT[envelope["retry"]]:
            wrong.append(f"next: {step.did}: {envelope['retry']} does not lead to {action}")
        if action == "wait" and envelope["next"].get("after_s") != envelope["retry_after_s"]:
            wrong.append(f"next: {step.did}: it waits for another time than the result says")
        if envelope["retry"] == "reconcile_first" and envelope["next"]["command"] is None:
            wrong.append(f"next: {step.did}: nothing says how to reconcile")
    (asked,) = [step for step in steps if step.did == "ask"]
    for step in steps:
        if step.did == "repeat":
            wrong += _repeat(one, asked, step)
    return wrong


def _repeat(one: Real, asked: Step, again: Step) -> list[str]:
    """A change in doubt is let through as the very same request alone: under its key, where a service knows keys."""
    blocked = is_in_doubt(asked.envelope) and 'idempotency.kind = "key"' not in one.case["declares"]
    blocked = blocked and asked.envelope["retry"] not in {"bounded", "after_delay"}
    arrived, keys = _arrived(again), {logged.key for step in (asked, again) for logged in step.far}
    if 'idempotency.kind = "key"' in one.case["declares"] and (len(keys - {None}) != 1 or not arrived):
        return ["next: the same change went out under another key, or none"]
    if blocked:
        refused = again.envelope["category"] == "reconcile_required"
        return [] if refused and not arrived else ["next: a change in doubt was let through once more"]
    reaches = _is_reachable(one)
    return [] if bool(arrived) == reaches else ["next: what may be sent again was not"]


def far_side(one: Real, steps: list[Step]) -> list[str]:
    """3. What the far side wrote down agrees with what was claimed of it."""
    wrong = []
    for step in steps:
        envelope = step.envelope
        committed = [logged for logged in step.far if logged.what in {"committed", "repeated"}]
        if envelope["remote_effect"] == "none" and committed:
            wrong.append(f"far side: {step.did}: a change was made, and none was claimed")
        if envelope["remote_effect"] == "applied" and step.did != "reconcile" and not committed and one.is_write:
            wrong.append(f"far side: {step.did}: a change was claimed, and none was made")
        if any(logged.credential != f"Bearer {TOKEN}" for logged in step.far):
            wrong.append(f"far side: {step.did}: a request came without the credential, or with another")
        if TOKEN in repr(envelope):
            wrong.append(f"far side: {step.did}: the credential came back")
    whole = [logged for step in steps for logged in step.far if logged.what == "committed"]
    allowed = 2 if "forgotten" in one.case else 1
    if len(whole) > allowed:
        wrong.append(f"far side: the change was made {len(whole)} times")
    for step in steps:
        settled = step.envelope["remote_effect"] if step.did == "reconcile" else "unknown"
        if settled == "applied" and not whole:
            wrong.append("far side: a read-back found what was never made")
        if settled == "none" and whole:
            wrong.append("far side: a read-back missed what was made")
    return wrong


def trail(step: Step) -> list[str]:
    """4. The log has each point where the answer could change, in order, and agrees with far side and envelope."""
    names = [event["event"] for event in step.trail]
    wrong = []
    if not names or names[0] not in {"action.requested", "reconcile.started"} or names[-1] != "action.result":
        return [f"trail: {step.did}: it does not go from a request to its result: {names}"]
    if names.count("action.result") != 1:
        wrong.append(f"trail: {step.did}: it ends more than once")
    sent = [index for index, name in enumerate(names) if name == "dispatch.started"]
    ended = sum(name in ENDINGS for name in names)
    if any(names[index + 1] not in ENDINGS for index in sent) or len(sent) != ended:
        wrong.append(f"trail: {step.did}: what was sent and what came of it are not pairs: {names}")
    if len(sent) < len(_arrived(step)):
        wrong.append(f"trail: {step.did}: more arrived than is on record")
    statuses = [event["fields"]["status"] for event in step.trail if event["event"] == "remote.answered"]
    answered = [logged.status for logged in step.far if logged.status is not None]
    if [status for status in statuses if status is not None] != answered[: len(statuses)]:
        wrong.append(f"trail: {step.did}: other statuses are on record than were sent: {statuses}, {answered}")
    said = step.trail[-1]["fields"]
    wrong += [
        f"trail: {step.did}: {name} is {said[name]!r} on record and {step.envelope[name]!r} told"
        for name in ("category", "code", "retry", "remote_effect")
        if name in said and said[name] != step.envelope[name]
    ]
    if TOKEN in repr(step.trail):
        wrong.append(f"trail: {step.did}: the credential is on record")
    return wrong


def _found(envelope: dict[str, Any], one: Real) -> dict[str, Any]:
    told = envelope["completeness"]
    cursor = None if told is None else told["next_cursor"]
    return {
        "next_cursor": None if cursor is None else _led_to(one, cursor),
        "category": envelope["category"],
        "retry": envelope["retry"],
        "retry_after_s": envelope["retry_after_s"],
        "remote_effect": envelope["remote_effect"],
        "complete": None if told is None else told["complete"],
        "truncated": None if told is None else told["truncated"],
        "reasons": [] if told is None else [one["code"] for one in told["incomplete_reasons"]],
        "warnings": [one["code"] for one in envelope["warnings"]],
    }


def _led_to(one: Real, cursor: str) -> str:
    """A token as it is, and of a URL what stands behind the far side's own."""
    return re.sub(rf"^http://127\.0\.0\.1:\d+(/{one.service})?", "", cursor)


def _is_near(name: str, found: object, want: object) -> bool:
    both = isinstance(found, int) and isinstance(want, int)
    return name == "retry_after_s" and both and abs(found - want) <= SLACK_S  # type: ignore[operator]  # both are numbers


def _arrived(step: Step) -> list[str]:
    return [logged.target for logged in step.far if logged.what == "received"]


def _is_reachable(one: Real) -> bool:
    return one.fault not in {"dns_failed", "connect_refused", "tls_untrusted"}
