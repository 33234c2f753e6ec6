"""What an edit changes, in decisions: nothing that it loosens is missed, and equal policies differ in nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.policy.changes import Change
from broker.core.policy.diff import compared
from broker.core.policy.model import Policy
from tests.fakes.policies import SHOP, policy_of

AGENTS = '[agents]\nclaude-code = { exe = "/opt/claude" }\ncodex = { exe = "/opt/codex" }\n'


def rule(name: str, approval: str, rest: str = "") -> str:
    return f'[[rules]]\nid = "{name}"\napproval = "{approval}"\n{rest}\n'


def policy(*parts: str) -> Policy:
    return policy_of(SHOP, AGENTS + "".join(parts))


def told(old: Policy | None, new: Policy) -> list[tuple[str, str, str, str]]:
    return [(change.direction, change.subject, change.was, change.becomes) for change in compared(old, new).changes]


def test_equal_policies_differ_in_nothing() -> None:
    assert [] == told(policy(rule("a", "session")), policy("\n\n", rule("b", "session")))


def test_a_first_policy_opens_what_it_opens_and_reaches_what_it_reaches() -> None:
    assert [
        ("loosens", "any WRITE shop orders.create", "denied", "ask each"),
        ("new_reach", "service shop", "no credential", "credential shop"),
        ("new_reach", "service shop", "no base URL", "base URL https://api.shop.example/v1"),
    ] == told(None, policy(rule("a", "per_call", 'operations = ["orders.create"]')))


def test_a_loosened_rule_is_told_before_a_tightened_one_with_its_place() -> None:
    old = policy(
        rule("a", "per_call", 'operations = ["orders.get"]'), rule("b", "session", 'operations = ["jobs.run"]')
    )
    new = policy(rule("a", "none", 'operations = ["orders.get"]'), rule("b", "deny", 'operations = ["jobs.run"]'))

    changes = compared(old, new).changes

    assert [
        ("loosens", "any READ shop orders.get", "ask each", "no asking"),
        ("tightens", "any RUN shop jobs.run", "session 200, 3600 s, per rule", "denied"),
    ] == told(old, new)
    assert ["p1.toml:5", "p1.toml:9"] == [str(change.place) for change in changes]
    assert {
        "direction": "loosens",
        "subject": "any READ shop orders.get",
        "was": "ask each",
        "becomes": "no asking",
        "place": "p1.toml:5",
        "rule": "a",
        "was_place": "p1.toml:5",
    } == changes[0].to_json()


LISTED = 'query = ["state", "tag", "page"] }\n'
COUNTED = SHOP.replace(LISTED, f'{LISTED}completeness = {{ items = "json", id = "id" }}\n', 1)
CANCEL = 'operations = ["orders.cancel"]\n'
PROVEN = 'evidence = { from = "orders.list", claim = "present", covers = "{order_id}", id = "id" }\n'
LOOKED = 'precheck = { operation = "orders.get", args = { order_id = "{order_id}" }, expect = "json.open==`true`" }\n'


@pytest.mark.parametrize("need", [PROVEN, LOOKED])
def test_a_need_that_is_dropped_or_changed_is_a_loosening_and_a_new_one_a_tightening(need: str) -> None:
    bare = policy_of(COUNTED, rule("a", "per_call", CANCEL))
    held = policy_of(COUNTED, rule("a", "per_call", CANCEL + need))
    other = need.replace('"id"', '"id", max_age_s = 60').replace("true", "false")
    changed = policy_of(COUNTED, rule("a", "per_call", CANCEL + other))
    subject = "any DELETE shop orders.cancel"

    assert [("loosens", subject, "ask each, with proof", "ask each")] == told(held, bare)
    assert [("tightens", subject, "ask each", "ask each, with proof")] == told(bare, held)
    assert ["loosens"] == [change[0] for change in told(held, changed)]


def test_asking_more_often_does_not_make_up_for_proof_that_is_dropped() -> None:
    held = policy_of(COUNTED, rule("a", "none", CANCEL + PROVEN))
    bare = policy_of(COUNTED, rule("a", "per_call", CANCEL))
    shut = policy_of(COUNTED, rule("a", "deny", CANCEL))

    assert ["loosens"] == [change[0] for change in told(held, bare)]
    assert ["tightens"] == [change[0] for change in told(held, shut)]
    assert [("tightens", "any DELETE shop orders.cancel", "no asking, with proof", "denied")] == told(held, shut)


def test_a_change_for_one_agent_names_it() -> None:
    old = policy(rule("a", "per_call", 'operations = ["orders.cancel"]'))
    new = policy(
        rule("a", "per_call", 'operations = ["orders.cancel"]'),
        rule("b", "deny", 'agents = ["codex"]\noperations = ["orders.cancel"]'),
    )

    assert [("tightens", "codex DELETE shop orders.cancel", "ask each", "denied")] == told(old, new)


def test_a_change_on_some_paths_names_one_of_them() -> None:
    base = rule("a", "per_call", 'operations = ["orders.get"]')
    old = policy(base, rule("b", "deny", 'paths = ["/orders/7"]'))

    assert [("loosens", "any READ shop orders.get /orders/7", "denied", "ask each")] == [
        change for change in told(old, policy(base)) if "orders.get" in change[1]
    ]
    opened = policy(base, rule("b", "deny", 'paths = ["/orders/7"]'), rule("c", "session", 'paths = ["/x/*"]'))
    assert ("loosens", "any READ shop GET /x/*", "denied", "session 200, 3600 s, per rule") in told(old, opened)


@pytest.mark.parametrize(
    ("was", "becomes", "direction"),
    [
        ("max_uses = 5", "max_uses = 6", "loosens"),
        ("max_uses = 6", "max_uses = 5", "tightens"),
        ("max_age_s = 5", "max_age_s = 6", "loosens"),
        ("arming_s = 3", "arming_s = 2", "loosens"),
        ("expires_s = 60", "expires_s = 61", "loosens"),
        ('in_doubt = "refuse"', 'in_doubt = "ask"', "loosens"),
        ('per = "operation"', 'per = "service"', "loosens"),
        ('per = "rule"', 'per = "service"', "tightens"),
        ("max_uses = 9\nmax_age_s = 5", "max_uses = 5\nmax_age_s = 9", "loosens"),
    ],
)
def test_grant_and_card_are_compared_too(was: str, becomes: str, direction: str) -> None:
    operation = 'operations = ["orders.get"]\n'

    changes = told(policy(rule("a", "session", operation + was)), policy(rule("a", "session", operation + becomes)))

    assert [direction] == [change[0] for change in changes]


def test_an_agent_that_is_no_longer_named_is_met_as_unidentified() -> None:
    open_to_codex = rule("a", "session", 'agents = ["co*"]\noperations = ["orders.get"]')
    old, new = policy(open_to_codex), policy_of(SHOP, open_to_codex)

    assert [("tightens", "codex READ shop orders.get", "session 200, 3600 s, per rule", "denied")] == told(old, new)


def test_what_cannot_be_ordered_is_called_a_loosening() -> None:
    everything = rule("a", "per_call")
    old = policy(everything)

    def changed(before: str, after: str) -> list[tuple[str, str, str, str]]:
        return told(old, policy_of(SHOP.replace(before, after), AGENTS + everything))

    assert [("loosens", "operation shop orders.get")] == [
        change[:2] for change in changed('"/orders/{order_id}"', '"/o/{order_id}"')
    ][:1]
    assert [("loosens", "service shop")] == [change[:2] for change in changed('x-version = "7"', 'x-version = "8"')]
    assert [
        ("new_reach", "service shop", "base URL https://api.shop.example/v1", "base URL https://evil.example/v1")
    ] == changed("api.shop.example", "evil.example")
    assert [("new_reach", "service shop", "credential shop", "credential root")] == changed(
        'credential = "shop"', 'credential = "root"'
    )
    renamed = policy_of(SHOP, AGENTS.replace("/opt/codex", "/home/codex") + everything)
    assert [("loosens", "agent codex")] == [change[:2] for change in told(old, renamed)]


def test_an_operation_that_turns_into_a_read_is_judged_by_what_it_was() -> None:
    reads = rule("a", "none", 'effects = ["read"]')
    turned = SHOP.replace(
        'path = "/jobs/", query = ["dry"] }\neffect = "exec"', 'path = "/jobs/", query = ["dry"] }\neffect = "read"'
    )

    assert ("loosens", "any READ shop jobs.run", "denied", "no asking") in told(
        policy(reads), policy_of(turned, AGENTS + reads)
    )


def test_limits_are_compared() -> None:
    old = policy("[limits]\nmax_uses = 10\ndenial_memory_s = 60\nbody_bytes = 2048\n")
    new = policy("[limits]\nmax_uses = 11\ndenial_memory_s = 50\nbody_bytes = 1024\n")

    assert [
        ("loosens", "limit denial_memory_s", "60", "50"),
        ("loosens", "limit max_uses", "10", "11"),
        ("tightens", "limit body_bytes", "2048", "1024"),
    ] == told(old, new)
    places = [(str(change.place), str(change.was_place)) for change in compared(old, new).changes]
    assert [("p1.toml:7", "p1.toml:7"), ("p1.toml:6", "p1.toml:6"), ("p1.toml:8", "p1.toml:8")] == places
    (gone,) = compared(policy("[limits]\nmax_uses = 10\n"), policy()).changes
    assert ("p1.toml:6", True) == (str(gone.place), gone.is_gone)


def test_a_service_that_is_gone_is_denied() -> None:
    old = policy(rule("a", "none"))
    new = policy_of('[[rules]]\nid = "a"\napproval = "none"', AGENTS)

    assert {"tightens"} == {change.direction for change in compared(old, new).changes}
    assert None is Change(direction="loosens", subject="", was="", becomes="").to_json()["place"]


SOME_RULES = st.lists(
    st.tuples(
        st.sampled_from(["none", "session", "per_call", "deny"]),
        st.sampled_from(
            ["", 'effects = ["read"]', 'operations = ["orders.get"]', 'paths = ["/orders/*"]', 'agents = ["codex"]']
        ),
    ),
    max_size=3,
)


def _texts(rules: list[tuple[str, str]]) -> list[str]:
    return [rule(f"r{number}", approval, rest) for number, (approval, rest) in enumerate(rules)]


@given(SOME_RULES, SOME_RULES)
def test_the_way_back_turns_every_loosening_of_decisions_round(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    first, second = policy(*_texts(one)), policy(*_texts(other))
    forth = {(change.subject, change.was, change.becomes) for change in compared(first, second).changes}
    back = {(change.subject, change.becomes, change.was) for change in compared(second, first).changes}

    assert {entry[1:] for entry in forth} == {entry[1:] for entry in back}
