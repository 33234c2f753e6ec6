"""The card of a gap in a real terminal at 80x24: what it shows, and what c, l, a and d do."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.contract.kdf import KdfParams
from tests.live import accounts_upstream
from tests.live.accounts_upstream import POLICY, Accounts
from tests.live.house import Agent, House
from tests.live.terminal import Terminal

pytestmark = pytest.mark.live

PASSPHRASE = "a passphrase typed by a human"
DELETION = {
    "service": "cloud",
    "operation": "accounts.delete",
    "args": {"project": "acme-prod", "names": ["ci-legacy-2", "ci-legacy-5", "svc-build-7"]},
    "reason": "clean up unused service accounts",
}


@pytest.fixture
def accounts() -> Iterator[Accounts]:
    with accounts_upstream.serving() as serving:
        yield serving


@pytest.fixture
def house(tmp_path: Path, accounts: Accounts) -> Iterator[House]:
    kdf = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=1, salt=os.urandom(16))  # what the interface insists on
    with House(tmp_path / "h", passphrase=PASSPHRASE, kdf=kdf) as built:
        built.init().open()
        built.human.add_bearer("cloud-ops", "canary-token-of-the-terminal", accounts.origin)
        built.human.write_policy("cloud.toml", POLICY.format(origin=accounts.origin))
        built.human.trust()
        yield built


@pytest.fixture
def terminal(house: House) -> Iterator[Terminal]:
    """The interface at 80x24, with the passphrase typed in by hand."""
    command = [sys.executable, "-I", "-m", "ui"]
    with Terminal("gap", command, environ=dict(house.environ), size=(80, 24)) as window:
        window.unlock_approver(PASSPHRASE)
        yield window


@pytest.fixture
def agent(house: House) -> Iterator[Agent]:
    with house.agent() as asking:
        cut = {
            "service": "cloud",
            "operation": "accounts.list",
            "args": {"project": "acme-prod"},
            "budget": {"pages": 1},
        }
        envelope = asking.ask("POST", "/v1/collect", cut)["value"]
        assert not envelope["evidence"]["complete"]
        yield asking


def asked(agent: Agent, terminal: Terminal) -> int:
    """The deletion, once its card is armed and was seen to its end."""
    number = agent.begin_act(**DELETION)
    terminal.until("DELETE", "A yes covers", "accounts.delete")
    for _ in range(3):
        terminal.keys("PageDown")
        time.sleep(0.3)
    terminal.until("ready")
    return number


def end(agent: Agent, number: int) -> tuple[str, str]:
    told: dict[str, Any] = agent.end_act(number)
    return told["category"], told["code"]


def test_the_card_says_what_is_missing_and_offers_other_ways(house: House, terminal: Terminal, agent: Agent) -> None:
    agent.begin_act(**DELETION)
    shown = terminal.until("Evidence ! INCOMPLETE", "c  reading on", "l  a new card", "All anyway")
    rows = shown.splitlines()

    assert all(len(line) <= 80 for line in rows)
    assert [
        "DELETE cloud accounts.delete, acme-prod, 3 targets",
        "Evidence ! INCOMPLETE: 2 seen of an unknown number",
        "Targets  2 of 3 proven to exist as asked:",
        "! svc-build-7    not among the 2",
        "+ ci-legacy-2    + ci-legacy-5",
        "Not seen does not mean not there.",
        "c  reading on for up to 60 s; then this card comes again",
        "l  a new card for the 2 proven targets; this one ends",
        "a  deleting all 3, 1 without proof: type svc-build-7",
        "[d Abandon]  c Collect more  l Limit to 2  a All anyway",
    ] == [
        line
        for line in (row.partition("│ ")[2].strip(" ┃│") for row in rows)
        if line.startswith(
            ("DELETE cloud", "Evidence", "Targets", "! svc", "+ ci", "Not seen", "c  ", "l  ", "a  ", "[d")
        )
    ]
    assert 1 == len(house.human.cards())


def test_c_reads_on_and_brings_the_card_again(terminal: Terminal, agent: Agent, accounts: Accounts) -> None:
    number = asked(agent, terminal)
    terminal.keys("c")
    terminal.until("+ complete: accounts.list, 3 of 3", "ready")
    assert [] == accounts.changes
    terminal.keys("a")
    terminal.until("Type svc-build-7 to delete")
    terminal.type_word("svc-build-7")

    assert ("success", "ok") == end(agent, number)
    assert 1 == len(accounts.changes)


def test_l_ends_the_card_and_brings_one_for_the_proven(terminal: Terminal, agent: Agent, accounts: Accounts) -> None:
    number = asked(agent, terminal)
    terminal.keys("l")

    assert ("approval_timeout", "superseded") == end(agent, number)
    terminal.until("accounts.delete, acme-prod, 2 targets", "2 of 2 proven to exist as asked")
    assert [] == accounts.changes


def test_a_wants_the_first_target_without_proof(terminal: Terminal, agent: Agent, accounts: Accounts) -> None:
    number = asked(agent, terminal)
    terminal.keys("a")
    terminal.until("Type svc-build-7 to go on anyway")
    terminal.type_word("svc-build-7")

    assert ("success", "ok") == end(agent, number)
    assert [] == accounts.names


def test_d_abandons(terminal: Terminal, agent: Agent, accounts: Accounts) -> None:
    number = asked(agent, terminal)
    terminal.keys("d")
    terminal.until("Reason [")
    terminal.keys("2")
    time.sleep(0.3)
    terminal.keys("Enter")

    assert ("call_denied", "declined") == end(agent, number)
    assert [] == accounts.changes
