"""T03: what is let through by its words runs by its words alone.

A pager in a terminal takes `!anything`, a client takes statements from its input: either makes a harmless command any
command. So input and a terminal have to be allowed by name, or are shown to whoever is asked.
"""

from dataclasses import replace
from typing import Any

import pytest

from broker.core.asks import resolved
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Allow, Ask, Decision, Deny, Policy
from broker.core.resolve import Invalid
from broker.core.ssh.frozen import Exec
from broker.core.ssh.resolve import SshAsk
from tests.fakes import market
from tests.fakes.hosts import POLICY, RULES, SERVICES, command, frozen, operation, ssh_policy, words

OPEN = 'id = "pager"\nservices = ["web"]\noperations = ["exec"]\ncommands = ["less *"]\napproval = "none"\n'
PAGER = words("less", "/etc/services")
TOLD = b"!touch pwned\n"


def decided(ask: SshAsk, policy: Policy) -> Decision:
    return evaluate(policy, market.agent(), frozen(ask, policy))


def policy_with(*, approval: str = "none", more: str = "") -> Policy:
    rule = OPEN.replace('"none"', f'"{approval}"') + more
    return ssh_policy(f"{SERVICES}{RULES}\n[[rules]]\n{rule}")


@pytest.mark.parametrize(
    "ask",
    [
        operation("status", unit="x"),
        command("systemctl status x"),
        words("systemctl", "status", "x"),
        operation("restart", unit="x"),
    ],
)
@pytest.mark.parametrize("more", [{"pty": True}, {"stdin": TOLD}, {"pty": True, "stdin": TOLD}])
def test_a_declared_command_takes_no_input_that_is_not_declared(ask: SshAsk, more: dict[str, Any]) -> None:
    found = resolved(POLICY, replace(ask, **more))

    assert not isinstance(resolved(POLICY, ask), Invalid)
    assert isinstance(found, Invalid)
    assert ("schema", True) == (found.code, "no input and no terminal" in found.message)


def test_one_that_declares_it_takes_it() -> None:
    policy = ssh_policy(SERVICES.replace('effect = "read"', 'effect = "read"\ninput = true') + RULES)
    action = frozen(replace(operation("status", unit="x"), stdin=b"q", pty=True), policy).action

    assert isinstance(action, Exec)
    assert (b"q", True, ("systemctl", "status", "x")) == (action.stdin, action.pty, action.argv)


@pytest.mark.parametrize("more", [{"pty": True}, {"stdin": TOLD}])
def test_a_rule_that_asks_nobody_covers_commands_without_input(more: dict[str, Any]) -> None:
    fed = replace(PAGER, **more)

    assert isinstance(decided(PAGER, policy_with()), Allow)
    assert isinstance(decided(fed, policy_with()), Deny)
    assert isinstance(decided(fed, policy_with(more="input = true\n")), Allow)
    assert isinstance(decided(fed, policy_with(approval="per_call")), Ask)


def test_what_is_denied_is_denied_with_any_input() -> None:
    policy = ssh_policy(SERVICES + RULES)
    found = decided(replace(words("touch", "/forbidden"), stdin=TOLD), policy)

    assert isinstance(found, Deny)
    assert ("never",) == found.rules
