import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.contract.kdf import KdfParams
from tests.live import plain_upstream
from tests.live.house import SHOP, House, until
from tests.live.plain_upstream import Upstream
from tests.live.terminal import Terminal

pytestmark = pytest.mark.live

PASSPHRASE = "a passphrase typed by a human"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with plain_upstream.serving() as serving:
        yield serving


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    kdf = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=1, salt=os.urandom(16))  # what the interface insists on
    with House(tmp_path / "h", passphrase=PASSPHRASE, kdf=kdf) as built:
        yield built.init().open(SHOP, origin=upstream.origin)


@pytest.fixture
def terminal(house: House) -> Iterator[Terminal]:
    """The interface at 80x24, with the passphrase typed in by hand."""
    command = [sys.executable, "-I", "-m", "ui"]
    with Terminal("ui", command, environ=dict(house.environ), size=(80, 24)) as window:
        window.unlock_approver(PASSPHRASE)
        yield window


def ended(agent: Any, number: int) -> dict[str, Any]:
    told: dict[str, Any] = agent.end_act(number)
    return told


def test_a_card_of_a_real_agent_appears_and_d_denies_it(house: House, terminal: Terminal, upstream: Upstream) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="shop", operation="orders.create", args={"name": "n-1"}, reason="please")
        shown = terminal.until("WRITE", "orders.create", "says:", "ready")
        terminal.keys("d")
        terminal.until("Reason [")
        terminal.keys("1")
        time.sleep(0.3)  # two keys within 150 ms decide nothing
        terminal.keys("Enter")
        told = ended(agent, asked)

    assert 'says: "please"' in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert ("call_denied", "declined", "none") == (told["category"], told["code"], told["remote_effect"])
    assert [] == upstream.requests


def test_a_approves_after_the_arming(house: House, terminal: Terminal, upstream: Upstream) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="shop", operation="orders.create", args={"name": "n-2"})
        terminal.until("orders.create", "ready")
        terminal.keys("a")
        told = ended(agent, asked)

    assert ("success", "applied", "granted") == (told["category"], told["remote_effect"], told["gate"]["call"])
    assert ["POST /orders"] == upstream.requests


def test_enter_does_not_approve_however_often(house: House, terminal: Terminal, upstream: Upstream) -> None:
    with house.agent() as agent:
        agent.begin_act(service="shop", operation="orders.create", args={"name": "n-3"})
        terminal.until("orders.create", "ready")
        for _ in range(20):
            terminal.keys("Enter", "Enter", "Enter")
        terminal.keys("Escape")
        shown = terminal.until("orders.create")

        assert [row["state"] for row in house.human.cards()] == ["pending"]
    assert "1 waiting" in shown
    assert [] == upstream.requests


def test_keys_typed_before_the_card_was_shown_decide_nothing(house: House, terminal: Terminal) -> None:
    with house.agent() as agent:
        terminal.keys("a", "a", "s", "y")
        agent.begin_act(service="shop", operation="orders.create", args={"name": "n-4"})
        terminal.keys("a")
        terminal.until("orders.create")
        terminal.keys("a")
        terminal.until("orders.create", "ready")

        assert [row["state"] for row in house.human.cards()] == ["pending"]


def test_a_pasted_word_with_an_a_in_it_decides_nothing(house: House, terminal: Terminal) -> None:
    with house.agent() as agent:
        agent.begin_act(service="shop", operation="orders.create", args={"name": "n-5"})
        terminal.until("orders.create", "ready")
        terminal.paste("banana")
        terminal.paste("a")
        time.sleep(0.6)  # longer than the interface waits for a key to have been alone

        assert [row["state"] for row in house.human.cards()] == ["pending"]


def test_s_then_y_grants_to_the_session_as_the_card_says(house: House, terminal: Terminal) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="shop", operation="orders.list", args={})
        terminal.until("orders.list", "any request under rule look", "ready")
        terminal.keys("s")
        terminal.until("y yes")
        time.sleep(0.6)  # `y` counts after half a second
        terminal.keys("y")
        first = ended(agent, asked)
        second = agent.act(service="shop", operation="orders.list", args={})

    assert ("success", "success") == (first["category"], second["category"])
    assert 1 == len(house.human.events("grant.made"))


LATER = """
version = 1

[[rules]]
id = "later"
services = ["later"]
effects = ["read"]
approval = "session"

[services.later]
kind = "http"
base_url = "{origin}/later"
credential = "later"
ad_hoc = ["GET"]
"""


def test_a_credential_that_an_agent_asks_for_is_shown_and_declined(
    house: House, terminal: Terminal, upstream: Upstream
) -> None:
    house.human.write_policy("later.toml", LATER.format(origin=upstream.origin))
    house.human.trust()
    with house.agent() as agent:
        number = agent.begin("POST", "/v1/credential-requests", {"service": "later", "purpose": "to look around"})
        shown = terminal.until("ADD", "credential later", 'says: "to look around"', "doorward credential add later")
        for key in ("a", "s", "Enter", "Escape"):
            terminal.keys(key)
            time.sleep(0.3)  # each alone
        terminal.keys("d")
        terminal.until("Reason [")
        terminal.keys("3")
        time.sleep(0.3)
        terminal.keys("Enter")
        told = agent.end(number)

    assert "[d Decline]" in shown
    assert "declined" in str(told["value"])
    assert ["shop"] == [row["name"] for row in house.human.client.credentials()]


