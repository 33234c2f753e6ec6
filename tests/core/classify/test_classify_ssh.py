"""The fault table of SSH, line by line: what was seen, and what may be said of it."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.reasons import CODES, Category, Effect, IncompleteCode, RemoteEffect, Retry
from broker.contract.result import MESSAGE_LIMIT
from broker.core.classify.ssh import classify_ssh
from broker.core.ssh.frozen import FrozenSsh, LookUp, SshAction
from broker.core.ssh.model import ExitRule, MarkerMode, SshOperation
from broker.core.ssh.outcome import (
    Finding,
    Found,
    HostKeySeen,
    MarkerState,
    Replaced,
    SshFault,
    SshOutcome,
    SshPhase,
    Transfer,
)
from broker.core.ssh.wrapper import SPOOL_BYTES
from tests.fakes.ssh_outcomes import (
    BARE_READ,
    BARE_WRITE,
    GET,
    PUT,
    READ,
    SOUGHT,
    WRITE,
    asked,
    command,
    ended,
    incomplete,
    judged,
    looked_up,
    lost,
    operation,
    predicate,
    rule,
)

LOCAL, NONE, UNKNOWN, APPLIED = Category.LOCAL_FAILURE, RemoteEffect.NONE, RemoteEffect.UNKNOWN, RemoteEffect.APPLIED
RECONCILE, HUMAN, NEVER, BOUNDED = Retry.RECONCILE_FIRST, Retry.AFTER_HUMAN, Retry.NEVER, Retry.BOUNDED
EVERY = [WRITE, READ, BARE_WRITE, BARE_READ, PUT, GET]

UNSTARTED = [
    (SshFault.DNS_FAILED, SshPhase.CONNECTING, LOCAL, "dns_failed", BOUNDED),
    (SshFault.ADDRESS_REFUSED, SshPhase.CONNECTING, LOCAL, "address_refused", HUMAN),
    (SshFault.CONNECT_REFUSED, SshPhase.CONNECTING, LOCAL, "connect_refused", BOUNDED),
    (SshFault.CONNECT_TIMEOUT, SshPhase.CONNECTING, LOCAL, "connect_timeout", BOUNDED),
    (SshFault.TOTAL_TIMEOUT, SshPhase.CONNECTING, LOCAL, "connect_timeout", BOUNDED),
    (SshFault.TOTAL_TIMEOUT, SshPhase.BUILT, LOCAL, "connect_timeout", BOUNDED),
    (SshFault.CONNECT_FAILED, SshPhase.CONNECTING, LOCAL, "connect_failed", BOUNDED),
    (SshFault.NOT_SSH, SshPhase.BANNER, LOCAL, "connect_failed", HUMAN),
    (SshFault.LOGIN_TIMEOUT, SshPhase.BANNER, LOCAL, "login_timeout", BOUNDED),
    (SshFault.TOTAL_TIMEOUT, SshPhase.LOGIN, LOCAL, "login_timeout", BOUNDED),
    (SshFault.LOST_DURING_LOGIN, SshPhase.LOGIN, LOCAL, "connect_failed", BOUNDED),
    (SshFault.CONNECTION_LOST, SshPhase.LOGGED_IN, LOCAL, "connect_failed", BOUNDED),
    (SshFault.CHANNEL_LOST, SshPhase.LOGGED_IN, LOCAL, "connect_failed", BOUNDED),
    (SshFault.HOST_KEY_UNKNOWN, SshPhase.HOST_KEY, LOCAL, "host_key_unknown", HUMAN),
    (SshFault.HOST_KEY_CHANGED, SshPhase.HOST_KEY, LOCAL, "host_key_changed", HUMAN),
    (SshFault.HOST_KEY_REVOKED, SshPhase.HOST_KEY, LOCAL, "host_key_revoked", HUMAN),
    (SshFault.HOST_KEY_WEAK, SshPhase.HOST_KEY, LOCAL, "host_key_unknown", HUMAN),
    (SshFault.LOGIN_REJECTED, SshPhase.LOGIN, Category.AUTHENTICATION_FAILED, "ssh_rejected", NEVER),
    (SshFault.KEY_UNUSABLE, SshPhase.LOGIN, Category.AUTHENTICATION_FAILED, "ssh_rejected", NEVER),
    (SshFault.EXEC_TIMEOUT, SshPhase.LOGGED_IN, LOCAL, "channel_refused", BOUNDED),
    (SshFault.CHANNEL_REFUSED, SshPhase.LOGGED_IN, LOCAL, "channel_refused", BOUNDED),
    (SshFault.CHANNEL_REFUSED, SshPhase.CHANNEL_OPEN, LOCAL, "channel_refused", BOUNDED),
    (SshFault.COMMAND_REFUSED, SshPhase.BUILT, Category.INVALID_REQUEST, "schema", NEVER),
    (SshFault.NO_SFTP, SshPhase.CHANNEL_OPEN, Category.CONFIRMED_FAILURE, "precondition", NEVER),
    (SshFault.INTERNAL, SshPhase.LOGIN, Category.BROKER_UNAVAILABLE, "internal", HUMAN),
    (None, SshPhase.BUILT, Category.BROKER_UNAVAILABLE, "internal", HUMAN),
]


@pytest.mark.parametrize(("fault", "phase", "category", "code", "retry"), UNSTARTED)
def test_before_the_channel_is_open_nothing_was_started(
    fault: SshFault | None, phase: SshPhase, category: Category, code: str, retry: Retry
) -> None:
    for frozen in EVERY:
        classified = classify_ssh(frozen, lost(fault, phase), prior_doubt=False)

        assert (category, code, retry, NONE) == judged(frozen, lost(fault, phase))
        assert classified.ssh is None


def test_a_host_key_is_named_by_a_fingerprint_of_our_own() -> None:
    key = HostKeySeen(algorithm="ssh-ed25519\x1b[2J", fingerprint="SHA256:" + "x" * 43, public="ssh-ed25519 AAAA")
    seen = lost(SshFault.HOST_KEY_CHANGED, SshPhase.HOST_KEY, host_key=key)
    classified = classify_ssh(WRITE, seen, prior_doubt=False)

    assert key.fingerprint in classified.verdict.message
    assert "ssh-ed25519" not in classified.verdict.message
    assert "host key offered: ssh-ed25519\x1b[2J " + key.fingerprint == classified.grounds["broken"]


UNENDED = [
    (SshFault.EXEC_TIMEOUT, SshPhase.CHANNEL_OPEN, "first_byte_timeout"),
    (SshFault.CONNECTION_LOST, SshPhase.CHANNEL_OPEN, "connection_lost"),
    (SshFault.CONNECTION_LOST, SshPhase.EXEC_ACCEPTED, "connection_lost"),
    (SshFault.CONNECTION_LOST, SshPhase.OUTPUT, "connection_lost"),
    (SshFault.CHANNEL_LOST, SshPhase.OUTPUT, "channel_lost"),
    (None, SshPhase.CLOSED, "channel_lost"),
    (SshFault.IDLE_TIMEOUT, SshPhase.OUTPUT, "total_timeout"),
    (SshFault.TOTAL_TIMEOUT, SshPhase.EXEC_ACCEPTED, "total_timeout"),
    (SshFault.DNS_FAILED, SshPhase.OUTPUT, "channel_lost"),  # no such thing happens; it would prove nothing
]


@pytest.mark.parametrize(("fault", "phase", "code"), UNENDED)
@pytest.mark.parametrize("marker", [MarkerState.STARTED, MarkerState.MISSING])
def test_from_then_on_only_an_end_settles_it(
    fault: SshFault | None, phase: SshPhase, code: str, marker: MarkerState
) -> None:
    seen = lost(fault, phase, marker=marker)

    assert (Category.OUTCOME_UNKNOWN, code, RECONCILE, UNKNOWN) == judged(WRITE, seen)
    assert (Category.OUTCOME_UNKNOWN, code, HUMAN, UNKNOWN) == judged(BARE_WRITE, seen)
    assert (Category.OUTCOME_UNKNOWN, code, BOUNDED, NONE) == judged(READ, seen)
    assert (Category.OUTCOME_UNKNOWN, code, BOUNDED, NONE) == judged(BARE_READ, seen)


def test_a_declared_read_back_makes_it_worth_reconciling() -> None:
    readable = asked(command(marker=MarkerMode.OFF), declared=operation(reconcile_command=("systemctl", "status")))
    seen = lost(SshFault.CONNECTION_LOST)

    assert (Category.OUTCOME_UNKNOWN, "connection_lost", RECONCILE, UNKNOWN) == judged(readable, seen)


def test_what_ran_without_a_marker_has_none_to_look_up() -> None:
    seen = lost(SshFault.CONNECTION_LOST, marker=MarkerState.NO_STORE)
    preferred = asked(command(marker=MarkerMode.PREFERRED))

    assert (Category.OUTCOME_UNKNOWN, "connection_lost", HUMAN, UNKNOWN) == judged(preferred, seen)


def test_a_command_that_cuts_its_own_line_stays_unknown_too() -> None:
    reboot = asked(command("reboot"), declared=operation(expect_disconnect=True))
    seen = lost(SshFault.CONNECTION_LOST)
    verdict = classify_ssh(reboot, seen, prior_doubt=False).verdict

    assert (Category.OUTCOME_UNKNOWN, "connection_lost", RECONCILE, UNKNOWN) == judged(reboot, seen)
    assert "cuts its own connection" in verdict.message
    assert "cuts its own connection" not in classify_ssh(WRITE, seen, prior_doubt=False).verdict.message


@pytest.mark.parametrize(("frozen", "retry", "effect"), [(WRITE, RECONCILE, UNKNOWN), (READ, HUMAN, NONE)])
def test_our_own_fault_is_ours_and_leaves_a_write_in_doubt(
    frozen: FrozenSsh, retry: Retry, effect: RemoteEffect
) -> None:
    assert (Category.BROKER_UNAVAILABLE, "internal", retry, effect) == judged(frozen, lost(SshFault.INTERNAL))


def test_status_0_is_done() -> None:
    assert (Category.SUCCESS, "ok", NEVER, APPLIED) == judged(WRITE, ended(stdout=b"done\n"))
    assert (Category.SUCCESS, "ok", NEVER, NONE) == judged(READ, ended(stdout=b"done\n"))
    whole = classify_ssh(READ, ended(stdout=b"a\n", stderr=b"\xff"), prior_doubt=False)

    assert () == incomplete(whole)
    assert {
        "exit_status": 0, "exit_signal": None, "stdout_bytes": 2, "stderr_bytes": 1, "marker": "started",
        "stdout": "a\n", "stderr_b64": "/w==",
    } == whole.ssh  # fmt: skip


@pytest.mark.parametrize("status", [1, 2, 97, 98, 126, 127, 130, 137, 143, 254, 255, 256, 0xC0000100])
def test_every_other_number_is_the_commands_own(status: int) -> None:
    """Also 255, which is the ssh client's word for a lost connection, and 97 and 98, which are the wrapper's."""
    assert (Category.COMMAND_FAILED, "exit_status", RECONCILE, UNKNOWN) == judged(WRITE, ended(status))
    assert (Category.COMMAND_FAILED, "exit_status", HUMAN, UNKNOWN) == judged(BARE_WRITE, ended(status))
    assert (Category.COMMAND_FAILED, "exit_status", NEVER, NONE) == judged(READ, ended(status))
    assert f"status {status}" in classify_ssh(READ, ended(status), prior_doubt=False).verdict.message


def test_a_signal_ends_a_bare_command_and_proves_nothing_of_a_wrapped_one() -> None:
    killed = ended(None, exit_signal="KILL")
    bare = replace(killed, marker=MarkerState.OFF)

    assert (Category.COMMAND_FAILED, "exit_signal", HUMAN, UNKNOWN) == judged(BARE_WRITE, bare)
    assert (Category.COMMAND_FAILED, "exit_signal", NEVER, NONE) == judged(BARE_READ, bare)
    assert (Category.OUTCOME_UNKNOWN, "unrecorded", RECONCILE, UNKNOWN) == judged(WRITE, killed)
    assert (Category.OUTCOME_UNKNOWN, "unrecorded", BOUNDED, NONE) == judged(READ, killed)
    without = replace(killed, marker=MarkerState.NO_STORE)
    assert (Category.COMMAND_FAILED, "exit_signal", HUMAN, UNKNOWN) == judged(WRITE, without)


@pytest.mark.parametrize("seen", [ended(0), ended(1), ended(None, exit_signal="KILL")])
def test_an_end_without_a_preamble_is_the_end_of_something_else(seen: SshOutcome) -> None:
    for marker in (MarkerState.MISSING, MarkerState.OFF):
        other = replace(seen, marker=marker, stdout=b"hello from a forced command\n")
        classified = classify_ssh(WRITE, other, prior_doubt=False)

        assert (Category.MALFORMED_RESPONSE, "marker_missing", HUMAN, UNKNOWN) == judged(WRITE, other)
        assert (Category.MALFORMED_RESPONSE, "marker_missing", NEVER, NONE) == judged(READ, other)
        assert classified.ssh is not None
        assert "stdout" not in classified.ssh


def test_without_a_store_nothing_ran_however_it_ended() -> None:
    refused = replace(ended(97), marker=MarkerState.REFUSED_NO_STORE)
    cut = lost(SshFault.CONNECTION_LOST, marker=MarkerState.REFUSED_NO_STORE)
    for seen in (refused, cut):
        assert (Category.CONFIRMED_FAILURE, "precondition", HUMAN, NONE) == judged(WRITE, seen)


def test_a_second_arrival_ran_nothing_and_leaves_the_first_in_doubt() -> None:
    seen = replace(ended(98), marker=MarkerState.DUPLICATE)

    assert (Category.OUTCOME_UNKNOWN, "in_progress_conflict", RECONCILE, UNKNOWN) == judged(WRITE, seen)


def test_an_end_that_we_brought_about_is_no_end_of_its_own() -> None:
    """A program that is told to stop may well say 0."""
    for seen in (ended(0), ended(143), ended(None, exit_signal="TERM")):
        late = replace(seen, after_close=True, fault=SshFault.TOTAL_TIMEOUT)
        assert (Category.OUTCOME_UNKNOWN, "total_timeout", RECONCILE, UNKNOWN) == judged(WRITE, late)
        assert (Category.OUTCOME_UNKNOWN, "total_timeout", BOUNDED, NONE) == judged(READ, late)


def test_output_that_somebody_still_holds_open_is_not_whole() -> None:
    seen = ended(0, stdout=b"early\n", output_complete=False)
    classified = classify_ssh(WRITE, seen, prior_doubt=False)

    assert (Category.PARTIAL, "incomplete", NEVER, APPLIED) == judged(WRITE, seen)
    assert (("OUTPUT_TRUNCATED", "broker"),) == incomplete(classified)
    assert classified.completeness is not None
    assert classified.completeness.truncated


def test_output_over_the_cap_is_not_whole() -> None:
    for stream in ("stdout", "stderr"):
        longer: dict[str, Any] = {f"{stream}_bytes": 9}
        seen = replace(ended(0, stdout=b"x" * 8, stderr=b"y" * 8), **longer)
        classified = classify_ssh(READ, seen, prior_doubt=False)

        assert (Category.PARTIAL, "incomplete", NEVER, NONE) == judged(READ, seen)
        assert (("OUTPUT_TRUNCATED", "broker"),) == incomplete(classified)
        failed = classify_ssh(WRITE, replace(seen, exit_status=3), prior_doubt=False)
        assert (("OUTPUT_TRUNCATED", "broker"),) == incomplete(failed)


def test_output_over_the_ceiling_is_cut_off_and_a_write_is_then_in_doubt() -> None:
    flood: dict[str, Any] = {"fault": SshFault.OVERFLOW, "stdout": b"x" * 8, "stdout_bytes": 1 << 26}
    for seen in (lost(phase=SshPhase.OUTPUT, **flood), ended(None, exit_signal="PIPE", after_close=True, **flood)):
        assert (Category.PARTIAL, "incomplete", NEVER, NONE) == judged(READ, seen)
        assert (("OUTPUT_TRUNCATED", "broker"),) == incomplete(classify_ssh(READ, seen, prior_doubt=False))
        category, _, retry, effect = judged(WRITE, seen)
        assert (Category.OUTCOME_UNKNOWN, RECONCILE, UNKNOWN) == (category, retry, effect)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (lost(SshFault.TOTAL_TIMEOUT), ("TIME_BUDGET_EXCEEDED", "broker")),
        (lost(SshFault.EXEC_TIMEOUT), ("TIME_BUDGET_EXCEEDED", "broker")),
        (lost(SshFault.CONNECTION_LOST), ("SOURCE_UNAVAILABLE", "provider")),
        (replace(ended(0), marker=MarkerState.MISSING), ("SOURCE_UNAVAILABLE", "provider")),
    ],
)
def test_a_read_without_an_answer_says_what_is_missing(seen: SshOutcome, reason: tuple[str, str]) -> None:
    assert (reason,) == incomplete(classify_ssh(READ, seen, prior_doubt=False))
    assert incomplete(classify_ssh(WRITE, seen, prior_doubt=False)) is None


def test_a_read_that_failed_has_nothing_to_be_whole() -> None:
    assert incomplete(classify_ssh(READ, ended(3), prior_doubt=False)) is None


def test_a_pipe_hides_the_end_of_its_first_part() -> None:
    unverified = (("COMPLETENESS_UNVERIFIED", "provider"),)
    piped = command("journalctl | head -n 100")
    seen = ended(0, stdout=b"line\n")

    assert unverified == incomplete(classify_ssh(asked(piped, Effect.READ), seen, prior_doubt=False))
    meant = asked(piped, Effect.READ, operation(Effect.READ, pipeline=True))
    assert () == incomplete(classify_ssh(meant, seen, prior_doubt=False))
    assert () == incomplete(classify_ssh(asked(piped), seen, prior_doubt=False))


def test_what_never_proves_to_be_whole_is_partial() -> None:
    logs = asked(command("podman logs c1"), Effect.READ, operation(Effect.READ, never_provable=True))

    assert (Category.PARTIAL, "incomplete", NEVER, NONE) == judged(logs, ended(0))


def with_rules(*rules: ExitRule, effect: Effect = Effect.WRITE, action: object = None, **fields: object) -> FrozenSsh:
    declared = operation(effect, exit_map=rules, **fields)
    return asked(action if isinstance(action, LookUp) else command(), effect, declared)


def test_the_first_rule_that_fits_decides_by_status_and_stderr_together() -> None:
    apt = with_rules(
        rule(
            "exit_code==`100` && contains(stderr || '', 'Could not get lock')",
            Category.CONFIRMED_FAILURE,
            retry=Retry.AFTER_DELAY,
            delay_s=90,
        ),
        rule("exit_code==`100`", Category.COMMAND_FAILED, remote_effect=UNKNOWN),
        rule("exit_code==`100` || exit_code==`3`", Category.SUCCESS),
    )
    locked = classify_ssh(apt, ended(100, stderr=b"E: Could not get lock"), prior_doubt=False)

    assert (Category.CONFIRMED_FAILURE, "declared", Retry.AFTER_DELAY, NONE) == judged(apt, locked.raw)  # type: ignore[arg-type]
    assert 90 == locked.verdict.retry_after_s
    assert "exit_map[0].when" == locked.grounds["field"]
    assert (Category.COMMAND_FAILED, "exit_status", RECONCILE, UNKNOWN) == judged(apt, ended(100))
    assert (Category.SUCCESS, "ok", NEVER, APPLIED) == judged(apt, ended(3))
    assert (Category.COMMAND_FAILED, "exit_status", RECONCILE, UNKNOWN) == judged(apt, ended(4))
    assert classify_ssh(apt, ended(4), prior_doubt=False).grounds["field"] is None


DEFAULTS = [
    (Category.SUCCESS, "ok", NEVER, APPLIED, NEVER),
    (Category.PARTIAL, "incomplete", NEVER, UNKNOWN, NEVER),
    (Category.AUTHENTICATION_FAILED, "rejected", NEVER, NONE, NEVER),
    (Category.AUTHORIZATION_DENIED, "forbidden", NEVER, NONE, NEVER),
    (Category.CONFIRMED_FAILURE, "declared", NEVER, NONE, NEVER),
    (Category.COMMAND_FAILED, "exit_status", RECONCILE, UNKNOWN, NEVER),
    (Category.RATE_LIMITED, "too_many", Retry.AFTER_DELAY, NONE, Retry.AFTER_DELAY),
    (Category.MALFORMED_RESPONSE, "schema", RECONCILE, UNKNOWN, NEVER),
    (Category.OUTCOME_UNKNOWN, "unrecorded", RECONCILE, UNKNOWN, BOUNDED),
]


@pytest.mark.parametrize(("category", "code", "retry", "effect", "read_retry"), DEFAULTS)
def test_a_rule_that_says_no_more_gets_what_its_category_means(
    category: Category, code: str, retry: Retry, effect: RemoteEffect, read_retry: Retry
) -> None:
    any_status = rule("exit_code==`9`", category)
    delay_s = 60 if category is Category.RATE_LIMITED else None

    assert (category, code, retry, effect) == judged(with_rules(any_status), ended(9))
    assert (category, code, read_retry, NONE) == judged(with_rules(any_status, effect=Effect.READ), ended(9))
    assert delay_s == classify_ssh(with_rules(any_status), ended(9), prior_doubt=False).verdict.retry_after_s


def test_a_category_that_no_command_can_have_is_a_declared_failure() -> None:
    odd = with_rules(rule("exit_code==`9`", Category.VAULT_LOCKED, code="locked"))

    assert (Category.CONFIRMED_FAILURE, "declared", NEVER, NONE) == judged(odd, ended(9))


def test_a_code_of_its_own_is_taken_where_the_category_has_it() -> None:
    for code, taken in (("not_found", "not_found"), ("locked", "declared")):
        named = with_rules(rule("exit_code==`9`", Category.CONFIRMED_FAILURE, code=code))
        assert (Category.CONFIRMED_FAILURE, taken, NEVER, NONE) == judged(named, ended(9))


@pytest.mark.parametrize("retry", [BOUNDED, Retry.AFTER_DELAY])
@pytest.mark.parametrize("effect", [UNKNOWN, APPLIED])
def test_no_rule_lets_a_write_be_repeated_that_may_be_done(retry: Retry, effect: RemoteEffect) -> None:
    rash = rule("exit_code==`9`", Category.CONFIRMED_FAILURE, retry=retry, remote_effect=effect)

    assert (Category.CONFIRMED_FAILURE, "declared", RECONCILE, effect) == judged(with_rules(rash), ended(9))


def test_a_rule_may_let_a_write_be_repeated_that_was_not_done() -> None:
    safe = rule("exit_code==`9`", Category.CONFIRMED_FAILURE, retry=BOUNDED)

    assert (Category.CONFIRMED_FAILURE, "declared", BOUNDED, NONE) == judged(with_rules(safe), ended(9))


def test_a_conflict_after_an_attempt_in_doubt_may_be_our_own() -> None:
    exists = with_rules(rule("exit_code==`9`", Category.CONFIRMED_FAILURE, code="conflict"))

    assert (Category.CONFIRMED_FAILURE, "conflict", NEVER, NONE) == judged(exists, ended(9))
    expected = (Category.OUTCOME_UNKNOWN, "in_progress_conflict", RECONCILE, UNKNOWN)
    assert expected == judged(exists, ended(9), prior_doubt=True)


def test_a_predicate_that_can_not_be_evaluated_did_not_match() -> None:
    broken = with_rules(
        rule("stdout > `3` && exit_code==`9`", Category.SUCCESS), rule("exit_code==`9`", Category.CONFIRMED_FAILURE)
    )
    huge = ended(9, stdout=b"x" * 2_200_000)

    assert (Category.CONFIRMED_FAILURE, "declared", NEVER, NONE) == judged(broken, ended(9))
    assert (Category.COMMAND_FAILED, "exit_status", RECONCILE, UNKNOWN) == judged(broken, huge)


def test_a_rule_is_not_asked_about_output_that_was_cut() -> None:
    quiet = with_rules(rule("exit_code==`9` && !(contains(stderr || '', 'half'))", Category.CONFIRMED_FAILURE))
    fails = (Category.COMMAND_FAILED, "exit_status", RECONCILE, UNKNOWN)

    assert (Category.CONFIRMED_FAILURE, "declared", NEVER, NONE) == judged(quiet, ended(9, stdout_bytes=7))
    assert fails == judged(quiet, ended(9, stderr_bytes=7))


def test_what_a_rule_says_is_missing_is_missing() -> None:
    found = with_rules(
        rule("exit_code==`1`", Category.PARTIAL, incomplete=(IncompleteCode.VISIBILITY_RESTRICTED,)),
        rule("exit_code==`2`", Category.PARTIAL),
        rule("exit_code==`3`", Category.OUTCOME_UNKNOWN, incomplete=(IncompleteCode.TIME_BUDGET_EXCEEDED,)),
        effect=Effect.READ,
    )
    expected = {1: "VISIBILITY_RESTRICTED", 2: "COMPLETENESS_UNVERIFIED", 3: "TIME_BUDGET_EXCEEDED"}
    for status, code in expected.items():
        assert ((code, "provider"),) == incomplete(classify_ssh(found, ended(status), prior_doubt=False))
    late = ended(1, after_close=True, fault=SshFault.TOTAL_TIMEOUT)
    assert (("TIME_BUDGET_EXCEEDED", "broker"),) == incomplete(classify_ssh(found, late, prior_doubt=False))


def test_a_declared_success_has_to_hold() -> None:
    declared = operation(success_when=predicate("exit_code==`0` && !(starts_with(stderr || '', 'error:'))"))
    strict = asked(command(), declared=declared)
    lenient = asked(command(), declared=operation(success_when=predicate("exit_code==`4`")))

    assert (Category.SUCCESS, "ok", NEVER, APPLIED) == judged(strict, ended(0, stderr=b"note: fine"))
    assert (Category.MALFORMED_RESPONSE, "schema", RECONCILE, UNKNOWN) == judged(strict, ended(0, stderr=b"error: no"))
    assert (Category.COMMAND_FAILED, "exit_status", RECONCILE, UNKNOWN) == judged(strict, ended(1))
    assert (Category.SUCCESS, "ok", NEVER, APPLIED) == judged(lenient, ended(4))
    reading = replace(strict, effect=Effect.READ)
    assert (Category.MALFORMED_RESPONSE, "schema", NEVER, NONE) == judged(reading, ended(0, stderr=b"error: no"))
    assert "success_when" == classify_ssh(strict, ended(1), prior_doubt=False).grounds["field"]


FOUND = [
    (Finding(found=Found.FINISHED, status=0), Category.SUCCESS, "reconciled", NEVER, APPLIED),
    (Finding(found=Found.FINISHED, status=3), Category.COMMAND_FAILED, "exit_status", HUMAN, UNKNOWN),
    (Finding(found=Found.FINISHED), Category.OUTCOME_UNKNOWN, "unrecorded", HUMAN, UNKNOWN),
    (Finding(found=Found.RUNNING), Category.OUTCOME_UNKNOWN, "still_running", Retry.AFTER_DELAY, UNKNOWN),
    (Finding(found=Found.ORPHAN), Category.OUTCOME_UNKNOWN, "still_running", HUMAN, UNKNOWN),
    (Finding(found=Found.NEVER_STARTED), Category.CONFIRMED_FAILURE, "not_found", NEVER, NONE),
    *(
        (Finding(found=found), Category.OUTCOME_UNKNOWN, "unrecorded", HUMAN, UNKNOWN)
        for found in (
            Found.DIED, Found.DIED_REBOOT, Found.DIED_RESTART, Found.FENCED_LATE, Found.OTHER_HOST, Found.UNREADABLE,
            Found.NO_STORE, Found.NO_ANSWER,
        )
    ),
    (None, Category.OUTCOME_UNKNOWN, "unrecorded", HUMAN, UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "category", "code", "retry", "effect"), FOUND)
def test_a_look_up_settles_by_a_recorded_end_or_a_fence_in_time_alone(
    finding: Finding | None, category: Category, code: str, retry: Retry, effect: RemoteEffect
) -> None:
    classified = classify_ssh(SOUGHT, looked_up(finding), prior_doubt=True)

    assert (category, code, retry, effect) == judged(SOUGHT, looked_up(finding), prior_doubt=True)
    assert (10 if retry is Retry.AFTER_DELAY else None) == classified.verdict.retry_after_s
    assert classified.completeness is None
    assert classified.ssh is not None
    if finding is not None:
        assert (finding.status, finding.found.value) == (classified.ssh["exit_status"], classified.ssh["marker"])
        assert 0 == classified.ssh["stdout_bytes"]
        assert "stdout" not in classified.ssh


def spooled(status: int = 0, stdout: bytes = b"out\n", stderr: bytes = b"err\n", **fields: Any) -> SshOutcome:
    """The look-up of a detached command, with what it wrote."""
    whole = {"stdout_bytes": len(stdout), "stderr_bytes": len(stderr), "output_complete": True, **fields}
    found = Finding(found=Found.FINISHED, status=status, spooled=True)
    return looked_up(found, stdout=stdout, stderr=stderr, **whole)


def test_a_look_up_brings_what_a_detached_command_wrote() -> None:
    told = classify_ssh(SOUGHT, spooled(), prior_doubt=True)
    assert (Category.SUCCESS, "reconciled", NEVER, APPLIED) == judged(SOUGHT, spooled())
    assert told.ssh is not None
    assert ("out\n", "err\n", 4, 4, "finished", 0) == tuple(
        told.ssh[name] for name in ("stdout", "stderr", "stdout_bytes", "stderr_bytes", "marker", "exit_status")
    )
    assert () == incomplete(told)

    failed = classify_ssh(SOUGHT, spooled(4), prior_doubt=True)
    assert (Category.COMMAND_FAILED, "out\n") == (failed.verdict.category, (failed.ssh or {})["stdout"])


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"stdout_bytes": 300_000, "output_complete": False}, {262_144}),
        ({"stderr_bytes": SPOOL_BYTES, "output_complete": False}, {262_144, SPOOL_BYTES}),
        ({"output_complete": False}, {60}),
    ],
    ids=["more than is kept", "more than the host kept", "still held open"],
)
def test_output_of_a_detached_command_that_was_cut_is_said_to_be(fields: dict[str, Any], limit: set[int]) -> None:
    told = classify_ssh(SOUGHT, spooled(**fields), prior_doubt=True)

    assert (Category.PARTIAL, APPLIED) == (told.verdict.category, told.verdict.remote_effect)
    assert told.completeness is not None
    assert (False, True) == (told.completeness.complete, told.completeness.truncated)
    assert {"OUTPUT_TRUNCATED"} == {reason.code.value for reason in told.completeness.reasons}
    assert limit == {reason.limit for reason in told.completeness.reasons}


def test_without_its_output_a_look_up_says_nothing_of_it() -> None:
    told = classify_ssh(SOUGHT, looked_up(Finding(found=Found.RUNNING), stdout=b"ours"), prior_doubt=True)

    assert told.ssh is not None
    assert (None, False) == (incomplete(told), "stdout" in told.ssh)


def test_a_look_up_that_did_not_reach_its_host_leaves_the_doubt() -> None:
    for fault, phase in ((SshFault.CONNECT_REFUSED, SshPhase.CONNECTING), (SshFault.CONNECTION_LOST, SshPhase.OUTPUT)):
        assert (Category.OUTCOME_UNKNOWN, "unrecorded", HUMAN, UNKNOWN) == judged(SOUGHT, lost(fault, phase))


def test_an_end_that_was_looked_up_means_what_the_operation_says() -> None:
    """As far as the status alone can tell: the output of back then is not at hand."""
    rules = (
        rule("exit_code==`3`", Category.CONFIRMED_FAILURE),
        rule("exit_code==`4` && stderr==''", Category.SUCCESS),
        rule("exit_code==`4`", Category.CONFIRMED_FAILURE, retry=BOUNDED),
        rule("exit_code==`5`", Category.OUTCOME_UNKNOWN, retry=RECONCILE),
    )
    sought = with_rules(*rules, action=LookUp(operation_id="op_1"))

    def found(status: int, **fields: object) -> tuple[object, ...]:
        return judged(sought, looked_up(Finding(found=Found.FINISHED, status=status), **fields))

    assert (Category.CONFIRMED_FAILURE, "declared", NEVER, NONE) == found(3)
    assert (Category.COMMAND_FAILED, "exit_status", HUMAN, UNKNOWN) == found(4)
    assert (Category.COMMAND_FAILED, "exit_status", HUMAN, UNKNOWN) == found(5)
    assert (Category.SUCCESS, "reconciled", NEVER, APPLIED) == found(4, output_complete=True)
    assert (Category.OUTCOME_UNKNOWN, "unrecorded", HUMAN, UNKNOWN) == found(5, output_complete=True)


def test_a_declared_success_that_asks_for_output_can_not_be_looked_up() -> None:
    by_output = operation(success_when=predicate("exit_code==`0` && contains(stdout || '', 'ok')"))
    sought = asked(LookUp(operation_id="op_1"), declared=by_output)
    seen = looked_up(Finding(found=Found.FINISHED, status=0))

    assert (Category.MALFORMED_RESPONSE, "schema", HUMAN, UNKNOWN) == judged(sought, seen)


def transferred(fault: SshFault | None = None, **fields: object) -> SshOutcome:
    return SshOutcome(phase=SshPhase.OUTPUT, fault=fault, transfer=Transfer(**fields))  # type: ignore[arg-type]


def test_an_upload_has_replaced_its_target_or_left_it_as_it_was() -> None:
    expected = [
        (transferred(replaced=Replaced.YES, complete=True), Category.SUCCESS, "ok", NEVER, APPLIED),
        (transferred(SshFault.CONNECTION_LOST, replaced=Replaced.YES), Category.SUCCESS, "ok", NEVER, APPLIED),
        (transferred(SshFault.CONNECTION_LOST), LOCAL, "connect_failed", BOUNDED, NONE),
        (transferred(SshFault.CHANNEL_LOST), LOCAL, "connect_failed", BOUNDED, NONE),
        (transferred(SshFault.TOTAL_TIMEOUT), LOCAL, "connect_timeout", BOUNDED, NONE),
        (lost(SshFault.CONNECTION_LOST, SshPhase.CHANNEL_OPEN), LOCAL, "connect_failed", BOUNDED, NONE),
        (transferred(SshFault.REMOTE_FILE), Category.CONFIRMED_FAILURE, "client_error", NEVER, NONE),
        (transferred(SshFault.INTERNAL), Category.BROKER_UNAVAILABLE, "internal", HUMAN, NONE),
    ]
    for seen, *verdict in expected:
        assert tuple(verdict) == judged(PUT, seen)
        assert classify_ssh(PUT, seen, prior_doubt=False).completeness is None


@pytest.mark.parametrize(
    ("fault", "code"), [(SshFault.CONNECTION_LOST, "connection_lost"), (SshFault.TOTAL_TIMEOUT, "total_timeout")]
)
def test_a_rename_without_an_answer_is_the_one_doubt_of_an_upload(fault: SshFault, code: str) -> None:
    seen = transferred(fault, replaced=Replaced.UNKNOWN)

    assert (Category.OUTCOME_UNKNOWN, code, RECONCILE, UNKNOWN) == judged(PUT, seen)


def test_a_download_is_whole_or_says_that_it_is_not() -> None:
    expected = [
        (transferred(complete=True), Category.SUCCESS, "ok", NEVER, ()),
        (transferred(cut=True), Category.PARTIAL, "incomplete", NEVER, (("OUTPUT_TRUNCATED", "broker"),)),
        (transferred(SshFault.REMOTE_FILE), Category.CONFIRMED_FAILURE, "client_error", NEVER, None),
        (transferred(SshFault.INTERNAL), Category.BROKER_UNAVAILABLE, "internal", HUMAN, None),
        (
            transferred(SshFault.CONNECTION_LOST), Category.OUTCOME_UNKNOWN, "connection_lost", BOUNDED,
            (("SOURCE_UNAVAILABLE", "provider"),),
        ),
        (
            transferred(SshFault.TOTAL_TIMEOUT), Category.OUTCOME_UNKNOWN, "total_timeout", BOUNDED,
            (("TIME_BUDGET_EXCEEDED", "broker"),),
        ),
    ]  # fmt: skip
    for seen, category, code, retry, missing in expected:
        assert (category, code, retry, NONE) == judged(GET, seen)
        assert missing == incomplete(classify_ssh(GET, seen, prior_doubt=False))


RULES = st.lists(
    st.builds(
        ExitRule,
        when=st.sampled_from([predicate("exit_code==`0`"), predicate("exit_code!=`0`")]),
        category=st.sampled_from(Category),
        code=st.sampled_from([None, "conflict", "declared", "x"]),
        retry=st.sampled_from([None, *Retry]),
        remote_effect=st.sampled_from([None, *RemoteEffect]),
        delay_s=st.sampled_from([None, 0, 5]),
        incomplete=st.sampled_from([(), (IncompleteCode.VISIBILITY_RESTRICTED,)]),
    ),
    max_size=2,
)
OUTCOMES = st.builds(
    SshOutcome,
    phase=st.sampled_from(SshPhase),
    fault=st.sampled_from([None, *SshFault]),
    exit_status=st.sampled_from([None, 0, 1, 97, 98, 255, 0xC0000100]),
    exit_signal=st.sampled_from([None, "KILL"]),
    stdout=st.binary(max_size=4),
    stdout_bytes=st.sampled_from([0, 4, 9]),
    output_complete=st.booleans(),
    marker=st.sampled_from(MarkerState),
    after_close=st.booleans(),
    finding=st.none() | st.builds(Finding, found=st.sampled_from(Found), status=st.sampled_from([None, 0, 3])),
    transfer=st.none() | st.builds(Transfer, replaced=st.sampled_from(Replaced), complete=st.booleans()),
)
DECLARED = st.none() | st.builds(
    lambda rules, drops: operation(exit_map=tuple(rules), expect_disconnect=drops), RULES, st.booleans()
)


@given(
    action=st.sampled_from([frozen.action for frozen in (*EVERY, SOUGHT)]),
    effect=st.sampled_from(Effect),
    declared=DECLARED,
    seen=OUTCOMES,
    prior_doubt=st.booleans(),
)
def test_whatever_was_seen_no_write_that_may_be_done_is_called_repeatable(
    action: SshAction, effect: Effect, declared: SshOperation | None, seen: SshOutcome, *, prior_doubt: bool
) -> None:
    classified = classify_ssh(asked(action, effect, declared), seen, prior_doubt=prior_doubt)
    verdict = classified.verdict
    is_write = effect is not Effect.READ

    assert verdict.code in CODES[verdict.category]
    assert 1 <= len(verdict.message) <= MESSAGE_LIMIT
    assert (verdict.retry is Retry.AFTER_DELAY) is (verdict.retry_after_s is not None)
    assert is_write or verdict.remote_effect is NONE
    if verdict.retry in {BOUNDED, Retry.AFTER_DELAY} and not isinstance(action, LookUp):
        assert verdict.remote_effect is NONE
        assert not (is_write and verdict.category is Category.OUTCOME_UNKNOWN)
    if verdict.category is Category.SUCCESS and classified.completeness is not None:
        assert classified.completeness.complete


@pytest.mark.parametrize(("fault", "phase"), list(product(SshFault, SshPhase)))
def test_every_fault_in_every_phase_has_a_verdict_that_may_be_told(fault: SshFault, phase: SshPhase) -> None:
    for frozen in (*EVERY, SOUGHT):
        verdict = classify_ssh(frozen, lost(fault, phase), prior_doubt=False).verdict
        assert 1 <= len(verdict.message) <= MESSAGE_LIMIT
        assert verdict.category is not Category.SUCCESS
