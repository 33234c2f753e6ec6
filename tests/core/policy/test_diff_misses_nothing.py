"""A diff tells every difference of two policies: where patterns meet, in each case, at every time of the week."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract.reasons import ApprovalRule
from broker.core.policy.diff import TURNS_MAX, Compared, compared
from broker.core.policy.evaluate import decide
from broker.core.policy.explain import described
from broker.core.policy.hours import DAY_MINUTES, Moment, window_of
from broker.core.policy.model import Policy, Rule
from broker.core.policy.place import Place
from broker.core.policy.subjects import subjects_of
from tests.fakes.hosts import RULES as HOST_RULES
from tests.fakes.hosts import SERVICES, ssh_policy
from tests.fakes.policies import SHOP, policy_of


def rule(name: str, approval: str, rest: str = "") -> str:
    return f'[[rules]]\nid = "{name}"\napproval = "{approval}"\n{rest}\n'


def told(old: str, new: str) -> list[tuple[str, str, str, str]]:
    changes = compared(policy_of(SHOP, old), policy_of(SHOP, new)).changes
    return [(change.direction, change.subject, change.was, change.becomes) for change in changes]


def test_a_denial_that_goes_is_told_where_another_rule_opens_the_same_path() -> None:
    opens = rule("a", "none", 'operations = ["GET"]\npaths = ["/x/*"]')

    assert [("loosens", "any READ shop GET /x/y", "denied", "no asking")] == told(
        opens + rule("b", "deny", 'operations = ["GET"]\npaths = ["/*/y"]'), opens
    )


def test_a_denial_that_shrinks_to_one_path_is_told() -> None:
    opens = rule("a", "session", 'operations = ["GET"]')

    changes = told(
        opens + rule("b", "deny", 'paths = ["/admin/**"]\noperations = ["GET"]'),
        opens + rule("b", "deny", 'paths = ["/admin"]\noperations = ["GET"]'),
    )
    assert [("loosens", "any READ shop GET /admin/*")] == [change[:2] for change in changes]


def test_a_rule_that_turns_from_asking_to_a_session_is_told_for_the_other_case() -> None:
    opens = rule("a", "none", 'operations = ["GET"]\npaths = ["/a", "/A"]')
    asks = 'operations = ["GET"]\npaths = ["/A"]'

    changes = told(opens + rule("b", "per_call", asks), opens + rule("b", "session", asks))
    assert ("loosens", "any READ shop GET /a", "ask each", "no asking") in changes


def test_options_that_nobody_is_asked_about_are_told() -> None:
    text = '[[rules]]\nid = "z"\nservices = ["web"]\noperations = ["exec"]\napproval = "none"\ncommands = ["id *"]\n'
    old, new = ssh_policy(SERVICES + HOST_RULES + text), ssh_policy(SERVICES + HOST_RULES + text + "options = true\n")
    changes = {change.subject: (change.direction, change.was, change.becomes) for change in compared(old, new).changes}

    assert ("loosens", "denied", "no asking") == changes["any RUN web exec on web-2 id -*"]
    assert "any RUN web exec on web-2 id *" not in changes


def test_what_changes_at_some_times_alone_is_told_with_the_first_of_them() -> None:
    read = 'operations = ["orders.get"]\n'
    day, longer = 'hours = ["mon-fri 09:00-17:00"]\n', 'hours = ["mon-fri 09:00-18:00"]\n'

    assert [("loosens", "any READ shop orders.get, mon 17:00", "denied", "no asking")] == told(
        rule("a", "none", read + day), rule("a", "none", read + longer)
    )
    assert ["loosens"] == [change[0] for change in told(rule("a", "none", read + day), rule("a", "none", read))]
    assert [] == told(rule("a", "none", read + day), rule("b", "none", read + day))


def test_more_times_than_are_compared_are_told_as_a_loosening() -> None:
    begins = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(1, TURNS_MAX + 1)]  # and before any begins
    text = "".join(rule(f"r{at}", "none", f'hours = ["{begin}-24:00"]') for at, begin in enumerate(begins))

    assert [("loosens", "hours", "more than is compared", "look at the files")] == told(text, text)


def test_more_ways_than_are_compared_are_told_as_a_loosening() -> None:
    names = [f"/**/{chr(97 + number)}/**" for number in range(26)]
    wild = rule("a", "deny", f'operations = ["GET"]\npaths = {names}') + rule("b", "none", 'operations = ["GET"]')

    changes = told(wild, wild + rule("c", "session", 'operations = ["GET"]\npaths = ["/zz"]'))
    assert ("loosens", "any READ shop GET", "more than is compared", "look at the files") in changes
    assert [] == told(wild, wild), "the same rules need no comparing"


def test_what_stays_is_counted() -> None:
    base = rule("a", "session", 'effects = ["read"]')
    found = compared(policy_of(SHOP, base), policy_of(SHOP, base + rule("b", "deny", 'operations = ["orders.get"]')))

    assert isinstance(found, Compared)
    assert (1, 8) == (len(found.changes), found.unchanged)


HERE = Place(file="p.toml", line=1)
BASE = policy_of(SHOP)
GET = next(subject for subject in subjects_of(BASE.services["shop"]) if subject.name == "GET")
PATTERN = st.lists(st.sampled_from(["a", "B", "*", "**"]), min_size=1, max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)
DRAWN = st.lists(
    st.builds(
        Rule,
        id=st.just("r"),
        approval=st.sampled_from(ApprovalRule),
        paths=st.lists(PATTERN, max_size=2, unique=True).map(tuple),
        hours=st.sampled_from([(), (window_of("09:00-17:00"),), (window_of("fri 22:00-06:00"),)]),
        place=st.just(HERE),
    ),
    max_size=3,
)
WAY = st.lists(st.sampled_from(["a", "A", "b", "B", "x"]), max_size=4).map(tuple)
MOMENT = st.builds(Moment, weekday=st.integers(0, 6), minute=st.integers(0, DAY_MINUTES - 1))


def of(rules: list[Rule]) -> Policy:
    return replace(BASE, rules=tuple(replace(one, id=f"r{number}") for number, one in enumerate(rules)))


@settings(max_examples=150)
@given(DRAWN, DRAWN, WAY, MOMENT)
def test_no_request_is_decided_otherwise_without_being_told(
    one: list[Rule], other: list[Rule], way: tuple[str, ...], moment: Moment
) -> None:
    old, new = of(one), of(other)

    def gate(policy: Policy) -> object:
        return described(decide(policy.at(moment), GET.facts("any", way), GET.service, is_open=True))["decision"]

    was, becomes = gate(old), gate(new)
    changes = [change for change in compared(old, new).changes if " GET" in change.subject]
    ranks = {approval.value: rank for rank, approval in enumerate(ApprovalRule)}
    if was != becomes:
        wanted = "loosens" if ranks[str(becomes)] < ranks[str(was)] else "tightens"
        assert wanted in {change.direction for change in changes}


def named(**programs: str) -> str:
    return "[agents]\n" + "".join(f'{name} = {{ exe = "{exe}" }}\n' for name, exe in programs.items())


def test_a_name_that_takes_the_programs_of_another_is_told() -> None:
    deny = rule("a", "per_call") + rule("b", "deny", 'agents = ["codex"]')
    before = policy_of(SHOP, named(codex="*/codex") + deny)
    taken = policy_of(SHOP, named(codex="*/codex", alias="/usr/bin/co*") + deny)
    beside = policy_of(SHOP, named(codex="*/codex", alias="/usr/bin/other") + deny)
    behind = policy_of(SHOP, named(codex="*/codex", other="/usr/bin/co*") + deny)

    def told_of(old: Policy, new: Policy) -> list[tuple[str, str, str]]:
        return [
            (one.direction, one.was, one.becomes)
            for one in compared(old, new).changes
            if one.subject.startswith("agent ")
        ]

    assert [("loosens", "no name", "names what was called codex")] == told_of(before, taken)
    assert [("loosens", "named what is now called codex", "no name")] == told_of(taken, before)
    assert [] == told_of(before, beside)
    assert [] == told_of(before, behind), "the first name in order is taken"


def test_programs_that_are_told_apart_by_their_digests_take_nothing_from_each_other() -> None:
    def with_digest(*digests: str) -> Policy:
        names = zip(("alias", "codex"), digests, strict=False)
        lines = "".join(f'{name} = {{ exe = "*/codex", sha256 = "{digest * 64}" }}\n' for name, digest in names)
        return policy_of(SHOP, f"[agents]\n{lines}" + rule("r", "per_call"))

    alone = policy_of(SHOP, f'[agents]\ncodex = {{ exe = "*/codex", sha256 = "{"a" * 64}" }}\n' + rule("r", "per_call"))
    assert [] == [one for one in compared(alone, with_digest("b", "a")).changes if one.subject == "agent alias"]
    assert [one for one in compared(alone, with_digest("a", "a")).changes if one.subject == "agent alias"]