def test_held_enters_and_a_paste_without_brackets_decide_nothing(house: House, terminal: Terminal) -> None:
    with house.agent() as agent:
        agent.begin_act(service="shop", operation="orders.create", args={"name": "n-6"})
        terminal.until("orders.create", "ready")
        terminal.keys(*["Enter"] * 60)
        terminal.keys("Escape")
        terminal.until("[d Deny]")
        terminal.keys("-l", "pay the bill as usual")  # as a terminal without bracketed paste hands it over
        time.sleep(0.6)  # longer than the interface waits for a key to have been alone
        terminal.keys("Escape")
        terminal.until("orders.create", "1 waiting", "[d Deny]")

        assert [row["state"] for row in house.human.cards()] == ["pending"]


def test_the_mouse_answers_nothing_and_the_title_counts(house: House, terminal: Terminal) -> None:
    assert "doorward" == terminal.title
    with house.agent() as agent:
        agent.begin_act(service="shop", operation="orders.create", args={"name": "n-8"})
        shown = terminal.until("orders.create", "ready").splitlines()
        for words in ("[d Deny]", "a Approve once", "x Deny + end", "ready", "a  this one request"):
            line = next(at for at, row in enumerate(shown, start=1) if words in row)
            terminal.click(shown[line - 1].index(words) + 1, line)
            time.sleep(0.3)  # longer than a key has to be alone
        terminal.until("[d Deny]", "ready")

        assert "doorward: 1 waiting" == terminal.title
        assert [row["state"] for row in house.human.cards()] == ["pending"]


def test_every_screen_and_pane_is_reached_by_its_key(house: House, terminal: Terminal) -> None:
    with house.agent() as agent:
        agent.begin_act(service="shop", operation="orders.create", args={"name": "n-7"}, reason="please")
        terminal.until("orders.create", "ready")
        for keys, words in KEYS:
            terminal.keys(*keys)
            terminal.until(*words)

        assert [row["state"] for row in house.human.cards()] == ["pending"]


KEYS = (
    (("i",), ("Chain", "Session", "Esc: the card")),
    (("o",), ("Body", "n-7", "Esc: the card")),
    (("e",), ("Request", "Headers", "Esc: the card")),
    (("Escape",), ("A yes covers", "Why")),
    (("Tab",), ("[1 of 1]", "j/k line")),
    (("Tab",), ("─ 1 of 1", "j/k card")),
    (("/",), ("/ ▏",)),
    (("-l", "orders"), ("/ orders▏",)),
    (("Enter",), ("/ orders ─",)),
    (("Escape",), ("─ Waiting ─",)),
    (("?",), ("Help: Approvals", "Enter  alone never approves")),
    (("k",), ("─ Waiting ─", "A yes covers")),
    (("M",), ("Mute this session?", "y yes, any other key leaves")),
    (("n",), ("j/k card",)),
    (("x",), ("Deny and end this session?",)),
    (("n",), ("[d Deny]",)),
    (("F",), ("Freeze everything?",)),
    (("n",), ("j/k card",)),
    (("L",), ("Lock the vault?",)),
    (("n",), ("j/k card",)),
    (("C-c",), ("Close this window? The daemon goes on.",)),
    (("n",), ("j/k card",)),
    (("C-p",), ("j/k card",)),
    (("C-q",), ("j/k card",)),
    (("2",), ("[2 Activity]",)),
    (("n",), ("[1 Approvals]",)),
    (("7",), ("[7 Audit]",)),
    (("p",), ("[1 Approvals]",)),
)


def test_a_lost_daemon_is_said_in_large_and_found_again(house: House, terminal: Terminal) -> None:
    house.kill()
    terminal.until("NO CONNECTION TO THE DAEMON", "LOST")
    house.start()
    terminal.until("VAULT LOCKED", "Passphrase")
    terminal.keys("-l", PASSPHRASE)
    terminal.keys("Enter")
    terminal.until("Nothing waits for you")


def test_the_interface_is_idle_when_nothing_happens(house: House, terminal: Terminal) -> None:
    pid = _pid_of_ui(house)
    for screen in "1234567":
        terminal.keys(screen)
        terminal.until(f"[{screen} ")
        time.sleep(0.5)  # let it read what the screen lists
        before = _cpu_ticks(pid)
        time.sleep(2.0)
        used = (_cpu_ticks(pid) - before) / os.sysconf("SC_CLK_TCK") / 2.0
        assert used < 0.15, f"screen {screen} takes {used:.0%} of a core while nothing happens"


def _pid_of_ui(house: House) -> int:
    def find() -> int:
        home = f"DOORWARD_HOME={house.places.home}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[1:4] == [b"-I", b"-m", b"ui"] and home in (entry / "environ").read_bytes().split(b"\0"):
                    return int(entry.name)
            except OSError:
                continue
        return 0

    return until(find)


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])
