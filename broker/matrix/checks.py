"""What every run is held to: result, next action, remote state and trail, and that no secret is where it must not be.

Pure. The meanings are written down here once more, from the contract and not from the broker's code, so that a fault
there and a fault here would have to agree to go unnoticed.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema_rs

from broker.contract.schemas import schema
from broker.contract.wire import JsonValue
from broker.matrix.canaries import spelled_in
from broker.matrix.cases import MEANS_REVIEW, REVIEW, Complete
from broker.matrix.checks_trail import trail
from broker.matrix.observed import Breach, Observed
from broker.matrix.stage import CANARY
from broker.matrix.transcript import NO_ANSWER, Step

ACTIONS = {
    "never": {"none", "fix_request", "ask_human", "collect"},
    "bounded": {"retry", "continue"},
    "after_delay": {"wait"},
    "after_human": {"ask_human"},
    "reconcile_first": {"reconcile"},
}
NEAR_S = 10  # between the clock that an answer names and the one that is read
REFUSED_HERE = frozenset({
    "policy_denied", "vault_locked", "session_denied", "call_denied", "approval_timeout", "approval_pending",
    "evidence_required", "reconcile_required", "invalid_request", "local_failure",
})  # fmt: skip

ON_THE_WAY = frozenset({"proxy_auth", "captive_portal", "clock_skew"})  # told by an answer, and nothing got further


def judge(seen: Observed) -> tuple[Breach, ...]:
    """Everything that does not hold, in the order of the assertions."""
    return (
        *(Breach(assertion="result", text=text) for text in result(seen)),
        *(Breach(assertion="next", text=text) for text in next_action(seen)),
        *(Breach(assertion="remote", text=text) for text in remote(seen)),
        *(Breach(assertion="trail", text=text) for text in trail(seen)),
        *(Breach(assertion="secret", text=text) for text in secret(seen)),
    )


def result(seen: Observed) -> Iterator[str]:
    """1. What was told is what the case expects, and every envelope keeps the contract."""
    primary, want = seen.primary, seen.case.expect
    if primary is None or primary.envelope is None:
        yield "there is no answer to the case's own request"
        return
    for key in ("category", "retry", "code", "remote_effect"):
        expected = getattr(want, key)
        if expected is not None and primary.told(key) != expected:
            yield f"{key} is {primary.told(key)!r}, expected {expected!r} ({_gist(primary)})"
    if want.retry_after_s is not None and not _is_near(primary.told("retry_after_s"), want.retry_after_s):
        yield f"retry_after_s is {primary.told('retry_after_s')!r}, expected {want.retry_after_s}"
    http = _table(primary.told("http"))
    if want.status is not None and http.get("status") != want.status:
        yield f"status is {http.get('status')!r}, expected {want.status}"
    if seen.case.ask.effect is not None and primary.told("effect") != seen.case.ask.effect:
        yield f"effect is {primary.told('effect')!r}, expected {seen.case.ask.effect!r}"
    if seen.case.service is not None and seen.case.operation is not None:
        name = f"{seen.case.service}.{seen.case.operation}"
        if primary.told("operation") not in {name, None}:
            yield f"operation is {primary.told('operation')!r}, expected {name!r}"
    yield from _complete(primary, want.completeness)
    if want.warnings is not None:
        told = _codes(primary.told("warnings"))
        if sorted(told) != sorted(want.warnings):
            yield f"warnings are {told}, expected {list(want.warnings)}"
    for step in seen.steps:
        yield from _contract(step)


def next_action(seen: Observed) -> Iterator[str]:
    """2. Where the agent went from there is permitted, and so is what it was pointed to."""
    for step in seen.steps:
        yield from _pointed(step)
    primary = seen.primary
    if primary is not None and seen.case.decision is not None:
        allowed = MEANS_REVIEW if seen.case.decision == REVIEW else {seen.case.decision}
        if primary.decision not in allowed:
            yield f"the agent concludes {primary.decision!r}, expected {seen.case.decision!r}"
    chain = tuple(word for step in seen.steps if step.deed != "warm_up" for word in (step.deed, step.outcome))
    told = " -> ".join(chain)
    permitted = seen.case.agent.permitted
    if permitted and not any(_begins(chain, one) and len(chain) <= len(one) + 1 for one in permitted):
        yield f"{told} is no permitted transition"
    for one in seen.case.agent.forbidden:
        if any(_begins(chain[start:], one) for start in range(len(chain))):
            yield f"{told} has a forbidden transition: {' -> '.join(one)}"
    yield from _second_writes(seen)


def remote(seen: Observed) -> Iterator[str]:
    """3. What the far side wrote down is what the case expects, and agrees with what was claimed of it."""
    want, found = seen.case.expect.remote, seen.recorded
    own = seen.own
    counts = {"received": own.received, "committed": own.committed, "keys": len(own.keys)}
    for key, number in counts.items():
        expected = getattr(want, key)
        if expected is not None and number != expected:
            yield f"{key} is {number}, expected {expected}"
    asked = [step for step in seen.steps if step.verb != "reconcile"]
    changes = [step for step in asked if step.told("effect") in {"write", "exec"}]
    applied = [step for step in changes if step.told("remote_effect") == "applied" and step.told("code") != "replayed"]
    claimed = list({step.correlation_id: step for step in applied}.values())  # a recorded answer may be told twice
    unknown = [step for step in changes if step.told("remote_effect") == "unknown"]
    open_ = [step for step in unknown if step.outcome != "reconcile_required"]
    open_ += [step for step in asked if step.outcome == NO_ANSWER]
    done = sum(one.what in {"committed", "repeated"} for one in found.events)
    if found.committed > len(claimed) + len(open_):
        told = ", ".join(_gist(step) for step in changes) or "no change at all"
        yield f"remote_committed {found.committed} times there; here {len(claimed)} applied, {len(open_)} open: {told}"
    if len(claimed) > done:
        yield f"{len(claimed)} changes are claimed, and {done} were made"
    if want.unknown is None:
        yield from _looked_up(seen)
    refused = [step.outcome in REFUSED_HERE and step.told("code") not in ON_THE_WAY for step in asked]
    if all(refused) and found.received and not seen.daemon_died:
        yield f"nothing was to be sent, and {found.received} requests arrived"
    came = {one.credential for one in seen.far if one.credential is not None and CANARY in one.credential}
    if came - {f"Bearer {seen.token}", f"token {seen.token}", seen.token}:
        yield "a request came with the credential of another run"


def secret(seen: Observed) -> Iterator[str]:
    """5. The run's token is in no result, transcript, trail, log or file."""
    told = [dict(step.to_json()) for step in seen.steps]
    found = spelled_in(repr(told).encode(), seen.token)
    if found and not seen.case.expect.secret_in_result:
        yield f"the credential is in a result or in the transcript ({', '.join(found)})"
    if not found and seen.case.expect.secret_in_result:
        yield "the credential was to be in the result, and is not"
    if spelled_in(repr(seen.trail).encode(), seen.token):
        yield "the credential is in the audit log"
    yield from (f"the credential is in {place}" for place in seen.leaks)


