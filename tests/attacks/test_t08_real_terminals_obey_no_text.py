"""Hostile texts by way of a real daemon onto real terminals: every surface, with all that went out to them recorded.

One daemon, one interface and one command line stand for all texts; the texts come packed, several in each request.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.client.card import parse_card
from broker.client.card_text import card_lines
from broker.contract.kdf import KdfParams
from broker.contract.neutralise import cells, visible
from tests.hostile_text import TEXTS, encodable, obeyed
from tests.live.house import Agent, House, until
from tests.live.plain_upstream import serving
from tests.live.terminal import Terminal

pytestmark = pytest.mark.live

PASSPHRASE = "a passphrase typed by a human"
LONGEST_REASON = 500
LONGEST_LABEL = 80
BETWEEN = " | "
POLICY = """
version = 1

[limits]
prompts_per_minute = 600
pending_cards = 1000

[[rules]]
id = "buy"
services = ["shop"]
approval = "per_call"
expires_s = 600
reason = "[red]what is bought[/red] <b>here</b>"

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET", "POST"]
"""
SEQUENCE = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[<=>?]*[0-9;:]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")
VIEWS = ("i", "o", "e")


def packed(longest: int) -> list[str]:
    """The texts that can travel, several in one, each cut to what fits."""
    out: list[str] = []
    for text in (one[: longest - 2] for one in TEXTS if encodable(one)):
        joined = f"{out[-1]}{BETWEEN}{text}" if out else text
        if out and len(joined) <= longest:
            out[-1] = joined
        else:
            out.append(text)
    return out


REASONS = packed(LONGEST_REASON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A daemon with one harmless card first and a hostile one for each pack behind it."""

    house: House
    cards: list[dict[str, Any]]
    agents: list[Agent]


def begin(agent: Agent, reason: str, number: int) -> None:
    body = json.dumps({"note": reason, "number": number}, ensure_ascii=False)
    agent.begin_act(
        service="shop",
        method="POST",
        path=f"/orders/{number}",
        query={"q": reason} if number % 3 == 0 else {},
        headers={"x-note": "".join(one for one in reason if one.isprintable() and one.isascii())},
        body=body,
        reason=reason,
        wait_s=300,
    )


def wait_for_cards(house: House, number: int) -> None:
    until(lambda: len(house.human.cards()) == number)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    kdf = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=1, salt=os.urandom(16))  # what the interface insists on
    home = tmp_path_factory.mktemp("hostile") / "h"
    with ExitStack() as open_:
        upstream = open_.enter_context(serving())
        house = open_.enter_context(House(home, passphrase=PASSPHRASE, kdf=kdf))
        house.init().open(POLICY, origin=upstream.origin)
        agents = [open_.enter_context(house.agent()) for _ in range(3)]
        for agent, label in zip(agents, packed(LONGEST_LABEL), strict=False):
            assert agent.ask("POST", "/v1/session", {"label": label})["status"] < 300
        begin(agents[0], "harmless", 0)
        wait_for_cards(house, 1)
        for number, reason in enumerate(REASONS, start=1):
            begin(agents[number % 3], reason, number)
            wait_for_cards(house, number + 1)
        yield Asked(house=house, cards=house.human.cards(), agents=agents)


def shapes(raw: str) -> set[str]:
    """The kinds of sequences in it: introducer, private sign and final byte; of titles the whole text."""
    found = SEQUENCE.findall(raw)
    return {one if one.startswith("\x1b]") else re.sub(r"[0-9;:]+", "n", one) for one in found}


def assert_nothing_got_out(raw: str, harmless: str) -> None:
    """`raw` is all that went to a terminal. `harmless` is what goes there when nobody is hostile."""
    assert set() == {shape for shape in shapes(raw) - shapes(harmless) if not shape.startswith("\x1b]0;doorward")}
    left = SEQUENCE.sub("", raw)
    assert set() == {f"{ord(one):x}" for one in left if obeyed(one) and one not in "\r\n\x07\x08"}
    verbatim = [text for text in TEXTS if len(text) > 2 and any(map(obeyed, text)) and text not in harmless]
    assert [] == [text for text in verbatim if text in raw]


def assert_decision_in_sight(screen: str) -> None:
    rows = screen.splitlines()

    assert rows[21].partition("│ ")[2].startswith("[d Deny]  a Approve once"), screen
    assert rows[22].startswith("─" * 20 + "┴"), screen
    assert 1 == sum(row[20:21] == "├" for row in rows), screen
    assert not [one for row in rows for one in row if obeyed(one)], screen
    assert all(cells(row) <= 80 for row in rows), screen


def test_the_interface_in_a_terminal(asked: Asked, tmp_path: Path) -> None:
    record = tmp_path / "went-out"
    command = [sys.executable, "-I", "-m", "ui"]
    with Terminal("hostile", command, environ=dict(asked.house.environ), size=(80, 24)) as window:
        window.record(record)
        window.until("-approver", "approver locked: u")
        window.keys("u")
        window.until("Passphrase")
        window.keys("-l", PASSPHRASE)
        window.keys("Enter")
        window.until("+approver", f"1 of {len(asked.cards)}", "harmless")
        for view in VIEWS:
            look(window, view)
        harmless = until(lambda: record.read_bytes().decode("utf-8"))
        for at in range(2, len(asked.cards) + 1):
            window.keys("j")
            assert_decision_in_sight(window.until(f"─ {at} of {len(asked.cards)}", "a Approve once"))
            for view in VIEWS:
                look(window, view)
        for screen in "2345671":
            window.keys(screen)
            window.until(f"[{screen} ")
            time.sleep(0.3)
        raw = record.read_bytes().decode("utf-8")

    assert len(raw) > len(harmless)
    assert_nothing_got_out(raw[len(harmless) :], harmless)


