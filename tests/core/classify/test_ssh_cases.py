"""Endings of real commands, as they were reported of real tools: what the broker says of each.

The table is printed. The row about a signal is a bare command; under a marker it is a doubt, for a look-up to settle.
"""

from dataclasses import dataclass

import pytest

from broker.contract.reasons import Category, Effect, IncompleteCode, RemoteEffect, Retry
from broker.core.classify.ssh import classify_ssh
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.model import MarkerMode, SshOperation
from broker.core.ssh.outcome import MarkerState, SshFault, SshOutcome, SshPhase
from tests.fakes.ssh_outcomes import Gist, asked, command, ended, gist, incomplete, lost, operation, rule

NONE, UNKNOWN, APPLIED = RemoteEffect.NONE, RemoteEffect.UNKNOWN, RemoteEffect.APPLIED
DOUBT: Gist = (Category.OUTCOME_UNKNOWN, "connection_lost", Retry.RECONCILE_FIRST, UNKNOWN)
PARTIAL: Gist = (Category.PARTIAL, "incomplete", Retry.NEVER, NONE)
UNVERIFIED = ("COMPLETENESS_UNVERIFIED",)
GONE = SshFault.CONNECTION_LOST
APT_LOCK = (
    b"E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 2448 (unattended-upgr)\n"
    b"E: Unable to acquire the dpkg frontend lock"
)


@dataclass(frozen=True, kw_only=True)
class Case:
    text: str
    seen: SshOutcome
    expected: Gist
    effect: Effect = Effect.WRITE
    declared: SshOperation | None = None
    marker: MarkerMode = MarkerMode.REQUIRED
    wait_s: int | None = None
    missing: tuple[str, ...] | None = None  # codes; None where nothing is said

    @property
    def frozen(self) -> FrozenSsh:
        return asked(command(self.text, self.marker), self.effect, self.declared)


def reading(*rules: object, **fields: object) -> SshOperation:
    return operation(Effect.READ, exit_map=rules, **fields)


DENIED = rule(
    "exit_code==`1` && contains(stderr || '', 'Permission denied')",
    Category.PARTIAL,
    incomplete=(IncompleteCode.VISIBILITY_RESTRICTED,),
)
GREP = (
    rule("exit_code==`1` && stderr==''", Category.SUCCESS),
    rule("exit_code==`2`", Category.PARTIAL, incomplete=(IncompleteCode.VISIBILITY_RESTRICTED,)),
)
APT = operation(
    exit_map=(
        rule(
            "exit_code==`100` && contains(stderr || '', 'Could not get lock')",
            Category.CONFIRMED_FAILURE,
            retry=Retry.AFTER_DELAY,
            delay_s=60,
        ),
        rule(
            "exit_code==`100` && contains(stderr || '', 'Sub-process')",
            Category.CONFIRMED_FAILURE,
            retry=Retry.RECONCILE_FIRST,
            remote_effect=UNKNOWN,
        ),
    )
)
ROLLOUT = operation(
    exit_map=(
        rule(
            "exit_code==`1` && contains(stderr || '', 'progress deadline')",
            Category.OUTCOME_UNKNOWN,
            remote_effect=APPLIED,
        ),
    )
)
WATCH = rule(
    "exit_code==`1` && contains(stderr || '', 'timed out waiting')",
    Category.OUTCOME_UNKNOWN,
    incomplete=(IncompleteCode.TIME_BUDGET_EXCEEDED,),
)
STATE_LOCK = rule(
    "contains(stderr || '', 'Error acquiring the state lock')", Category.CONFIRMED_FAILURE, retry=Retry.AFTER_HUMAN
)

