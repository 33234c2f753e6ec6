"""Why an answer was judged as it was: the step that spoke, and the field of the operation's contract that decided.

For diagnosis alone; nothing acts on it. Fields are named as the policy file names them, predicates are quoted from it.
"""

from broker.contract.wire import JsonObject
from broker.core.classify.case import Case
from broker.core.classify.declared import deciding_rule
from broker.core.classify.refusal import remedies
from broker.core.completeness import is_list
from broker.core.outcome import Verdict
from broker.core.policy.model import Operation
from broker.core.predicate import Predicate

_OF_SUCCESS = {"media_type": "response.media", "identity": "identity.path", "empty": "identity.path"}


def grounds(case: Case, verdict: Verdict, step: str) -> JsonObject:
    """`step` is the name of the function that judged. `field` is None where no declaration had a say."""
    field, predicate = _decided(case, verdict, step)
    return {
        "step": step.removeprefix("judge_"),
        "field": field,
        "predicate": None if predicate is None else predicate.text,
        "broken": case.reading.broken,
        "remedy": "; ".join(remedies(case)) or None,
    }


def _decided(case: Case, verdict: Verdict, step: str) -> tuple[str | None, Predicate | None]:
    declared = case.declared
    if declared is None:
        return None, None
    match step:
        case "judge_errors":
            rule = deciding_rule(case)
            return (None, None) if rule is None else (f"errors[{declared.errors.index(rule)}].when", rule.when)
        case "judge_rate_limit":
            return "rate_limit.when", None if declared.rate_limit is None else declared.rate_limit.when
        case "judge_success":
            return _not_kept(case, declared, verdict.code)
        case _:
            return None, None


def _not_kept(case: Case, declared: Operation, code: str) -> tuple[str | None, Predicate | None]:
    """What the operation declares of a success, and the answer is not or does not have."""
    if code == "incomplete":
        return ("completeness.complete_when", declared.complete_when) if is_list(case) else (None, None)
    if code == "schema":
        status_fits = case.expects_status if declared.success_statuses else 200 <= case.status < 300
        return ("success.when", declared.success_when) if status_fits else ("success.statuses", None)
    if code == "empty" and declared.identity is None:
        return "response.media", None
    return _OF_SUCCESS.get(code), None
