"""What a look-up proves of an earlier command. Only a recorded end, or a fence that came in time, settles it.

"Died" means that it started and ended, and that nobody knows how: that is never a failure.
"""

from dataclasses import replace

from broker.contract.reasons import Category, Retry
from broker.core.classify.ssh_case import SshCase, refused, unknown
from broker.core.classify.ssh_exit import judge_status
from broker.core.outcome import Verdict
from broker.core.ssh.outcome import Finding, Found

ASK_AGAIN_S = 10
_UNTOLD = {
    Found.DIED: "It started and ended, and how it ended was not noted.",
    Found.DIED_REBOOT: "It started, and the host was started anew before its end was noted.",
    Found.DIED_RESTART: "It started, and its container was started anew before its end was noted.",
    Found.FENCED_LATE: "It has not been seen on the host and can't start any more, but nothing proves that it had not.",
    Found.OTHER_HOST: "Its marker is of another machine that shares this home directory; that one has to be asked.",
    Found.UNREADABLE: "Its marker can't be read.",
    Found.NO_STORE: "The host has no place for markers any more.",
    Found.NO_ANSWER: "The host could not be asked, or did not answer the question.",
}
_LOOK = " A human has to look."


def judge_finding(case: SshCase) -> Verdict:
    finding = case.seen.finding or Finding(found=Found.NO_ANSWER)
    if finding.found is Found.FINISHED and finding.status is not None:
        return _finished(case, finding.status)
    if finding.found is Found.NEVER_STARTED:
        message = "The command never started, and its id is closed, so that it can't start any more. Ask for it anew."
        return refused(Category.CONFIRMED_FAILURE, "not_found", message)
    if finding.found is Found.RUNNING:
        verdict = unknown(case, "still_running", "The command still runs on the host.", retry=Retry.AFTER_DELAY)
        return replace(verdict, retry_after_s=ASK_AGAIN_S)
    if finding.found is Found.ORPHAN:
        message = "What carried the command is gone and processes of it still run; how it ends will not be noted."
        return unknown(case, "still_running", message + _LOOK, retry=Retry.AFTER_HUMAN)
    message = _UNTOLD.get(finding.found, _UNTOLD[Found.UNREADABLE])
    return unknown(case, "unrecorded", message + _LOOK, retry=Retry.AFTER_HUMAN)


def _finished(case: SshCase, status: int) -> Verdict:
    """The same judgement as if its end had been seen. What a further look-up can't tell is for a human."""
    verdict = judge_status(case, status)
    if verdict.category is Category.SUCCESS:
        return replace(verdict, code="reconciled")
    if verdict.retry is Retry.RECONCILE_FIRST:
        return replace(verdict, retry=Retry.AFTER_HUMAN)
    return verdict
