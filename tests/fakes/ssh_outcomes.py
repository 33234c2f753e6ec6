"""Frozen SSH requests and what executors saw of them, for tests of their judgement. Nothing here touches a wire."""

from dataclasses import replace
from typing import Any

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry
from broker.core.classify.ssh import classify_ssh
from broker.core.outcome import Classified
from broker.core.policy.model import Service
from broker.core.policy.place import Place
from broker.core.predicate import Predicate, compile_predicate
from broker.core.predicate_traps import ENDING
from broker.core.ssh.frozen import Exec, FrozenSsh, Get, LookUp, Put, SshAction
from broker.core.ssh.model import ExitRule, HostKeyMode, HostTrust, MarkerMode, SshHost, SshOperation
from broker.core.ssh.outcome import Finding, MarkerState, SshFault, SshOutcome, SshPhase

HERE = Place(file="test.toml", line=1)
HOST = SshHost(name="web-1", address="192.0.2.1", user="deploy", trust=HostTrust(mode=HostKeyMode.STRICT))
SERVICE = Service(name="web", base_url="", scheme="ssh", host="", port=0, base_path="", credential="k", place=HERE)
OPERATION_ID = "op_" + "a" * 44
STORELESS = MarkerMode.OFF
Gist = tuple[Category, str, Retry, RemoteEffect]


def operation(effect: Effect = Effect.WRITE, **fields: Any) -> SshOperation:
    return SshOperation(name="run", command=("run",), effect=effect, place=HERE, **fields)


def predicate(text: str) -> Predicate:
    return compile_predicate(text, sees=ENDING)


def rule(when: str, category: Category, **fields: Any) -> ExitRule:
    return ExitRule(when=predicate(when), category=category, **fields)


def command(text: str = "run", marker: MarkerMode = MarkerMode.REQUIRED) -> Exec:
    return Exec(command=text.encode(), marker=marker)


def asked(action: SshAction, effect: Effect = Effect.WRITE, declared: SshOperation | None = None) -> FrozenSsh:
    return FrozenSsh(service=SERVICE, operation="web.run", declared=declared, host=HOST, action=action, effect=effect)


WRITE, READ = asked(command()), asked(command(), Effect.READ)
BARE_WRITE, BARE_READ = (asked(command(marker=STORELESS), effect) for effect in (Effect.WRITE, Effect.READ))
PUT = asked(Put(path="/etc/x", content=b"new"))
GET = asked(Get(path="/etc/x"), Effect.READ)
SOUGHT = asked(LookUp(operation_id=OPERATION_ID))


def ended(status: int | None = 0, *, stdout: bytes = b"", stderr: bytes = b"", **fields: Any) -> SshOutcome:
    """A command of which an end was seen; with a marker, unless it says otherwise."""
    seen = SshOutcome(
        phase=SshPhase.CLOSED,
        exit_status=status,
        stdout=stdout,
        stderr=stderr,
        stdout_bytes=len(stdout),
        stderr_bytes=len(stderr),
        output_complete=True,
        marker=MarkerState.STARTED,
    )
    return replace(seen, **fields)


def lost(fault: SshFault | None, phase: SshPhase = SshPhase.OUTPUT, **fields: Any) -> SshOutcome:
    """An attempt without an end."""
    return replace(SshOutcome(phase=phase, fault=fault, marker=MarkerState.MISSING), **fields)


def looked_up(finding: Finding | None, **fields: Any) -> SshOutcome:
    return replace(SshOutcome(phase=SshPhase.CLOSED, exit_status=0, finding=finding), **fields)


def judged(frozen: FrozenSsh, seen: SshOutcome, *, prior_doubt: bool = False) -> Gist:
    return gist(classify_ssh(frozen, seen, prior_doubt=prior_doubt))


def gist(classified: Classified) -> Gist:
    verdict = classified.verdict
    return verdict.category, verdict.code, verdict.retry, verdict.remote_effect


def incomplete(classified: Classified) -> tuple[tuple[str, str], ...] | None:
    """Codes of what is missing, and by whom; None where nothing is said."""
    told = classified.completeness
    return None if told is None else tuple((reason.code.value, reason.by) for reason in told.reasons)
