"""Grants: what a session may do without asking again, as a human saw it on a card.

A grant belongs to one session, one rule and scope, one policy, one credential version and one execution of a program;
it is counted, it ages, and nothing of it survives the session, a lock or a change of what it was given under.
"""

from dataclasses import dataclass, replace

from broker.contract.wire import digest
from broker.core.channels import Frozen
from broker.core.policy.model import Ask, Limits, Rule
from broker.core.ssh.frozen import FrozenSsh


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    id: str
    session_id: str
    rule: str
    per: str
    scope: str
    effect: str
    destructive: bool  # of the request whose card it was given on, word typed and all
    max_uses: int
    used: int
    made_at_ms: int
    expires_at_ms: int
    policy_digest: str
    credential: str | None
    credential_version: int | None
    run: tuple[int, ...] | None  # which execution of which program


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a request runs under right now; a grant holds only while all of it is as it was."""

    session_id: str
    policy_digest: str
    credential_version: int | None
    run: tuple[int, ...] | None  # which execution of which program
    now_ms: int


def scope_of(rule: Rule, frozen: Frozen) -> str:
    """What one yes covers: the rule, or the rule within one service or operation.

    Of SSH it is this very action, its host and its user: no yes covers commands that nobody has seen.
    """
    if isinstance(frozen, FrozenSsh):
        where = f"{frozen.host.user}@{frozen.host.address}:{frozen.host.port}"
        return f"{rule.id}/{where}/{digest('doorward/ssh-scope/v1', frozen.action.to_json())}"
    if rule.per == "operation":
        return f"{rule.id}/{frozen.operation}"
    if rule.per == "service":
        return f"{rule.id}/{frozen.service.name}"
    return rule.id


def allowance(rule: Rule, limits: Limits) -> tuple[int, int]:
    """Uses and age in seconds that a session grant of this rule carries."""
    return min(rule.max_uses, limits.max_uses), min(rule.max_age_s, limits.max_age_s)


def make(*, grant_id: str, ask: Ask, frozen: Frozen, limits: Limits, under: Circumstances) -> Grant:
    """The grant that a yes for the session creates; its first use is the request that asked."""
    uses, age_s = allowance(ask.rule, limits)
    return Grant(
        id=grant_id,
        session_id=under.session_id,
        rule=ask.rule.id,
        per=ask.rule.per,
        scope=scope_of(ask.rule, frozen),
        effect=frozen.effect.value,
        destructive=frozen.destructive,
        max_uses=uses,
        used=1,
        made_at_ms=under.now_ms,
        expires_at_ms=under.now_ms + age_s * 1000,
        policy_digest=under.policy_digest,
        credential=frozen.service.credential,
        credential_version=under.credential_version,
        run=under.run,
    )


def covers(grant: Grant, ask: Ask, frozen: Frozen, under: Circumstances) -> bool:
    """Whether the grant may be used for this request now. An executable that can't be told covers nothing."""
    return (
        not ask.per_call
        and grant.session_id == under.session_id
        and grant.rule == ask.rule.id
        and grant.scope == scope_of(ask.rule, frozen)
        and (grant.destructive or not frozen.destructive)  # what destroys does not ride on a yes to something else
        and grant.policy_digest == under.policy_digest
        and (grant.credential, grant.credential_version) == (frozen.service.credential, under.credential_version)
        and grant.run is not None
        and grant.run == under.run
        and grant.used < grant.max_uses
        and grant.made_at_ms <= under.now_ms < grant.expires_at_ms  # a clock that was put back gives no time
    )


def used_once_more(grant: Grant) -> Grant:
    return replace(grant, used=grant.used + 1)
