"""What the end of a command means: its preamble, its status, and the operation's own `exit_map`, first match first.

255, 137 and the like that came as an exit status are the command's own numbers. A rule may say how to go on, but never
lets a write be repeated whose effect is not known to be none. A predicate that can't be evaluated did not match.
"""

import re

from broker.contract.reasons import CODES, Category, RemoteEffect, Retry
from broker.core.classify.ssh_case import SshCase, done, refused, unknown
from broker.core.classify.ssh_transport import cut_by_broker
from broker.core.outcome import Verdict
from broker.core.predicate import AnswerView, Predicate, holds
from broker.core.ssh.frozen import LookUp
from broker.core.ssh.model import ExitRule
from broker.core.ssh.outcome import MarkerState, SshFault

DEFAULT_DELAY_S = 60
_CODES = {
    Category.SUCCESS: "ok",
    Category.PARTIAL: "incomplete",
    Category.AUTHENTICATION_FAILED: "rejected",
    Category.AUTHORIZATION_DENIED: "forbidden",
    Category.CONFIRMED_FAILURE: "declared",
    Category.COMMAND_FAILED: "exit_status",
    Category.RATE_LIMITED: "too_many",
    Category.MALFORMED_RESPONSE: "schema",
    Category.OUTCOME_UNKNOWN: "unrecorded",
}
_MEANING = {
    Category.SUCCESS: "which the operation declares as done.",
    Category.PARTIAL: "which the operation declares as incomplete.",
    Category.AUTHENTICATION_FAILED: "which the operation declares as a rejected credential of its own.",
    Category.AUTHORIZATION_DENIED: "which the operation declares as not allowed.",
    Category.CONFIRMED_FAILURE: "which the operation declares as not done.",
    Category.COMMAND_FAILED: "which the operation declares as a failure.",
    Category.RATE_LIMITED: "which the operation declares as refused because of limits.",
    Category.MALFORMED_RESPONSE: "which breaks what the operation declares.",
    Category.OUTCOME_UNKNOWN: "which settles nothing, as the operation declares.",
}
_HARMLESS = frozenset(
    {
        Category.AUTHENTICATION_FAILED,
        Category.AUTHORIZATION_DENIED,
        Category.CONFIRMED_FAILURE,
        Category.RATE_LIMITED,
    }
)
_REPEATING = frozenset({Retry.BOUNDED, Retry.AFTER_DELAY})
_OF_STATE = frozenset({"conflict", "precondition"})
_STREAM = re.compile(r"\b(stdout|stderr)\b")


def judge_ending(case: SshCase) -> Verdict | None:
    """What the preamble and the end say of a command that may have started; None where no end was seen."""
    seen = case.seen
    if case.has_marker and seen.marker is MarkerState.REFUSED_NO_STORE:
        message = (
            "The host has no place for the marker of the command, so nothing was run. A human has to make room in "
            "the home directory or in /var/tmp there, or allow commands without markers."
        )
        return refused(Category.CONFIRMED_FAILURE, "precondition", message, retry=Retry.AFTER_HUMAN)
    if case.has_marker and seen.marker is MarkerState.DUPLICATE:
        message = "The host has seen this operation before, or its id was closed; it was not run again."
        return unknown(case, "in_progress_conflict", message)
    if seen.exit_status is None and seen.exit_signal is None:
        return None
    if case.has_marker and seen.marker not in {MarkerState.STARTED, MarkerState.NO_STORE}:
        return _not_ours(case)
    if seen.after_close:
        return _ended_by_us(case)
    return _by_signal(case) if seen.exit_status is None else judge_status(case, seen.exit_status)


def judge_status(case: SshCase, status: int) -> Verdict:
    """A command that finished by itself."""
    rule = deciding_rule(case, status)
    if rule is not None:
        return _by_rule(case, rule, status)
    declared = case.declared
    if declared is not None and declared.success_when is not None:
        if _can_ask(case, declared.success_when) and holds(declared.success_when, _view(case, status)) is True:
            return done(case, f"The command ended with status {status} and did what the operation declares.")
        if status == 0:
            return _not_as_declared(case)
    if status == 0:
        return done(case, "The command ended with status 0.")
    return _failed(case, "exit_status", f"The command ran and ended with status {status}.")


def deciding_rule(case: SshCase, status: int) -> ExitRule | None:
    """The first rule that fits. Where one asks for output that is not at hand, neither it nor a later one does."""
    for rule in () if case.declared is None else case.declared.exit_map:
        if not _can_ask(case, rule.when):
            return None
        if holds(rule.when, _view(case, status)) is True:
            return rule
    return None