def _looked_up(seen: Observed) -> Iterator[str]:
    """A read-back tells the truth."""
    for step in seen.steps:
        if step.verb != "reconcile" or step.envelope is None:
            continue
        if step.told("remote_effect") == "applied" and not seen.recorded.committed:
            yield "a look-up found a change that was never made"
        if step.told("remote_effect") == "none" and seen.recorded.committed:
            yield "a look-up says that nothing was changed, and it was"


def _second_writes(seen: Observed) -> Iterator[str]:
    """No change goes out again after an answer that does not permit it."""
    last: dict[str, Step] = {}
    for step in seen.steps:
        if step.verb == "reconcile" or step.told("effect") == "read":
            continue
        what = repr(sorted((key, repr(told)) for key, told in step.request.items() if key != "request_id"))
        before = last.get(what)
        last[what] = step
        is_recorded = before is not None and before.correlation_id == step.correlation_id is not None
        if before is None or before.process != step.process or is_recorded:
            continue
        if any(rule.get("in_doubt") == "ask" for rule in seen.case.rules):
            continue  # a human looks at what is in doubt, and may let it through
        may = before.told("retry") in {"bounded", "after_delay"} or before.envelope is None
        if not may and step.outcome not in REFUSED_HERE and step.told("code") != "replayed":
            yield f"{step.deed} went out again after {_gist(before)}"