CASES: dict[str, Case] = {
    "comp-053": Case(
        text="find / -name '*.pem'",
        effect=Effect.READ,
        declared=reading(DENIED),
        seen=ended(1, stdout=b"/etc/a.pem\n", stderr=b"find: '/root': Permission denied"),
        expected=PARTIAL,
        missing=("VISIBILITY_RESTRICTED",),
    ),
    "comp-054": Case(
        text="grep -r needle /srv",
        effect=Effect.READ,
        declared=reading(*GREP),
        seen=ended(1),
        expected=(Category.SUCCESS, "ok", Retry.NEVER, NONE),
        missing=(),
    ),
    "comp-055": Case(
        text="grep -r needle /srv",
        effect=Effect.READ,
        declared=reading(*GREP),
        seen=ended(2, stderr=b"grep: /srv/x: Permission denied"),
        expected=PARTIAL,
        missing=("VISIBILITY_RESTRICTED",),
    ),
    "comp-056": Case(
        text="journalctl -u app | head -n 100",
        effect=Effect.READ,
        seen=ended(0, stdout=b"line\nline\nline\n"),
        expected=PARTIAL,
        missing=UNVERIFIED,
    ),
    "comp-057": Case(
        text="kubectl logs -f job-pod",
        effect=Effect.READ,
        declared=reading(never_provable=True),
        seen=ended(0),
        expected=PARTIAL,
        missing=UNVERIFIED,
    ),
    "comp-061": Case(
        text="podman logs --tail 800 c1",
        effect=Effect.READ,
        declared=reading(never_provable=True),
        seen=ended(0, stdout=b"line 1\n"),
        expected=PARTIAL,
        missing=UNVERIFIED,
    ),
    # The 255 of these reports is the word of an ssh client for a lost line; here the loss itself is seen.
    "ssh-001": Case(text="systemctl restart app", seen=lost(GONE, marker=MarkerState.STARTED), expected=DOUBT),
    "ssh-003": Case(
        text="./deploy.sh",
        seen=lost(None, SshPhase.CLOSED, marker=MarkerState.STARTED, stdout=b"done\n", stdout_bytes=5),
        expected=(Category.OUTCOME_UNKNOWN, "channel_lost", Retry.RECONCILE_FIRST, UNKNOWN),
    ),
    "ssh-004": Case(
        text="./migrate",
        marker=MarkerMode.OFF,
        declared=operation(reconcile_command=("./migrate", "--status")),
        seen=ended(None, exit_signal="KILL", stdout=b"step 1 ok\nstep 2", marker=MarkerState.OFF),
        expected=(Category.COMMAND_FAILED, "exit_signal", Retry.RECONCILE_FIRST, UNKNOWN),
    ),
    "ssh-006": Case(
        text="shutdown -r +0",
        declared=operation(expect_disconnect=True),
        seen=lost(GONE, SshPhase.EXEC_ACCEPTED, marker=MarkerState.STARTED),
        expected=DOUBT,
    ),
    "ssh-007": Case(
        text="sudo systemctl restart networking",
        declared=operation(expect_disconnect=True),
        seen=lost(GONE, marker=MarkerState.STARTED),
        expected=DOUBT,
    ),
    "ssh-008": Case(
        text="uptime",
        effect=Effect.READ,
        seen=lost(SshFault.CONNECT_TIMEOUT, SshPhase.CONNECTING),
        expected=(Category.LOCAL_FAILURE, "connect_timeout", Retry.BOUNDED, NONE),
    ),
    "ssh-009": Case(
        text="systemctl restart app",
        seen=lost(SshFault.LOGIN_REJECTED, SshPhase.LOGIN),
        expected=(Category.AUTHENTICATION_FAILED, "ssh_rejected", Retry.NEVER, NONE),
    ),
    "ssh-012": Case(
        text="sudo apt-get install -y lld",
        declared=APT,
        seen=ended(100, stderr=APT_LOCK),
        expected=(Category.CONFIRMED_FAILURE, "declared", Retry.AFTER_DELAY, NONE),
        wait_s=60,
    ),
    "ssh-013": Case(
        text="sudo apt-get install -y lld",
        declared=APT,
        seen=ended(
            100,
            stdout=b"Unpacking lld (1:18) ...\n",
            stderr=b"E: Sub-process /usr/bin/dpkg returned an error code (1)",
        ),
        expected=(Category.CONFIRMED_FAILURE, "declared", Retry.RECONCILE_FIRST, UNKNOWN),
    ),
    "ssh-014": Case(
        text="kubectl set image deploy/app c=app:2 && kubectl rollout status deploy/app",
        declared=ROLLOUT,
        seen=ended(
            1,
            stdout=b'deployment "app" image updated\n',
            stderr=b'error: deployment "app" exceeded its progress deadline',
        ),
        expected=(Category.OUTCOME_UNKNOWN, "unrecorded", Retry.RECONCILE_FIRST, APPLIED),
    ),
    "ssh-015": Case(
        text="kubectl rollout status deploy/app --timeout=60s",
        effect=Effect.READ,
        declared=reading(WATCH),
        seen=ended(
            1,
            stdout=b"Waiting for rollout to finish: 0 out of 1 new replicas have been updated...\n",
            stderr=b"error: timed out waiting for the condition",
        ),
        expected=(Category.OUTCOME_UNKNOWN, "unrecorded", Retry.BOUNDED, NONE),
        missing=("TIME_BUDGET_EXCEEDED",),
    ),
    "ssh-017": Case(
        text="terraform apply -auto-approve",
        seen=lost(
            GONE,
            marker=MarkerState.STARTED,
            stdout=b"aws_instance.a: Creation complete\naws_instance.b: Creating...",
            stdout_bytes=61,
        ),
        expected=DOUBT,
    ),
    "ssh-019": Case(
        text="terraform apply -auto-approve",
        declared=operation(exit_map=(STATE_LOCK,)),
        seen=ended(1, stderr=b"Error: Error acquiring the state lock"),
        expected=(Category.CONFIRMED_FAILURE, "declared", Retry.AFTER_HUMAN, NONE),
    ),
    "ssh-021": Case(
        text="mytool apply",
        declared=operation(exit_map=(rule("exit_code==`127`", Category.CONFIRMED_FAILURE),)),
        seen=ended(127, stderr=b"bash: mytool: command not found"),
        expected=(Category.CONFIRMED_FAILURE, "declared", Retry.NEVER, NONE),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_reported_ending_is_told_for_what_it_proves(name: str) -> None:
    case = CASES[name]
    classified = classify_ssh(case.frozen, case.seen, prior_doubt=False)
    missing = incomplete(classified)
    codes = None if missing is None else tuple(code for code, _ in missing)
    said = " ".join(str(part) for part in gist(classified))
    print(f"{name}  {case.text[:44]:44}  {said}  missing: {codes}")

    assert case.expected == gist(classified)
    assert case.wait_s == classified.verdict.retry_after_s
    assert case.missing == codes


def test_all_twenty_are_here() -> None:
    assert 20 == len(CASES)


def test_a_signal_under_a_marker_is_a_doubt_and_not_a_failure() -> None:
    """It struck what carries the command; the command's own processes may go on."""
    case = CASES["ssh-004"]
    seen = ended(None, exit_signal="KILL", stdout=b"step 1 ok\nstep 2")
    verdict = gist(classify_ssh(asked(command(case.text)), seen, prior_doubt=False))

    assert (Category.OUTCOME_UNKNOWN, "unrecorded", Retry.RECONCILE_FIRST, UNKNOWN) == verdict
