"""`doorward policy test`: what an administrator expects of the policy, held against the files. Needs no daemon.

The same code decides as in the daemon. Nothing is sent, and no vault is looked into.
"""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from broker.cli.output import show
from broker.cli.policy_files import now, own_files, read_file
from broker.client.card_words import counted
from broker.contract.exits import FAULTS_FOUND
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject, JsonValue
from broker.core.asks import resolved
from broker.core.identity import UNIDENTIFIED
from broker.core.policy.explain import explain
from broker.core.policy.hours import Moment
from broker.core.policy.model import Policy
from broker.core.resolve import Invalid
from broker.policyfiles import PolicyError
from broker.policyfiles.check import verified
from broker.policyfiles.expectations import INVALID, Expectation, expectations_of
from broker.server.by_name import caller_called
from broker.server.shapes import ShapeError, check
from broker.server.ssh_shapes import asked

_SCHEMAS = {
    "http": "http-request",
    "collect": "collect-request",
    "ssh": "ssh-request",
    "ssh_put": "ssh-put-request",
    "ssh_get": "ssh-get-request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one test. `wrong` says in which way it is not as expected, and is empty where it is."""

    test: Expectation
    decision: str
    rules: tuple[str, ...]
    code: str | None
    wrong: str = ""
    because: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "name": self.test.name,
            "place": str(self.test.place),
            "passed": not self.wrong,
            "expect": self.test.expect,
            "decision": self.decision,
            "rules": list(self.rules),
            "code": self.code,
            "wrong": self.wrong or None,
        }

    def line(self) -> str:
        head = f"{'FAIL' if self.wrong else 'ok  '} {self.test.place}: {self.test.name}"
        return f"{head}: {self.wrong}{f' ({self.because})' if self.because else ''}" if self.wrong else head


def test(options: Namespace) -> int:
    """Exit 0 where all is as expected, 1 where anything is not, or does not load."""
    try:
        policy = verified(own_files([Path(path) for path in options.policies or []]))
        tests = [one for path in options.files for one in expectations_of(read_file(Path(path)))]
    except PolicyError as cause:
        faults = [fault.to_json() for fault in cause.faults]
        lines = [visible(str(fault)) for fault in cause.faults] or [visible(str(cause))]
        show({"faults": faults, "tests": [], "message": str(cause)}, lines, as_json=options.json)
        return FAULTS_FOUND
    moment = now()
    outcomes = [outcome(policy, one, moment) for one in tests]
    failed = sum(bool(one.wrong) for one in outcomes)
    shown = [visible(one.line(), limit=2000) for one in outcomes if one.wrong or not options.quiet]
    shown.append(f"{counted(len(outcomes), 'test')}, {failed} failed")
    show({"faults": [], "tests": [one.to_json() for one in outcomes]}, shown, as_json=options.json)
    return FAULTS_FOUND if failed else 0


def outcome(policy: Policy, expected: Expectation, moment: Moment) -> Outcome:
    """Decide about the request as the daemon would, and compare."""
    if expected.agent not in {UNIDENTIFIED, *policy.agents}:
        wrong = f"no program in [agents] is called {expected.agent}"
        return Outcome(test=expected, decision=INVALID, rules=(), code=None, wrong=wrong)
    told = _told(policy.at(expected.at or moment), expected)
    decision, code = str(told["decision"]), told["code"]
    listed = told.get("rules")
    rules = tuple(map(str, listed)) if isinstance(listed, list) else ()
    return Outcome(
        test=expected,
        decision=decision,
        rules=rules,
        code=None if code is None else str(code),
        wrong=_wrong(expected, decision, rules, None if code is None else str(code)),
        because=_because(told, decision, rules),
    )


def _told(policy: Policy, expected: Expectation) -> JsonObject:
    try:
        check(expected.request, _SCHEMAS[expected.action])
        frozen = resolved(policy, asked(expected.action, expected.request))
    except ShapeError as cause:
        return {"decision": INVALID, "code": "schema", "message": str(cause)}
    if isinstance(frozen, Invalid):
        return {"decision": INVALID, "code": frozen.code, "message": frozen.message}
    return explain(policy, caller_called(expected.agent), frozen)


def _wrong(expected: Expectation, decision: str, rules: tuple[str, ...], code: str | None) -> str:
    if decision != expected.expect:
        return f"expected {expected.expect}, got {decision}"
    if expected.rules is not None and set(expected.rules) != set(rules):
        return f"expected the rules {', '.join(expected.rules) or 'none'}, got {', '.join(rules) or 'none'}"
    if expected.code is not None and expected.code != code:
        return f"expected the code {expected.code}, got {code or 'none'}"
    return ""


def _because(told: JsonObject, decision: str, rules: tuple[str, ...]) -> str:
    if decision == INVALID:
        return str(told.get("message"))
    if not rules:
        return "no rule matches"
    return f"{', '.join(rules)} in {told.get('place')}" if told.get("place") else ", ".join(rules)