def _not_ours(case: SshCase) -> Verdict:
    """A forced command, an account without a shell, or a restricted shell ran instead of what was sent."""
    return Verdict(
        category=Category.MALFORMED_RESPONSE,
        code="marker_missing",
        retry=Retry.AFTER_HUMAN if case.is_write else Retry.NEVER,
        remote_effect=case.unless_read,
        message=case.with_effect(
            "The host reports an end, but nothing shows that the command was run: the account may have a forced "
            "command or no shell."
        ),
    )


def _ended_by_us(case: SshCase) -> Verdict:
    if case.seen.fault is SshFault.OVERFLOW and not case.is_write:
        return cut_by_broker()
    how = "by a signal" if case.seen.exit_status is None else f"with status {case.seen.exit_status}"
    return unknown(case, "total_timeout", f"The command ended {how} after the broker had given up and ended it.")


def _by_signal(case: SshCase) -> Verdict:
    """With a marker the signal struck the wrapper, which says nothing of the processes that it had started."""
    if case.has_marker and case.seen.marker is MarkerState.STARTED:
        message = "What carried the command was ended by a signal before it could note how the command ended."
        return unknown(case, "unrecorded", message)
    return _failed(case, "exit_signal", "The command ran and was ended by a signal.")


def _failed(case: SshCase, code: str, message: str) -> Verdict:
    return Verdict(
        category=Category.COMMAND_FAILED,
        code=code,
        retry=case.settle if case.is_write else Retry.NEVER,
        remote_effect=case.unless_read,
        message=case.with_effect(message),
    )


def _not_as_declared(case: SshCase) -> Verdict:
    message = "The command ended with status 0, but its output is not what the operation declares as a success."
    return Verdict(
        category=Category.MALFORMED_RESPONSE,
        code="schema",
        retry=case.settle if case.is_write else Retry.NEVER,
        remote_effect=case.unless_read,
        message=case.with_effect(message),
    )


def _by_rule(case: SshCase, rule: ExitRule, status: int) -> Verdict:
    category = rule.category if rule.category in _CODES else Category.CONFIRMED_FAILURE
    code = rule.code if rule.code in CODES[category] else _CODES[category]
    effect = _effect(case, rule, category)
    if case.prior_doubt and case.is_write and category is Category.CONFIRMED_FAILURE and code in _OF_STATE:
        message = "The command met a state that our own earlier attempt may have left: that may have been done already."
        return unknown(case, "in_progress_conflict", message)
    retry = rule.retry or _default_retry(case, category)
    if effect is not RemoteEffect.NONE and retry in _REPEATING:
        retry = case.settle
    return Verdict(
        category=category,
        code=code,
        retry=retry,
        remote_effect=effect,
        retry_after_s=(rule.delay_s or DEFAULT_DELAY_S) if retry is Retry.AFTER_DELAY else None,
        message=f"The command ended with status {status}, {_MEANING[category]}",
    )


def _effect(case: SshCase, rule: ExitRule, category: Category) -> RemoteEffect:
    if not case.is_write:
        return RemoteEffect.NONE
    if rule.remote_effect is not None:
        return rule.remote_effect
    if category is Category.SUCCESS:
        return RemoteEffect.APPLIED
    return RemoteEffect.NONE if category in _HARMLESS else RemoteEffect.UNKNOWN


def _default_retry(case: SshCase, category: Category) -> Retry:
    if category is Category.RATE_LIMITED:
        return Retry.AFTER_DELAY
    if category in {Category.OUTCOME_UNKNOWN, Category.MALFORMED_RESPONSE, Category.COMMAND_FAILED} and case.is_write:
        return case.settle
    return Retry.BOUNDED if category is Category.OUTCOME_UNKNOWN else Retry.NEVER


def _can_ask(case: SshCase, predicate: Predicate) -> bool:
    """Whether what a predicate looks at is at hand: of an earlier command often the status alone is.

    A stream that was cut is not: what it lacks could have been in the part that is missing.
    """
    seen = case.seen
    is_gone = isinstance(case.frozen.action, LookUp) and not seen.output_complete
    cut = {"stdout": seen.stdout_bytes > len(seen.stdout), "stderr": seen.stderr_bytes > len(seen.stderr)}
    return not any(is_gone or cut[stream] for stream in _STREAM.findall(predicate.text))


def _view(case: SshCase, status: int) -> AnswerView:
    seen = case.seen
    return AnswerView(
        {
            "exit_code": status,
            "stdout": seen.stdout.decode("utf-8", "replace"),
            "stderr": seen.stderr.decode("utf-8", "replace"),
        }
    )
