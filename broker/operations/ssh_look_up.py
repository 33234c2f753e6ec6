"""What a look-up on its host proves of an SSH attempt in doubt.

A recorded end settles it, whatever the end was, and so does a fence that came in time. A declared look-up command
proves by status 0 and 1 alone, an uploaded file by its digest. Anything else leaves the doubt.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.contract.wire import JsonObject, JsonValue
from broker.core.ledger import Attempt
from broker.core.ssh.frozen import Exec, Get, LookUp
from broker.core.ssh.outcome import Found
from broker.core.ssh.recall import recalled
from broker.core.ssh.resolve import LookUpAsk

_SETTLING = frozenset({Found.FINISHED.value, Found.NEVER_STARTED.value})
_APPLIED = 0
_NOT_APPLIED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """An envelope about the attempt, and whether it settles it."""

    envelope: JsonObject
    settles: bool


def proof_of(way: LookUpAsk, attempt: Attempt, answer: JsonObject) -> Proof:
    """What the answer of a look-up proves. Its own envelope is told on where it was judged as the attempt's end."""
    ssh = answer["ssh"]
    seen: Mapping[str, JsonValue] = ssh if isinstance(ssh, Mapping) else {}
    match way.action:
        case LookUp():
            return Proof(envelope=answer, settles=seen.get("marker") in _SETTLING)
        case Exec():
            return _by_command(answer, seen.get("exit_status"))
        case Get():
            return _by_file(attempt, answer, seen)


def _by_command(answer: JsonObject, status: JsonValue) -> Proof:
    if status == _APPLIED:
        return _applied(answer, "The declared look-up command says that the change is made. Do not repeat it.")
    if status == _NOT_APPLIED:
        told = _told(
            answer, Category.CONFIRMED_FAILURE, "not_found", Retry.NEVER, RemoteEffect.NONE,
            "The declared look-up command says that the change is not made. It may be asked for anew.",
        )  # fmt: skip
        return Proof(envelope=told, settles=True)
    return _open(answer, "The declared look-up command came to no clear end")


def _by_file(attempt: Attempt, answer: JsonObject, seen: Mapping[str, JsonValue]) -> Proof:
    about = recalled(attempt.args) or {}
    transfer = seen.get("transfer")
    digest = transfer.get("sha256") if isinstance(transfer, Mapping) else None
    if digest is not None and digest == about.get("sha256"):
        return _applied(answer, "The file on the host is the one that was sent: it was put there.")
    return _open(answer, "The file on the host is not known to be the one that was sent")


def _applied(answer: JsonObject, message: str) -> Proof:
    told = _told(answer, Category.SUCCESS, "reconciled", Retry.NEVER, RemoteEffect.APPLIED, message)
    return Proof(envelope=told, settles=True)


def _open(answer: JsonObject, why: str) -> Proof:
    message = f"{why}, so it stays unknown what became of it. A human has to look."
    told = _told(answer, Category.OUTCOME_UNKNOWN, "unrecorded", Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN, message)
    return Proof(envelope=told, settles=False)


def _told(
    answer: JsonObject, category: Category, code: str, retry: Retry, effect: RemoteEffect, message: str
) -> JsonObject:
    success = category is Category.SUCCESS
    return {
        **answer,
        "ok": success,
        "status": "success" if success else "failure",
        "category": category.value,
        "code": code,
        "retry": retry.value,
        "retry_after_s": None,
        "remote_effect": effect.value,
        "message": message,
        "next": {"action": "ask_human" if retry is Retry.AFTER_HUMAN else "none", "command": None},
        "ssh": None,
        "completeness": None,
    }
