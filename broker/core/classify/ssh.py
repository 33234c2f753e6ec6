"""How an attempt over SSH is judged: how far it got, what its preamble and its end say, what a look-up found.

Messages are our own sentences; nothing that the host says gets into them. A read of an answer that is not known to be
whole is `partial`. The judged answer still holds whatever the host sent.
"""

from dataclasses import replace

from broker.contract.reasons import Category
from broker.contract.wire import JsonObject
from broker.core.classify.ssh_case import SshCase
from broker.core.classify.ssh_exit import deciding_rule, judge_ending
from broker.core.classify.ssh_found import judge_finding
from broker.core.classify.ssh_output import assess_ssh
from broker.core.classify.ssh_transport import judge_get, judge_put, judge_unended, judge_unstarted
from broker.core.outcome import Classified, Verdict
from broker.core.ssh.answer import ssh_answer, with_stream
from broker.core.ssh.frozen import Exec, FrozenSsh, Get, LookUp, Put
from broker.core.ssh.outcome import SshOutcome


def classify_ssh(frozen: FrozenSsh, seen: SshOutcome, *, prior_doubt: bool) -> Classified:
    """Judge one attempt. `prior_doubt` tells that an earlier attempt at the same change is in doubt.

    For a look-up the frozen request has the effect, and the declaration, of the command that is looked up.
    """
    case = SshCase(frozen=frozen, seen=seen, prior_doubt=prior_doubt)
    verdict, step = _judge(case)
    completeness = assess_ssh(case, verdict)
    if verdict.category is Category.SUCCESS and completeness is not None and not completeness.complete:
        verdict = replace(
            verdict,
            category=Category.PARTIAL,
            code="incomplete",
            message="The command ended well, but its output is not known to be whole.",
        )
    return Classified(
        verdict=verdict,
        raw=seen,
        ssh=_answer(case, verdict, step),
        completeness=completeness,
        grounds=_grounds(case, step),
    )


def _judge(case: SshCase) -> tuple[Verdict, str]:
    """The verdict, and the name of what gave it."""
    action = case.frozen.action
    if isinstance(action, LookUp):
        return judge_finding(case), "finding"
    unstarted = judge_unstarted(case)
    if unstarted is not None:
        return unstarted, "unstarted"
    match action:
        case Put():
            return judge_put(case, action), "put"
        case Get():
            return judge_get(case), "get"
        case Exec():
            ending = judge_ending(case)
            return (judge_unended(case), "unended") if ending is None else (ending, "ending")


def _answer(case: SshCase, verdict: Verdict, step: str) -> JsonObject | None:
    """None where no channel was opened. What broke the contract stays for diagnosis."""
    if step == "unstarted":
        return None
    finding = case.seen.finding
    is_own = finding is None or finding.spooled  # what a look-up prints is ours, and not the command's
    answer = ssh_answer(case.seen, with_streams=is_own and verdict.category is not Category.MALFORMED_RESPONSE)
    for stream, is_kept in (("stdout", not case.is_cut_out), ("stderr", not case.is_cut_err)):
        answer = answer if is_kept or not case.seen.streamed else with_stream(answer, stream, None)
    told: JsonObject = {} if finding is None else {"exit_status": finding.status, "marker": finding.found.value}
    return {**answer, **told, **({} if is_own else {"stdout_bytes": 0, "stderr_bytes": 0})}


def _grounds(case: SshCase, step: str) -> JsonObject:
    """Why it was judged so, for diagnosis."""
    field = predicate = None
    if step == "ending" and case.declared is not None and case.seen.exit_status is not None:
        rule = deciding_rule(case, case.seen.exit_status)
        if rule is not None:
            field, predicate = f"exit_map[{case.declared.exit_map.index(rule)}].when", rule.when.text
        elif case.declared.success_when is not None:
            field, predicate = "success_when", case.declared.success_when.text
    key = case.seen.host_key
    return {
        "step": step,
        "field": field,
        "predicate": predicate,
        "broken": None if key is None else f"host key offered: {key.algorithm} {key.fingerprint}",
    }
