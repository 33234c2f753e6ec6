"""Activity, Sessions and Audit in a real terminal against a real daemon: what the log holds is what is drawn."""

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.contract.kdf import KdfParams
from tests.live import plain_upstream
from tests.live.house import SHOP, House
from tests.live.plain_upstream import Upstream
from tests.live.terminal import Terminal

pytestmark = pytest.mark.live

PASSPHRASE = "a passphrase typed by a human"
TIP = {"service": "open", "method": "POST", "path": "/tips", "body": {"cents": 5}}
SIZES = [(80, 24), (120, 40)]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with plain_upstream.serving() as serving:
        yield serving


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    kdf = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=1, salt=os.urandom(16))
    with House(tmp_path / "h", passphrase=PASSPHRASE, kdf=kdf) as built:
        yield built.init().open(SHOP, origin=upstream.origin)


@contextmanager
def opened(house: House, size: tuple[int, int], *words: str) -> Iterator[Terminal]:
    """The interface, with its approver key unlocked."""
    command = [sys.executable, "-I", "-m", "ui", *words]
    with Terminal("log", command, environ=dict(house.environ), size=size) as window:
        window.until("u unlocks it in this window")
        unlock(window)
        yield window


def unlock(window: Terminal) -> None:
    window.keys("u")
    window.until("Passphrase")
    window.keys("-l", PASSPHRASE)
    window.keys("Enter")
    window.until("Nothing waits for you", "Frozen")


def work(house: House) -> None:
    """A tip, a refusal by policy, a yes and a no."""
    with house.agent() as agent:
        agent.act(**TIP)
        agent.act(service="shop", method="DELETE", path="/orders/1")
        for name, answer in (("one", house.human.approve), ("two", lambda card: house.human.deny(card, "not now"))):
            asked = agent.begin_act(service="shop", operation="orders.create", args={"name": name})
            answer(house.human.wait_for_card())
            agent.end_act(asked)


def fits(shown: str, size: tuple[int, int]) -> None:
    lines = shown.splitlines()
    assert len(lines) <= size[1]
    assert all(len(line) <= size[0] for line in lines), shown


@pytest.mark.parametrize("size", SIZES)
def test_activity_shows_what_was_done_as_it_is_done(house: House, size: tuple[int, int]) -> None:
    with opened(house, size) as terminal:
        terminal.keys("2")
        terminal.until("[2 Activity]", "following", "unlocked")
        work(house)
        shown = terminal.until("shop orders.create", "call_denied", "policy_denied", "= you", "approved orders.create")
        fits(shown, size)
        assert re.search(r"^.\d\d:\d\d:\d\d - \S+ +WRITE +shop orders\.create +.*call_denied", shown, re.MULTILINE)
        assert re.search(r"^.\d\d:\d\d:\d\d - \S+ +DELETE shop DELETE", shown, re.MULTILINE)
        assert ("Target" in shown) == (size[0] >= 110)

        terminal.keys("/")
        terminal.keys("-l", "call_denied")
        terminal.keys("Enter")
        terminal.until("/ call_denied", "1 of ")
        terminal.keys("Enter")
        page = terminal.until("Activity: op_", 'you denied it: "not now"', "call_denied / declined")
        fits(page, size)
        terminal.keys("Escape")
        terminal.keys("Escape")
        terminal.until("approved orders.create")


def test_a_trail_is_drawn_below_its_row(house: House) -> None:
    with opened(house, (120, 40)) as terminal:
        work(house)
        terminal.keys("2")
        terminal.until("orders.create", "call_denied")
        terminal.until("asked by", "rule buy: ask each time", 'you denied it: "not now"')
        terminal.keys("j")
        terminal.until("f follows")


@pytest.mark.parametrize("size", SIZES)
def test_sessions_tells_what_was_done_and_who_is_gone(house: House, size: tuple[int, int]) -> None:
    with opened(house, size) as terminal:
        terminal.keys("3")
        with house.agent() as agent:
            agent.act(**TIP)
            fits(terminal.until("1 alive", "pid", "1 write"), size)
        shown = terminal.until("0 alive", "ended", "exited")
        fits(shown, size)
        assert "1 write" in terminal.until("log     1 write")


@pytest.mark.parametrize("size", SIZES)
def test_the_audit_screen_verifies_and_writes_a_checkpoint(house: House, size: tuple[int, int]) -> None:
    with opened(house, size) as terminal:
        terminal.keys("7")
        terminal.until("[7 Audit]", "Head", "free (refuses actions below 256 MiB)")
        terminal.keys("v")
        fits(terminal.until("+ OK, whole log, checked", "held against"), size)
        terminal.keys("w")
        terminal.until("Write a checkpoint?")
        time.sleep(0.6)  # `y` counts after half a second
        terminal.keys("y")
        shown = terminal.until("root", "? outside: made", "keep a copy of its note elsewhere")
        fits(shown, size)
        terminal.keys("Enter")
        fits(terminal.until("Checkpoint of", "Keep a copy of these lines elsewhere"), size)


def test_without_colours_and_without_utf_8_the_log_is_drawn_as_well(house: House) -> None:
    work(house)
    house.environ["NO_COLOR"] = "1"
    with opened(house, (80, 24), "--ascii") as terminal:
        for screen, words in (("2", "call_denied"), ("3", "ended"), ("7", "Verdict")):
            terminal.keys(screen)
            assert terminal.until(words).isascii()


def test_a_lock_takes_what_was_drawn_away_and_an_unlock_brings_it_back(house: House) -> None:
    work(house)
    with opened(house, (80, 24)) as terminal:
        terminal.keys("2")
        terminal.until("call_denied")
        house.human.client.lock()
        shown = terminal.until("Sealed")
        assert "call_denied" not in shown
        house.human.unlock()
        terminal.until("-approver")
        unlock(terminal)
        terminal.keys("2")
        terminal.until("call_denied")
