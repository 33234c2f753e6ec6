"""The trace: every rule with the first matcher that it fails on, and the decision that the pipeline makes."""

from broker.core.frozen import FrozenRequest
from broker.core.policy.explain import described, explain
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
