"""The card: what an approver sees, as one canonical object whose digest the decision signs.

Everything on it comes from the frozen request, from the policy, or from kernel facts; the agent's own words stand in
`who.label` and `who.says` alone. Rendering is the client's business.
"""

import hashlib
from codecs import getincrementaldecoder
from dataclasses import dataclass

from broker.contract.wire import JsonObject, JsonValue, digest
from broker.core.card_evidence import evidence_part, yes_despite
from broker.core.channels import Frozen
from broker.core.effects import effect_word
from broker.core.evidence_gate import NO_PROOF, Proof
from broker.core.grants import allowance
from broker.core.identity import UNIDENTIFIED, Caller, may_anchor, naming
from broker.core.ledger import Doubt
from broker.core.policy.model import Ask, Limits
from broker.core.redirects import MAX_HOPS, may_be_sent_on
from broker.core.ssh.card import payload, ssh_part, target_url, yes_once, yes_session
from broker.core.ssh.frozen import Exec, FrozenSsh
from broker.core.ssh.model import MarkerMode
from broker.core.ssh.trust import HostKey, KeyState

NOTHING_BEFORE: JsonObject = {"denied": None, "previous": None}
BODY_SHOWN_BYTES = 65_536
TYPED_WORD_LIMIT = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What a card tells of the session. Times are milliseconds since the epoch."""

    id: str
    opened_at_ms: int
    calls: int
    denied: int
    label: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a card is drawn under."""

    approval_id: str
    correlation_id: str
    log_id: str
    vault_term: int
    policy_digest: str
    credential_version: int | None
    created_at_ms: int
    limits: Limits


def card_digest(card: JsonObject) -> str:
    return digest("doorward/card/v1", card)


def draw(
    *,
    setting: Setting,
    caller: Caller,
    session: SessionFacts,
    frozen: Frozen,
    ask: Ask,
    says: str | None,
    doubts: tuple[Doubt, ...] = (),
    host_key: HostKey | None = None,
    proof: Proof = NO_PROOF,
    before: JsonObject = NOTHING_BEFORE,
    idempotency_key: str | None = None,
) -> JsonObject:
    """Draw the card once; nothing of it is computed later. `host_key` is what is known of an SSH host's key.

    `before` is what a human said to the like earlier, `idempotency_key` the broker's own that would travel along.
    """
    drawn: dict[str, JsonValue] = {
        "v": 1,
        "approval_id": setting.approval_id,
        "correlation_id": setting.correlation_id,
        "created_at_ms": setting.created_at_ms,
        "expires_at_ms": setting.created_at_ms + ask.rule.expires_s * 1000,
        "arming_ms": ask.rule.arming_ms,
        "log_id": setting.log_id,
        "vault_term": setting.vault_term,
        "summary": _summary(frozen),
        "target": _target(frozen),
        "evidence": evidence_part(proof),
        "doubts": [_doubt(doubt, session.id, frozen) for doubt in doubts],
        "who": _who(caller, session, says),
        "why": _why(ask, setting),
        "uses": {"credential": frozen.service.credential, "version": setting.credential_version},
        "yes": _yes(ask, frozen, setting.limits, in_doubt=bool(doubts), host_key=host_key, proof=proof),
        "no": {"memory_s": setting.limits.denial_memory_s},
        "body": _body(frozen),
        "before": before,
        "exact": {
            "request_digest": frozen.digest,
            "idempotency_key": idempotency_key,
            "headers": [] if isinstance(frozen, FrozenSsh) else [list(pair) for pair in frozen.headers],
        },
        "typed_word": typed_word(frozen, in_doubt=bool(doubts), host_key=host_key, proof=proof),
    }
    return drawn | {"ssh": ssh_part(frozen, host_key)} if isinstance(frozen, FrozenSsh) else drawn


def typed_word(
    frozen: Frozen, *, in_doubt: bool, host_key: HostKey | None = None, proof: Proof = NO_PROOF
) -> str | None:
    """The word a human types where a key is not enough: the last of the target, or of the digest if that is odd.

    For a host key that nobody has seen before it is the host's name; where proof is missing, the first target without.
    """
    unverified = host_key is not None and host_key.state is KeyState.UNVERIFIED
    if not (frozen.destructive or in_doubt or unverified or proof.gaps):
        return None
    if unverified and isinstance(frozen, FrozenSsh):
        named = frozen.host.name
    elif proof.first_unproven is not None:
        named = proof.first_unproven
    else:
        named = frozen.targets[-1] if frozen.targets else frozen.identifies or frozen.subject
    words = named.replace("/", " ").split()
    word = words[-1] if words else ""
    if word.isascii() and word.isprintable() and "\\" not in word and 0 < len(word) <= TYPED_WORD_LIMIT:
        return word
    return frozen.digest.removeprefix("sha256:")[:8]