def look(window: Terminal, view: str) -> None:
    """A page of a card, and a page further down."""
    window.keys(view)
    window.until("Esc: the card")
    window.keys("PageDown")
    assert_decision_in_sight(window.until("Esc: the card"))
    window.keys(view)


def test_the_command_line_in_a_terminal(asked: Asked, tmp_path: Path) -> None:
    passphrase = tmp_path / "passphrase"
    passphrase.write_text(f"{PASSPHRASE}\n", encoding="utf-8")
    cards = [str(row["id"]) for row in asked.cards]
    arguments = [one.replace("\0", "") for one in packed(2000)]
    sealed = [["approvals", "show", card] for card in cards[1::4]]
    sealed += [["approvals", "show", one] for one in arguments[:2]]
    sealed += [["sessions", "list"], ["audit", "show", "--limit", "500"], ["approvals", "list"], ["operations", "list"]]
    orders = [[*words, "--passphrase-fd", "3"] for words in sealed]
    orders += [["explain", "GET", "shop", f"/{one}"] for one in arguments]
    wrong = (("call",), ("sessions", "revoke"), ("http", "GET"), ("result",), ("grants", "revoke"))
    orders += [[*words, arguments[at]] for at, words in enumerate(wrong)]
    program, record = tmp_path / "all.py", tmp_path / "went-out"
    program.write_text(ALL_OF_THEM, encoding="utf-8")
    (tmp_path / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
    command = [sys.executable, "-I", str(program), str(tmp_path / "orders.json"), str(passphrase)]
    with Terminal("commands", command, environ=dict(asked.house.environ), size=(100, 40)) as window:
        window.record(record)
        window.until(f"all {len(orders)} done", limit_s=60.0)
        raw = record.read_text(encoding="utf-8")

    assert "A yes covers" in raw
    assert "Answer   doorward approvals deny" in raw
    assert "approval.requested" in raw
    assert_nothing_got_out(raw, "")
    assert "Traceback" not in raw


ALL_OF_THEM = """
import json, os, subprocess, sys, time

with open(sys.argv[1], encoding="utf-8") as file:
    orders = json.load(file)
time.sleep(1.0)
for order in orders:
    secret = os.open(sys.argv[2], os.O_RDONLY)
    os.dup2(secret, 3)
    words = [sys.executable, "-I", "-m", "broker.cli", *order]
    subprocess.run(words, stdin=subprocess.DEVNULL, pass_fds=(3,), timeout=60)
    os.close(3)
    if secret != 3:
        os.close(secret)
print(f"all {len(orders)} done", flush=True)
time.sleep(60)
"""


def test_the_daemon_s_own_log(asked: Asked) -> None:
    for number, text in enumerate(packed(2000)):
        asked.agents[0].ask("POST", "/v1/http", {"service": text, "method": text, "path": text, "reason": str(number)})
    log = asked.house.log()

    assert set() == {f"{ord(one):x}" for one in log if obeyed(one) and one != "\n"}


def test_a_card_as_lines_for_each_text_alone(asked: Asked) -> None:
    """What `approvals show` prints, without a terminal in between."""
    served = asked.house.human.client.approval(str(asked.cards[1]["id"]))
    raw: dict[str, Any] = json.loads(json.dumps(served.raw))
    for text in (one for one in TEXTS if encodable(one)):
        raw["who"] |= {"says": text, "label": text, "cwd": text, "exe": text, "agent": text}
        raw["why"] |= {"reason": text, "rule": text}
        raw["target"]["url"] = text
        lines = card_lines(
            parse_card(raw), card_digest="sha256:00", state="pending", expires_at_ms=0, joined=1, now_ms=0, width=80
        )
        assert not [one for line in lines for one in line if obeyed(one)]
        assert 1 == sum(line.startswith("Answer   ") for line in lines)


def test_what_a_human_is_told_of_a_fault_holds_nothing_raw(asked: Asked) -> None:
    """Messages for agents and humans go through the same hands: none of them brings a text back as it came."""
    for text in packed(2000):
        told = asked.agents[1].ask("POST", "/v1/http", {"service": text, "method": "GET", "path": "/"})
        message = str(told["value"].get("message", told["value"]))
        assert not [one for one in visible(message) if obeyed(one)]


@pytest.mark.parametrize("text", [one for one in TEXTS if encodable(one) and any(map(obeyed, one)) and len(one) > 2])
def test_the_check_itself_notices_each_text_that_gets_out(text: str) -> None:
    with pytest.raises(AssertionError):
        assert_nothing_got_out(f"\x1b[1;1Hsays: {text} ready", "\x1b[2;2H")
