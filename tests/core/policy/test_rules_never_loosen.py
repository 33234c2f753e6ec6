"""Over every matcher, at every time: the strictest rule wins, one more never loosens, and no order matters."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.policy.declarations import Claim, EvidenceNeed, Precheck
from broker.core.policy.evaluate import STRICTNESS, decide
from broker.core.policy.explain import described
from broker.core.policy.hours import DAY_MINUTES, Moment, is_within, window_of
from broker.core.policy.match import Facts, command_of, first_mismatch
from broker.core.policy.model import Ask, Decision, Deny, Limits, Policy, Rule
from broker.core.policy.place import Place
from broker.core.policy.requirements import wanted
from broker.policyfiles.files import PolicyFile
from broker.policyfiles.load import load_policy
from tests.fakes.policies import SHOP, policy_of

SERVICE = policy_of(SHOP).services["shop"]
HERE = Place(file="p.toml", line=1)
NARROWER = {"operation": 0, "service": 1, "rule": 2}


def some(*members: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(members), max_size=2, unique=True).map(tuple)


NEEDS = st.builds(
    EvidenceNeed, operation=st.just("l"), claim=st.sampled_from(Claim), covers=st.just("{a}"), id=st.just("i")
)
RULES = st.builds(
    Rule,
    id=st.just("r"),
    approval=st.sampled_from(ApprovalRule),
    agents=some("one", "o*", "unidentified"),
    services=some("shop", "s*", "web"),
    operations=some("exec", "e*", "shop.exec"),
    effects=st.lists(st.sampled_from(Effect), max_size=2, unique=True).map(tuple),
    destructive=st.none() | st.booleans(),
    methods=some("GET", "POST"),
    paths=some("/a", "/A/*", "/**", "/*/b"),
    hosts=some("web-1", "web-*", "10.0.0.1"),
    users=some("root", "*"),
    commands=some("rm *", "rm -rf *", "rm **", "id"),
    shell=st.booleans(),
    input=st.booleans(),
    options=st.booleans(),
    hours=st.lists(
        st.sampled_from([window_of("09:00-17:00"), window_of("fri 22:00-06:00"), window_of("mon-fri 00:00-24:00")]),
        max_size=2,
        unique=True,
    ).map(tuple),
    max_uses=st.integers(1, 5),
    max_age_s=st.integers(1, 5),
    per=st.sampled_from(tuple(NARROWER)),
    expires_s=st.integers(5, 9),
    arming_ms=st.integers(1500, 1505),
    in_doubt=st.sampled_from(["refuse", "ask"]),
    evidence=st.none() | NEEDS,
    precheck=st.none() | st.builds(Precheck, operation=st.just("g"), expect=st.just("json.a==`1`")),
    place=st.just(HERE),
)
COMMANDS = st.sampled_from([None, b"rm -rf", b"rm a", b"rm -rf /", b"id", b"rm a; id"])
FACTS = st.builds(
    lambda command, segments, **parts: Facts(
        command=None if command is None else command_of(command),
        segments=segments if command is None else None,
        **parts,
    ),
    command=COMMANDS,
    segments=st.sampled_from([(), ("a",), ("A",), ("a", "b"), ("c", "b")]),
    agent=st.sampled_from(["one", "unidentified"]),
    service=st.sampled_from(["shop", "web"]),
    operation=st.sampled_from(["exec", "list"]),
    effect=st.sampled_from(Effect),
    destructive=st.booleans(),
    method=st.sampled_from(["", "GET", "POST"]),
    host=st.sampled_from(["web-1", "other"]),
    address=st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    user=st.sampled_from(["root", "ann"]),
    is_fed=st.booleans(),
)
MOMENTS = st.builds(Moment, weekday=st.integers(0, 6), minute=st.integers(0, DAY_MINUTES - 1))
MANY = st.lists(RULES, max_size=5)
LIMITS = st.builds(Limits, max_uses=st.integers(1, 4), max_age_s=st.integers(1, 4))


def of(rules: list[Rule], limits: Limits | None = None) -> Policy:
    named = tuple(replace(rule, id=f"r{number}") for number, rule in enumerate(rules))
    return Policy(digest="", rules=named, limits=limits or Limits())


def decided(policy: Policy, facts: Facts, moment: Moment) -> Decision:
    return decide(policy.at(moment), facts, SERVICE, is_open=True)


def strictness(decision: Decision) -> int:
    return STRICTNESS[ApprovalRule(str(described(decision)["decision"]))]


@given(MANY, FACTS, MOMENTS)
def test_the_strictest_rule_that_matches_wins(rules: list[Rule], facts: Facts, moment: Moment) -> None:
    matching = [rule for rule in rules if first_mismatch(rule, facts) is None and is_within(rule.hours, moment)]
    decision = decided(of(rules), facts, moment)

    if not matching:
        assert isinstance(decision, Deny)
        assert "no_rule" == decision.code
    else:
        assert max(STRICTNESS[rule.approval] for rule in matching) == strictness(decision)


@settings(max_examples=200)
@given(MANY, RULES, FACTS, MOMENTS, LIMITS)
def test_one_more_rule_never_loosens_what_was_decided(
    rules: list[Rule], added: Rule, facts: Facts, moment: Moment, limits: Limits
) -> None:
    before, after = of(rules, limits), of([*rules, added], limits)
    was, becomes = decided(before, facts, moment), decided(after, facts, moment)
    assert len(wanted(after.at(moment), facts).evidence) >= len(wanted(before.at(moment), facts).evidence)
    assert len(wanted(after.at(moment), facts).prechecks) >= len(wanted(before.at(moment), facts).prechecks)
    if isinstance(was, Deny) and was.code == "no_rule":
        return  # this alone may be opened

    assert strictness(becomes) >= strictness(was)
    if isinstance(was, Ask) and isinstance(becomes, Ask):
        assert becomes.rule.arming_ms >= was.rule.arming_ms
        assert (was.rule.in_doubt, becomes.rule.in_doubt) != ("refuse", "ask")
        if was.rule.approval is becomes.rule.approval:
            assert becomes.rule.max_uses <= was.rule.max_uses <= limits.max_uses
            assert becomes.rule.max_age_s <= was.rule.max_age_s <= limits.max_age_s
            assert becomes.rule.expires_s <= was.rule.expires_s
            assert NARROWER[becomes.rule.per] <= NARROWER[was.rule.per]


@given(MANY, FACTS, MOMENTS, st.randoms(use_true_random=False))
def test_no_order_of_rules_matters(rules: list[Rule], facts: Facts, moment: Moment, random: Random) -> None:
    policy = of(rules)
    shuffled = list(policy.rules)
    random.shuffle(shuffled)
    other = replace(policy, rules=tuple(shuffled))

    assert decided(policy, facts, moment) == decided(other, facts, moment)
    assert wanted(policy.at(moment), facts) == wanted(other.at(moment), facts)


TEXTS = (
    '[[rules]]\nid = "a"\nservices = ["shop"]\napproval = "none"\n',
    '[[rules]]\nid = "b"\neffects = ["write"]\napproval = "per_call"\n',
    '[[rules]]\nid = "c"\noperations = ["orders.get"]\napproval = "session"\nmax_uses = 3\n',
    '[[rules]]\nid = "d"\npaths = ["/orders/7"]\napproval = "deny"\nhours = ["09:00-17:00"]\n',
)
PATHS = st.sampled_from([("orders",), ("orders", "7"), ("files", "x")])


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2), min_size=4, max_size=4), st.randoms(use_true_random=False), PATHS, MOMENTS)
def test_neither_the_order_of_files_nor_which_rule_stands_in_which_matters(
    homes: list[int], random: Random, segments: tuple[str, ...], moment: Moment
) -> None:
    facts = Facts(
        agent="unidentified",
        service="shop",
        operation="orders.get",
        effect=Effect.READ,
        destructive=False,
        method="GET",
        host="api.shop.example",
        segments=segments,
    )
    spread = ["version = 1\n", SHOP, "version = 1\n"]
    for text, home in zip(TEXTS, homes, strict=True):
        spread[home] += text
    files = [PolicyFile(name=f"p{number}.toml", raw=text.encode()) for number, text in enumerate(spread)]
    shuffled = list(files)
    random.shuffle(shuffled)
    policy, other = load_policy(files), load_policy(shuffled)

    assert policy.digest == other.digest
    assert decided(policy, facts, moment) == decided(other, facts, moment)
    together = load_policy([PolicyFile(name="all.toml", raw="".join([SHOP, *TEXTS]).encode())])
    assert described(decided(together, facts, moment))["rules"] == described(decided(policy, facts, moment))["rules"]
