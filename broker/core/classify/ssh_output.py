"""How much of a command's output, or of a file, is in an answer. Silence never means complete.

Output is whole where its end was seen and nothing of it was cut, by us, by a pipe, or by the operation's own word.
"""

from broker.contract.reasons import Category, IncompleteCode
from broker.contract.result import Completeness, IncompleteReason
from broker.core.classify.ssh_case import SshCase
from broker.core.classify.ssh_exit import deciding_rule
from broker.core.outcome import Verdict
from broker.core.ssh.frozen import Exec, Get, LookUp
from broker.core.ssh.shell_words import pipes
from broker.core.ssh.wrapper import SPOOL_BYTES

_TIMEOUTS = frozenset({"first_byte_timeout", "total_timeout"})
_SOURCELESS = frozenset({Category.OUTCOME_UNKNOWN, Category.MALFORMED_RESPONSE})
_DECLARED = "The operation declares this of such an end."


def assess_ssh(case: SshCase, verdict: Verdict) -> Completeness | None:
    """None where the result is a single whole thing, or where there is nothing to be whole."""
    match case.frozen.action:
        case Exec():
            return _of_command(case, verdict)
        case Get():
            return _of_file(case, verdict)
        case LookUp() if case.seen.finding is not None and case.seen.finding.spooled:
            return _assessed(case, (*_cut(case), *_spooled(case)))
        case _:
            return None


def _of_command(case: SshCase, verdict: Verdict) -> Completeness | None:
    usable = verdict.category in {Category.SUCCESS, Category.PARTIAL}
    reasons = (*_declared(case), *_cut(case))
    if usable:
        reasons = (*reasons, *_held_open(case), *_unproven(case))
        if verdict.category is Category.PARTIAL and not reasons:
            reasons = (
                _by_provider(IncompleteCode.COMPLETENESS_UNVERIFIED, "Nothing tells whether this is everything."),
            )
        return _assessed(case, reasons)
    if not reasons and not case.is_write:
        reasons = _of_failed_read(case, verdict)
    return _assessed(case, reasons) if reasons else None


def _of_file(case: SshCase, verdict: Verdict) -> Completeness | None:
    if verdict.category is Category.SUCCESS:
        return _assessed(case, ())
    if verdict.category is Category.PARTIAL:
        return _assessed(case, (_truncated(case, "The file is larger than is read."),))
    reasons = _of_failed_read(case, verdict)
    return _assessed(case, reasons) if reasons else None


def _declared(case: SshCase) -> tuple[IncompleteReason, ...]:
    status = case.seen.exit_status
    rule = None if status is None or case.seen.after_close else deciding_rule(case, status)
    return () if rule is None else tuple(_by_provider(code, _DECLARED) for code in rule.incomplete)


def _cut(case: SshCase) -> tuple[IncompleteReason, ...]:
    if case.seen.streamed or not (case.is_cut_out or case.is_cut_err):
        return ()
    return (_truncated(case, "The command wrote more than is kept of one stream."),)


def _spooled(case: SshCase) -> tuple[IncompleteReason, ...]:
    """What a detached command wrote beyond what its host keeps, or what others still write in its stead."""
    seen = case.seen
    if SPOOL_BYTES not in {seen.stdout_bytes, seen.stderr_bytes}:
        return _held_open(case)
    message = "The host keeps so much of each stream of a detached command; what came after is lost."
    return (
        IncompleteReason(
            code=IncompleteCode.OUTPUT_TRUNCATED, message=message, by="broker", limit=SPOOL_BYTES, unit="bytes"
        ),
    )


def _held_open(case: SshCase) -> tuple[IncompleteReason, ...]:
    if case.seen.output_complete or _cut(case):
        return ()
    message = "The output was still held open when the broker stopped reading: more may have come."
    return (
        IncompleteReason(
            code=IncompleteCode.OUTPUT_TRUNCATED,
            message=message,
            by="broker",
            limit=round(case.frozen.deadlines.idle_s),
            unit="s",
        ),
    )


def _unproven(case: SshCase) -> tuple[IncompleteReason, ...]:
    """What the status of a command doesn't prove: the part before a pipe may have failed or been cut."""
    declared, action = case.declared, case.frozen.action
    if declared is not None and declared.never_provable:
        message = "The operation declares that its output never proves to be everything."
        return (_by_provider(IncompleteCode.COMPLETENESS_UNVERIFIED, message),)
    meant = declared is not None and declared.pipeline
    if case.is_write or meant or not isinstance(action, Exec) or not pipes(action.command, action.argv):
        return ()
    message = "The output went through a pipe, which can cut it and hides how its first part ended."
    return (_by_provider(IncompleteCode.COMPLETENESS_UNVERIFIED, message),)


def _of_failed_read(case: SshCase, verdict: Verdict) -> tuple[IncompleteReason, ...]:
    if verdict.category is Category.OUTCOME_UNKNOWN and verdict.code in _TIMEOUTS:
        return (
            IncompleteReason(
                code=IncompleteCode.TIME_BUDGET_EXCEEDED,
                message="The time for the command ran out.",
                by="broker",
                limit=round(case.frozen.deadlines.total_s),
                unit="s",
            ),
        )
    if verdict.category in _SOURCELESS:
        return (_by_provider(IncompleteCode.SOURCE_UNAVAILABLE, "The host gave no usable answer."),)
    return ()


def _truncated(case: SshCase, message: str) -> IncompleteReason:
    return IncompleteReason(
        code=IncompleteCode.OUTPUT_TRUNCATED,
        message=message,
        by="broker",
        limit=case.frozen.output_bytes,
        unit="bytes",
    )


def _by_provider(code: IncompleteCode, message: str) -> IncompleteReason:
    return IncompleteReason(code=code, message=message, by="provider")


def _assessed(case: SshCase, reasons: tuple[IncompleteReason, ...]) -> Completeness:
    seen = case.seen
    return Completeness(
        complete=not reasons,
        truncated=any(reason.code is IncompleteCode.OUTPUT_TRUNCATED for reason in reasons),
        reasons=reasons,
        bytes=seen.stdout_bytes + seen.stderr_bytes if seen.streamed else len(seen.stdout) + len(seen.stderr),
        seconds=seen.elapsed_ms / 1000,
    )
