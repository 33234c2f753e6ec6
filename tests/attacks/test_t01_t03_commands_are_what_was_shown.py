"""T01, T02, T03 over SSH: the command that runs is the one that was shown, and a yes covers nothing else."""

from dataclasses import replace

import pytest

from broker.core.approval import Happening
from broker.core.card import card_digest
from broker.core.secret import Secret
from broker.core.ssh.frozen import Exec, FrozenSsh
from broker.core.ssh.resolve import SshAsk
from broker.core.ssh.secrets import SshPasswordSecret
from broker.core.ssh.trust import HostKey, KeyState
from tests.fakes import hosts
from tests.fakes.flow import Flow, as_json, gist
from tests.fakes.hosts import command, ended, operation, put, words

BOUND = ("ssh://deploy@web-1.example:22", "ssh://root@10.0.4.14:2222", "ssh://deploy@bastion.example:22")
TOUCH = command("touch x")
ASKED = [operation("restart", unit="php"), TOUCH, words("touch", "a b"), put("/etc/nginx/a", b"\xff")]


@pytest.fixture
def flow() -> Flow:
    made = Flow()
    made.policies.policy = hosts.POLICY
    made.vault.put("deploy", "", *BOUND, secret=SshPasswordSecret(password=Secret("canary-word")))
    made.executor.key = HostKey(state=KeyState.KNOWN_HOSTS)
    made.executor.answers.extend(ended(0) for _ in range(4))
    return made


@pytest.mark.parametrize("ask", ASKED)
async def test_the_executor_gets_the_very_object_that_the_card_was_drawn_of(flow: Flow, ask: SshAsk) -> None:
    async with flow.asking(ask) as (card, _):
        flow.desk.settle(card, Happening.APPROVED)
    permit = flow.executor.permits[0]
    by_name = {event.name.value: event.fields for event in flow.audit.trail(flow.last)}

    assert permit.frozen is card.question.frozen
    assert card_digest(card.drawn) == by_name["approval.requested"]["card"]
    assert {as_json(card.drawn)["exact"]["request_digest"]} == {
        permit.frozen.digest,
        by_name["policy.decided"]["digest"],
        by_name["dispatch.started"]["digest"],
        flow.ledger.attempts[0].request_digest,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("action", Exec(command=b"rm -rf /")),
        ("action", Exec(command=b"touch x", stdin=b"more")),
        ("action", Exec(command=b"touch x", pty=True)),
        ("host", hosts.frozen(command("touch x", host="web/web-2")).host),
        ("destructive", True),
    ],
)
async def test_what_was_altered_after_it_was_shown_is_not_run(flow: Flow, name: str, value: object) -> None:
    async with flow.asking(TOUCH) as (card, answer):
        object.__setattr__(card.question.frozen, name, value)  # as only a fault of ours could
        flow.desk.settle(card, Happening.APPROVED)

    assert ("approval_timeout", "approval_void") == gist(answer.result())[:2]
    assert [] == flow.executor.permits


def test_every_byte_that_travels_and_whatever_says_where_is_in_the_digest() -> None:
    made = hosts.frozen(TOUCH)
    assert isinstance(made.action, Exec)
    host = made.host
    altered: list[FrozenSsh] = [
        replace(made, action=replace(made.action, command=b"touch x ")),
        replace(made, action=replace(made.action, stdin=b"\0")),
        replace(made, action=replace(made.action, pty=True)),
        replace(made, action=replace(made.action, detach=True)),
        replace(made, host=replace(host, user="root")),
        replace(made, host=replace(host, port=23)),
        replace(made, host=replace(host, address="web-2.example")),
        replace(made, host=replace(host, jump=(host,))),
        hosts.frozen(put("/a")),
        hosts.frozen(put("/a", b"y\n")),
        hosts.frozen(put("/a", mode=0o600)),
        hosts.frozen(put("/b")),
    ]

    assert len(altered) + 1 == len({one.digest for one in (made, *altered)})


@pytest.mark.parametrize(
    "other",
    [
        command("touch x "),
        command("touch  x"),
        command("touch x\n"),
        command("touch 'x'"),
        command("touch x y"),
        command("touch y"),
        command("touch x", stdin=b"in"),
        words("touch", "X"),
    ],
)
async def test_a_yes_for_the_session_covers_no_other_command(flow: Flow, other: SshAsk) -> None:
    """T03: the whole of it, on that host as that user; how it is spelled counts."""
    await flow.ask_and_answer(TOUCH, scope="session")
    assert "success" == (await flow.ask(TOUCH))["category"]
    before = len(flow.executor.permits)
    envelope = (
        await flow.ask(replace(other)) if _is_denied(other) else await flow.ask_and_answer(other, Happening.DENIED)
    )

    assert "success" != envelope["category"]
    assert before == len(flow.executor.permits)


def _is_denied(ask: SshAsk) -> bool:
    """Whether no rule names it, so that nobody is asked at all."""
    return ask in {command("touch x\n"), command("touch x y")}


async def test_a_yes_for_one_host_is_none_for_another(flow: Flow) -> None:
    await flow.ask_and_answer(command("touch x"), scope="session")
    flow.executor.key = HostKey(state=KeyState.ACCEPTED)
    other = await flow.ask(command("touch x", host="web/web-2"))

    assert "policy_denied" == other["category"], "another user there, whom the rule does not name"
    assert 1 == len(flow.executor.permits)