def _pointed(step: Step) -> Iterator[str]:
    if step.envelope is None:
        return
    following = _table(step.told("next"))
    action = following.get("action")
    retry = str(step.told("retry"))
    if action not in ACTIONS.get(retry, set()):
        yield f"{step.deed}: {retry} does not lead to {action!r}"
    if action == "wait" and following.get("after_s") != step.told("retry_after_s"):
        yield f"{step.deed}: next waits for another time than the result says"
    if retry == "reconcile_first" and following.get("command") is None:
        yield f"{step.deed}: nothing says how to reconcile"
    if step.told("category") == "success" and action != "none":
        yield f"{step.deed}: a success leads to {action!r}"


def _contract(step: Step) -> Iterator[str]:
    if step.envelope is None:
        return
    for error in _validator().iter_errors(step.envelope):
        yield f"{step.deed}: the envelope breaks its schema: {error.instance_path}: {error.message[:200]}"
    if step.told("ok") != (step.told("category") == "success") or step.told("ok") != (step.told("status") == "success"):
        yield f"{step.deed}: ok, status and category do not agree"
    if step.told("effect") == "read" and step.told("remote_effect") != "none":
        yield f"{step.deed}: a read has changed something: {step.told('remote_effect')!r}"
    complete = _table(step.told("completeness"))
    if step.told("ok") is True and complete.get("complete") is False:
        yield f"{step.deed}: a success that is not complete"
    if complete.get("complete") is True and complete.get("incomplete_reasons"):
        yield f"{step.deed}: complete, with reasons why it is not"
    if complete.get("complete") is False and not complete.get("incomplete_reasons"):
        yield f"{step.deed}: not complete, and nothing says why"


def _complete(step: Step, want: Complete | None) -> Iterator[str]:
    if want is None:
        return
    told = step.told("completeness")
    if want.is_null:
        if told is not None:
            yield "there is a completeness, expected none"
        return
    if not isinstance(told, Mapping):
        yield "there is no completeness"
        return
    for key in ("complete", "truncated", "returned", "next_cursor"):
        expected = getattr(want, key)
        if expected is not None and told.get(key) != expected and not _leads_to(told.get(key), expected):
            yield f"completeness.{key} is {told.get(key)!r}, expected {expected!r}"
    reasons = _codes(told.get("incomplete_reasons"))
    if want.reasons is not None and sorted(reasons) != sorted(want.reasons):
        yield f"incomplete_reasons are {reasons}, expected {list(want.reasons)}"
    cut_by = _codes(told.get("incomplete_reasons"), "by")
    if want.by is not None and sorted(cut_by) != sorted(want.by):
        yield f"incomplete_reasons are said to come from {cut_by}, expected {list(want.by)}"


@cache
def _validator() -> Any:
    return jsonschema_rs.validator_for(schema("result"), offline=True)


def _begins(chain: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """`*` stands for any one word."""
    return len(chain) >= len(pattern) and all(want in {"*", word} for want, word in zip(pattern, chain, strict=False))


def _is_near(found: JsonValue, want: int) -> bool:
    return isinstance(found, int) and abs(found - want) <= NEAR_S


def _leads_to(found: JsonValue, want: JsonValue) -> bool:
    """Whether a URL leads to that path, wherever the far side's own address is."""
    if not isinstance(found, str) or not isinstance(want, str):
        return False
    return want.startswith("/") and found.startswith("http") and found.endswith(want)


def _codes(rows: JsonValue, key: str = "code") -> list[str]:
    return [str(row.get(key)) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _table(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}


def _gist(step: Step) -> str:
    return f"{step.deed}: {step.told('category')}/{step.told('code')}/{step.told('retry')}/{step.told('remote_effect')}"
