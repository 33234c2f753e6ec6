"""The listing for agents: what some rule could open, with the strictest gate, and no name of a rule."""

import json

import pytest

from broker.core.policy.overview import could_open
from tests.fakes.policies import SHOP, policy_of

AGENTS = '[agents]\ncodex = { exe = "/usr/bin/codex" }\n'


def listed(rules: str, agent: str = "codex") -> dict[str, str]:
    return {opening.operation: opening.gate.value for opening in could_open(policy_of(SHOP, AGENTS + rules), agent)}


def rule(name: str, approval: str, rest: str = "") -> str:
    return f'[[rules]]\nid = "{name}"\napproval = "{approval}"\n{rest}\n'


def test_what_no_rule_opens_is_not_listed() -> None:
    assert {} == listed("")
    assert {"orders.create": "per_call"} == listed(rule("a", "per_call", 'operations = ["orders.create"]'))


def test_declared_operations_and_ad_hoc_methods_are_listed() -> None:
    names = listed(rule("a", "none"))

    assert list(names) == [
        "files.put", "jobs.run", "orders.cancel", "orders.create", "orders.get", "orders.list", "orders.newest",
        "GET", "POST",
    ]  # fmt: skip


def test_a_rule_for_another_agent_opens_nothing() -> None:
    assert {} == listed(rule("a", "none", 'agents = ["codex"]'), agent="unidentified")


def test_the_strictest_gate_that_a_path_may_meet_is_told() -> None:
    some = rule("a", "none", 'effects = ["read"]') + rule("b", "per_call", 'paths = ["/orders/7"]')

    assert {"per_call", "none"} == {listed(some)["orders.get"], listed(some)["orders.list"]}


def test_what_is_denied_on_some_paths_alone_is_listed_with_the_gate_of_the_others() -> None:
    some = (
        rule("a", "session") + rule("b", "deny", 'paths = ["/orders/7"]') + rule("c", "deny", 'operations = ["jobs.*"]')
    )

    assert "session" == listed(some)["orders.get"]
    assert "jobs.run" not in listed(some)


def test_what_a_rule_opens_on_some_paths_alone_is_listed() -> None:
    assert {"orders.get": "none", "GET": "none", "POST": "none"} == listed(rule("a", "none", 'paths = ["/orders/7"]'))


def test_an_entry_tells_what_to_send_and_no_policy() -> None:
    complete = SHOP.replace(
        'query = ["state", "tag", "page"] }\neffect = "read"',
        'query = ["state", "tag", "page"] }\neffect = "read"\n'
        'completeness = { complete_when = "json.end==`true`", examples = '
        "{ match = [{ status = 200, json = { end = true } }], no_match = [{ status = 200 }] } }",
    )
    entries = {
        opening.operation: opening.to_json()
        for opening in could_open(policy_of(complete, rule("canary-rule", "session")), "codex")
    }

    assert {
        "service": "shop",
        "operation": "orders.create",
        "effect": "write",
        "destructive": False,
        "gate": "session",
        "method": "POST",
        "path": "/shops/{shop}/{branch}/orders",
        "parameters": {
            "path": ["shop", "branch"],
            "query": [],
            "body": ["name", "items", "note"],
            "required": ["shop", "branch", "name"],
        },
        "completeness_declared": False,
        "mcp": None,
    } == entries["orders.create"]
    assert entries["orders.list"]["completeness_declared"]
    assert {"path": ["order_id"], "query": [], "body": None, "required": ["order_id"]} == entries["orders.get"][
        "parameters"
    ]
    assert "'body': 'object'" in str(entries["files.put"]["parameters"])
    assert (None, "/**", "write") == (
        entries["POST"]["parameters"], entries["POST"]["path"], entries["POST"]["effect"],
    )  # fmt: skip
    assert "canary" not in json.dumps(list(entries.values()))


def test_the_brokers_own_key_is_no_parameter_of_an_agents() -> None:
    text = """
[[rules]]
id = "all"
services = ["s"]
approval = "none"

[services.s]
kind = "http"
base_url = "https://s.example"

[services.s.operations.run]
effect = "write"
request = { method = "POST", path = "/", query = ["token", "n"], body = ["m"] }
idempotency = { kind = "key", param = "token", window_s = 60 }

[services.s.operations.pay]
effect = "write"
request = { method = "POST", path = "/pay", body = ["key", "m"] }
idempotency = { kind = "key", param = "key", window_s = 60 }
"""
    found = {one.operation: one.to_json()["parameters"] for one in could_open(policy_of(text), "any")}

    assert {"path": [], "query": ["n"], "body": ["m"], "required": []} == found["run"]
    assert {"path": [], "query": [], "body": ["m"], "required": []} == found["pay"]


@pytest.mark.parametrize(
    ("told", "tool"),
    [
        ("", None),
        ("mcp = { expose = false }", None),
        ("mcp = {}", {"name": None, "description": ""}),
        (
            'mcp = { name = "order_get", description = "One order." }',
            {"name": "order_get", "description": "One order."},
        ),
    ],
)
def test_an_operation_shows_itself_as_a_tool_in_its_own_words(told: str, tool: object) -> None:
    text = f"""
[[rules]]
id = "all"
services = ["s"]
approval = "none"

[services.s]
kind = "http"
base_url = "https://s.example"

[services.s.operations.get]
effect = "read"
request = {{ method = "GET", path = "/" }}
{told}
"""
    (found,) = could_open(policy_of(text), "any")

    assert tool == found.to_json()["mcp"]
