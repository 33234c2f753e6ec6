"""Grants under everything that can happen to them, against a model that knows only what the human agreed to."""

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from broker.contract.reasons import ApprovalRule
from broker.core import grants
from broker.core.frozen import FrozenRequest
from broker.core.grants import Circumstances, Grant
from broker.core.policy.model import Ask, Limits, Rule
from broker.core.resolve import HttpAsk, resolve
from tests.fakes import market

LIMITS = Limits(max_uses=4, max_age_s=90)


def _frozen(ask: HttpAsk) -> FrozenRequest:
    request = resolve(market.POLICY, ask)
    assert isinstance(request, FrozenRequest)
    return request


REQUESTS = [_frozen(ask) for ask in (market.READ, market.LISTING, market.NOTE)]
ASKS = [
    Ask(
        rule=Rule(id=name, approval=approval, per=per, max_uses=uses, max_age_s=age_s, place=market.PLACE),
        rules=(name,),
    )
    for name, approval, per, uses, age_s in (
        ("wide", ApprovalRule.SESSION, "rule", 3, 60),
        ("narrow", ApprovalRule.SESSION, "operation", 9, 900),
        ("each", ApprovalRule.PER_CALL, "rule", 9, 900),
    )
]


@dataclass
class Agreed:
    """What a human said yes to, in the words of the card."""

    rule: str
    operation: str | None
    under: tuple[object, ...]
    left: int
    until_ms: int


class GrantMachine(RuleBasedStateMachine):
    """One session at a time; what it was granted must be exactly what was agreed to, never more."""

    def __init__(self) -> None:
        super().__init__()
        self.under = Circumstances(
            session_id="se_1", policy_digest="p1", credential_version=1, run=(8, 1, 0), now_ms=1_000
        )
        self.grants: list[Grant] = []
        self.agreed: list[Agreed] = []

    @property
    def circumstances(self) -> tuple[object, ...]:
        return (self.under.session_id, self.under.policy_digest, self.under.credential_version, self.under.run)

    @rule(ask=st.sampled_from(ASKS), request=st.sampled_from(REQUESTS))
    def say_yes(self, ask: Ask, request: FrozenRequest) -> None:
        self.grants.append(
            grants.make(grant_id=f"gr_{len(self.grants)}", ask=ask, frozen=request, limits=LIMITS, under=self.under)
        )
        self.agreed.append(
            Agreed(
                rule=ask.rule.id,
                operation=request.operation if ask.rule.per == "operation" else None,
                under=self.circumstances,
                left=0 if ask.per_call else min(ask.rule.max_uses, 4) - 1,
                until_ms=self.under.now_ms + min(ask.rule.max_age_s, 90) * 1000,
            )
        )

    @rule(ask=st.sampled_from(ASKS), request=st.sampled_from(REQUESTS))
    def use(self, ask: Ask, request: FrozenRequest) -> None:
        covering = [at for at, grant in enumerate(self.grants) if grants.covers(grant, ask, request, self.under)]
        agreed = [
            at
            for at, agreed in enumerate(self.agreed)
            if agreed.rule == ask.rule.id
            and agreed.operation in {None, request.operation}
            and agreed.under == self.circumstances
            and agreed.left > 0
            and self.under.now_ms < agreed.until_ms
        ]
        assert agreed == covering
        for at in covering[:1]:
            self.grants[at] = grants.used_once_more(self.grants[at])
            self.agreed[at].left -= 1

    @rule(seconds=st.sampled_from([1, 30, 61, 90]))
    def wait(self, seconds: int) -> None:
        self.under = replace(self.under, now_ms=self.under.now_ms + seconds * 1000)

    @rule(what=st.sampled_from(["session_id", "policy_digest", "credential_version", "run"]))
    def change(self, what: str) -> None:
        """Something else, that never was before: a new session, policy, credential version or program."""
        fresh: dict[str, object] = {
            "session_id": f"{self.under.session_id}+",
            "policy_digest": f"{self.under.policy_digest}+",
            "credential_version": (self.under.credential_version or 0) + 1,
            "run": (8, 1, (self.under.run or (8, 1, 0))[2] + 1),
        }
        self.under = replace(self.under, **{what: fresh[what]})  # type: ignore[arg-type]  # each under its own name


GrantMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestGrants = GrantMachine.TestCase
