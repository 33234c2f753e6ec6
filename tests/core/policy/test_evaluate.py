"""Decisions: default deny, the strictest rule wins, and neither order nor one more rule loosens anything."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.frozen import FrozenRequest
from broker.core.policy.evaluate import STRICTNESS, decide, evaluate
from broker.core.policy.match import Facts
from broker.core.policy.model import Allow, Ask, Decision, Deny, Limits, Policy, Rule
from broker.core.policy.place import Place
from broker.core.resolve import HttpAsk, resolve
from tests.fakes.policies import SHOP, caller_named, policy_of

BASE = policy_of(SHOP)
HERE = Place(file="p.toml", line=1)


def rule(name: str, approval: ApprovalRule, **parts: object) -> Rule:
    return replace(Rule(id=name, approval=approval, place=HERE), **parts)  # type: ignore[arg-type]  # parts of a rule


def decided(*rules: Rule, limits: Limits | None = None, agent: str = "codex", **ask: object) -> Decision:
    asked = {"service": "shop", "operation": "orders.list", "args": {}} | ask
    frozen = resolve(BASE, HttpAsk(**asked))  # type: ignore[arg-type]  # parts of a request
    assert isinstance(frozen, FrozenRequest)
    policy = replace(BASE, rules=rules, limits=limits or Limits())
    return evaluate(policy, caller_named(agent), frozen)


def test_what_no_rule_names_is_denied() -> None:
    assert Deny(code="no_rule", rules=(), place=BASE.services["shop"].place) == decided()
    assert isinstance(decided(rule("a", ApprovalRule.NONE, services=("other",))), Deny)


def test_the_strictest_rule_that_matches_wins() -> None:
    none, session, per_call, deny = (rule(approval.value, approval) for approval in ApprovalRule)

    assert Allow(rules=("none",)) == decided(none)
    assert ("session", ("session",)) == _asked(decided(none, session))
    assert ("per_call", ("per_call",)) == _asked(decided(per_call, none, session))
    assert Deny(code="rule_denied", rules=("deny",), place=HERE) == decided(per_call, deny, none, session)


def _asked(decision: Decision) -> tuple[str, tuple[str, ...]]:
    assert isinstance(decision, Ask)
    return decision.rule.id, decision.rules


def test_an_ask_says_whether_each_call_is_asked() -> None:
    session, per_call = decided(rule("s", ApprovalRule.SESSION)), decided(rule("p", ApprovalRule.PER_CALL))

    assert isinstance(session, Ask)
    assert isinstance(per_call, Ask)
    assert (False, True) == (session.per_call, per_call.per_call)


def test_a_rule_that_stands_alone_governs_as_it_is() -> None:
    alone = rule("a", ApprovalRule.SESSION, max_uses=5, in_doubt="ask", arming_ms=4000, per="service")
    decision = decided(alone)

    assert isinstance(decision, Ask)
    assert alone == decision.rule


def test_of_equal_rules_the_tightest_grant_governs_narrowed_by_the_others() -> None:
    wide = rule("a", ApprovalRule.SESSION, max_uses=50, max_age_s=60, per="operation", arming_ms=9000, expires_s=30)
    tight = rule("b", ApprovalRule.SESSION, max_uses=10, max_age_s=600, per="rule", in_doubt="ask")
    decision = decided(wide, tight)

    assert isinstance(decision, Ask)
    assert ("a", "b") == decision.rules
    governing = decision.rule
    assert ("b", 10, 60, "operation", 9000, 30, "refuse") == (
        governing.id, governing.max_uses, governing.max_age_s, governing.per, governing.arming_ms,
        governing.expires_s, governing.in_doubt,
    )  # fmt: skip


def test_limits_clamp_the_grant() -> None:
    decision = decided(rule("a", ApprovalRule.SESSION), limits=Limits(max_uses=3, max_age_s=5))

    assert isinstance(decision, Ask)
    assert (3, 5) == (decision.rule.max_uses, decision.rule.max_age_s)


def test_an_ad_hoc_method_that_the_service_does_not_list_is_denied_whatever_rules_say() -> None:
    everything = rule("a", ApprovalRule.NONE)
    ask: dict[str, Any] = {"operation": None, "args": None, "method": "PUT", "path": "/x"}

    assert Deny(code="no_rule", rules=(), place=BASE.services["shop"].place) == decided(everything, **ask)
    assert Allow(rules=("a",)) == decided(everything, **{**ask, "method": "POST"})


def test_a_denial_is_named_for_an_ad_hoc_method_too() -> None:
    ask: dict[str, Any] = {"operation": None, "args": None, "method": "PUT", "path": "/x"}
    decision = decided(rule("b", ApprovalRule.DENY), rule("a", ApprovalRule.DENY), **ask)

    assert Deny(code="rule_denied", rules=("a", "b"), place=HERE) == decision


def test_the_agents_name_decides_and_nothing_that_it_says() -> None:
    only = rule("a", ApprovalRule.NONE, agents=("codex",))

    assert isinstance(decided(only, agent="codex"), Allow)
    assert isinstance(decided(only, agent="unidentified"), Deny)


NAMES = st.lists(st.sampled_from(["one", "two", "t*", "*"]), max_size=2, unique=True).map(tuple)
PATHS = st.lists(st.sampled_from(["/a", "/A", "/a/*", "/**", "/*/b"]), max_size=2, unique=True).map(tuple)
RULES = st.builds(
    Rule,
    id=st.sampled_from([f"r{number}" for number in range(50)]),
    approval=st.sampled_from(ApprovalRule),
    agents=NAMES,
    services=NAMES,
    operations=NAMES,
    effects=st.lists(st.sampled_from(Effect), max_size=2, unique=True).map(tuple),
    destructive=st.none() | st.booleans(),
    methods=st.lists(st.sampled_from(["GET", "POST"]), max_size=1).map(tuple),
    paths=PATHS,
    max_uses=st.integers(1, 5),
    max_age_s=st.integers(1, 5),
    per=st.sampled_from(["rule", "service", "operation"]),
    expires_s=st.integers(5, 9),
    arming_ms=st.integers(1500, 1505),
    in_doubt=st.sampled_from(["refuse", "ask"]),
    place=st.just(HERE),
)
FACTS = st.builds(
    Facts,
    agent=st.sampled_from(["one", "two"]),
    service=st.sampled_from(["one", "two"]),
    operation=st.sampled_from(["one", "two"]),
    effect=st.sampled_from(Effect),
    destructive=st.booleans(),
    method=st.sampled_from(["GET", "POST"]),
    host=st.just("h"),
    segments=st.sampled_from([(), ("a",), ("A",), ("a", "b"), ("b", "b")]),
)


def _of(rules: list[Rule], facts: Facts, *, is_open: bool) -> Decision:
    return decide(Policy(digest="", rules=tuple(rules)), facts, BASE.services["shop"], is_open=is_open)


def _strictness(decision: Decision) -> int:
    match decision:
        case Deny():
            return STRICTNESS[ApprovalRule.DENY]
        case Ask():
            return STRICTNESS[decision.rule.approval]
        case Allow():
            return STRICTNESS[ApprovalRule.NONE]


@given(st.lists(RULES, max_size=6, unique_by=lambda one: one.id), RULES, FACTS, st.booleans())
def test_adding_a_rule_never_loosens_what_another_rule_decided(
    rules: list[Rule],
    added: Rule,
    facts: Facts,
    is_open: bool,  # noqa: FBT001 - drawn
) -> None:
    before = _of(rules, facts, is_open=is_open)
    after = _of([*rules, replace(added, id="added")], facts, is_open=is_open)

    if before == Deny(code="no_rule", rules=(), place=BASE.services["shop"].place):
        return  # this alone may be opened
    assert _strictness(after) >= _strictness(before)
    if isinstance(before, Ask) and isinstance(after, Ask):
        assert after.rule.arming_ms >= before.rule.arming_ms
        assert (before.rule.in_doubt, after.rule.in_doubt) != ("refuse", "ask")
        if before.rule.approval is after.rule.approval:
            assert after.rule.max_uses <= before.rule.max_uses
            assert after.rule.max_age_s <= before.rule.max_age_s
            assert after.rule.expires_s <= before.rule.expires_s


@given(st.lists(RULES, max_size=6, unique_by=lambda one: one.id), FACTS, st.randoms())
def test_the_order_of_rules_changes_nothing(rules: list[Rule], facts: Facts, random: object) -> None:
    shuffled = list(rules)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis draws a random.Random

    assert _of(rules, facts, is_open=True) == _of(shuffled, facts, is_open=True)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_order_of_files_changes_nothing(order: tuple[int, int, int]) -> None:
    texts = (
        SHOP,
        '[[rules]]\nid = "a"\nservices = ["shop"]\napproval = "session"\n',
        '[[rules]]\nid = "b"\noperations = ["orders.list"]\napproval = "session"\nmax_uses = 3\n',
    )
    frozen = resolve(BASE, HttpAsk(service="shop", operation="orders.list", args={}))
    decision = evaluate(policy_of(*(texts[number] for number in order)), caller_named(), frozen)  # type: ignore[arg-type]  # it resolves

    assert isinstance(decision, Ask)
    assert ("b", 3, ("a", "b")) == (decision.rule.id, decision.rule.max_uses, decision.rules)