def _target(frozen: Frozen) -> JsonObject:
    if isinstance(frozen, FrozenSsh):
        return {"method": "SSH", "url": target_url(frozen), "plain_http": False}
    return {"method": frozen.method, "url": frozen.url, "plain_http": frozen.service.scheme == "http"}


def _summary(frozen: Frozen) -> JsonObject:
    return {
        "effect": effect_word(frozen.effect, destructive=frozen.destructive),
        "service": frozen.service.name,
        "operation": frozen.operation.removeprefix(f"{frozen.service.name}."),
        "identifies": frozen.identifies,
        "targets": len(frozen.targets),
    }


def _doubt(doubt: Doubt, session_id: str, frozen: Frozen) -> JsonObject:
    return {
        "correlation_id": doubt.correlation_id,
        "sent_at_ms": doubt.sent_at_ms,
        "summary": doubt.summary,
        "agent": doubt.agent,
        "same_session": doubt.session_id == session_id,
        "read_back": read_back_of(frozen) if doubt.operation == frozen.operation else None,
    }


def read_back_of(frozen: Frozen) -> str | None:
    """What would be looked at to tell whether an earlier attempt was made; None where nothing could tell."""
    if isinstance(frozen, FrozenSsh):
        is_marked = isinstance(frozen.action, Exec) and frozen.action.marker is not MarkerMode.OFF
        return "its marker on the host" if is_marked else None
    declared = frozen.declared
    return None if declared is None or declared.reconcile is None else declared.reconcile.operation


def _who(caller: Caller, session: SessionFacts, says: str | None) -> JsonObject:
    chain: list[JsonValue] = [
        {"pid": link.pid, "name": link.name, "anchors": may_anchor(link)} for link in caller.peer.chain
    ]
    return {
        "agent": caller.agent,
        "identified": caller.agent != UNIDENTIFIED,
        "interpreter": caller.interpreter,
        "exe": caller.program.exe,
        "pid": caller.anchor_process.pid,
        "span": caller.span.value,
        "chain": chain,
        "cwd": caller.program.cwd,
        "container": caller.container is not None,
        "naming": naming(caller),
        "session_id": session.id,
        "opened_at_ms": session.opened_at_ms,
        "calls": session.calls,
        "denied": session.denied,
        "label": session.label,
        "says": says,
    }


def _why(ask: Ask, setting: Setting) -> JsonObject:
    return {
        "rule": ask.rule.id,
        "reason": ask.rule.reason,
        "gate": ask.rule.approval.value,
        "rules": list(ask.rules),
        "policy": setting.policy_digest,
        "file": ask.rule.place.file,
        "line": ask.rule.place.line,
    }


def _yes(
    ask: Ask, frozen: Frozen, limits: Limits, *, in_doubt: bool, host_key: HostKey | None, proof: Proof
) -> JsonObject:
    uses, age_s = allowance(ask.rule, limits)
    is_new = host_key is not None and host_key.state is KeyState.UNVERIFIED
    offered = not ask.per_call and not in_doubt and not is_new and proof.is_met
    once, what = "this one request, once", None
    if isinstance(frozen, FrozenSsh):
        once, what = yes_once(frozen, host_key), yes_session(frozen)
    elif frozen.walk is not None:
        budget = frozen.walk.budget
        once = f"this collection, once: up to {budget.pages} requests, {budget.items} rows, {budget.seconds} s"
    elif may_be_sent_on(frozen):
        once = f"this request, once, and up to {MAX_HOPS} hops on its host"
    within = {"rule": "", "service": " in this service", "operation": " for this operation"}[ask.rule.per]
    why_not = "this rule asks each time" if ask.per_call else "an earlier attempt is in doubt"
    if is_new and not ask.per_call:
        why_not = "the host's key is new"
    if not proof.is_met:
        once, why_not = (
            yes_despite(proof, effect_word(frozen.effect, destructive=frozen.destructive)),
            "proof is missing",
        )
    return {
        "once": "sending it a second time, once" if in_doubt else once,
        "undo": False,
        "session": {
            "offered": offered,
            "per": ask.rule.per,
            "what": what or f"any request under rule {ask.rule.id}{within}",
            "max_uses": uses,
            "max_age_s": age_s,
            "why_not": None if offered else why_not,
        },
    }


def _body(frozen: Frozen) -> JsonObject:
    body = payload(frozen) if isinstance(frozen, FrozenSsh) else frozen.body
    media = None if isinstance(frozen, FrozenSsh) else dict(frozen.headers).get("content-type")
    shown = body[:BODY_SHOWN_BYTES]
    try:
        decoder = getincrementaldecoder("utf-8")()
        text: str | None = decoder.decode(shown, final=len(shown) == len(body))
    except UnicodeDecodeError:
        text = None
    return {
        "bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "media": media,
        "text": text if body else None,
        "cut": len(shown) < len(body),
    }
