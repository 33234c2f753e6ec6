"""The trace: every rule with the first matcher that it fails on, and the decision that the pipeline makes."""

from broker.core.frozen import FrozenRequest
from broker.core.policy.explain import described, explain
from broker.core.policy.hours import Moment
from broker.core.policy.model import Allow
from broker.core.resolve import HttpAsk, resolve
from tests.fakes.policies import SHOP, caller_named, policy_of

RULES = """
[[rules]]
id = "z-write"
effects = ["write"]
approval = "per_call"

[[rules]]
id = "a-read"
services = ["shop"]
effects = ["read"]
approval = "session"
max_uses = 9

[[rules]]
id = "nobody"
agents = ["*"]
paths = ["/secret/**"]
approval = "deny"
"""
POLICY = policy_of(SHOP, RULES)


def _rows(told: dict[str, object], name: str) -> list[dict[str, object]]:
    found = told[name]
    assert isinstance(found, list)
    return found


def _explained(**parts: str) -> dict[str, object]:
    frozen = resolve(POLICY, HttpAsk(**parts))  # type: ignore[arg-type]  # parts of a request
    assert isinstance(frozen, FrozenRequest)
    return dict(explain(POLICY, caller_named("codex"), frozen))


def test_every_rule_is_told_with_the_matcher_that_it_fails_on() -> None:
    told = _explained(service="shop", method="GET", path="/orders")

    assert [
        {"rule": "a-read", "approval": "session", "matched": True, "failed": None, "place": "p1.toml:8"},
        {"rule": "nobody", "approval": "deny", "matched": False, "failed": "paths", "place": "p1.toml:15"},
        {"rule": "z-write", "approval": "per_call", "matched": False, "failed": "effects", "place": "p1.toml:3"},
    ] == told["trace"]
    assert ("session", None, ["a-read"], "p1.toml:8") == (told["decision"], told["code"], told["rules"], told["place"])
    assert {"rule": "a-read", "per": "rule", "max_uses": 9, "max_age_s": 3600} == told["grant"]
    assert ("codex", "shop.orders.list", True, "/orders") == (
        told["agent"], told["operation"], told["declared"], told["path"],
    )  # fmt: skip


def test_an_asking_rule_for_each_call_covers_no_grant() -> None:
    told = _explained(service="shop", method="POST", path="/x")

    assert ("per_call", None, "p1.toml:3") == (told["decision"], told["grant"], told["place"])


def test_a_denial_says_where_to_look() -> None:
    told = _explained(service="shop", method="GET", path="/secret/x")

    assert ("deny", "rule_denied", ["nobody"], "p1.toml:15") == (
        told["decision"], told["code"], told["rules"], told["place"],
    )  # fmt: skip


def test_what_is_let_through_has_no_place_and_no_grant() -> None:
    assert {"decision": "none", "code": None, "rules": ["a"], "place": None, "grant": None} == described(
        Allow(rules=("a",))
    )


def test_what_has_to_be_known_first_is_told_with_the_rule_that_wants_it() -> None:
    listed = 'query = ["state", "tag", "page"] }\n'
    shop = SHOP.replace(listed, f'{listed}completeness = {{ items = "json", id = "id" }}\n', 1)
    wants = """
[[rules]]
id = "proven"
operations = ["orders.cancel"]
approval = "per_call"
evidence = { from = "orders.list", claim = "present", covers = "{order_id}", id = "id", otherwise = "ask" }
precheck = { operation = "orders.get", args = { order_id = "{order_id}" }, expect = "json.open==`true`" }
"""
    policy = policy_of(shop, wants)
    frozen = resolve(
        policy,
        HttpAsk(service="shop", operation="orders.cancel", args={"shop": "a", "branch": "b", "order_id": "7"}),
    )
    assert isinstance(frozen, FrozenRequest)
    told = dict[str, object](explain(policy, caller_named(), frozen))

    assert {"arming_ms": 1500, "expires_s": 120, "in_doubt": "refuse"} == told["card"]
    evidence, precheck = _rows(told, "needs")
    assert {
        "rule": "proven", "kind": "evidence", "operation": "orders.list", "claim": "present", "covers": "{order_id}",
        "max_age_s": 900, "otherwise": "ask", "expect": None,
    } == evidence  # fmt: skip
    assert ("precheck", "orders.get", "json.open==`true`") == tuple(
        precheck[name] for name in ("kind", "operation", "expect")
    )
    denied = policy_of(shop, wants, '[[rules]]\nid = "no"\napproval = "deny"\n')
    assert ([], None) == tuple(explain(denied, caller_named("codex"), frozen)[name] for name in ("needs", "card"))


def test_a_rule_outside_of_its_hours_is_told_to_fail_on_them() -> None:
    policy = policy_of(SHOP, '[[rules]]\nid = "day"\napproval = "none"\nhours = ["09:00-17:00"]\n')
    frozen = resolve(policy, HttpAsk(service="shop", operation="orders.list", args={}))
    assert isinstance(frozen, FrozenRequest)
    by_night, by_day = (
        dict[str, object](explain(policy.at(Moment(weekday=0, minute=minute)), caller_named("codex"), frozen))
        for minute in (0, 600)
    )

    assert ("deny", "hours") == (by_night["decision"], _rows(by_night, "trace")[0]["failed"])
    assert ("none", None) == (by_day["decision"], _rows(by_day, "trace")[0]["failed"])
