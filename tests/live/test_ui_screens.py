"""Six screens and their keys in one real terminal, against one real daemon, sshd and upstream, at both sizes.

The claims share the daemon and the terminal, and stand in the order in which a human would come to them.
"""

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.contract.kdf import KdfParams
from tests.live import plain_upstream
from tests.live.house import SHOP, Agent, House, until
from tests.live.plain_upstream import Upstream
from tests.live.ssh_house import add_key
from tests.live.sshd import NORMAL, NotHere, open_lab
from tests.live.terminal import PAUSE_S, Terminal

pytestmark = pytest.mark.live

PASSPHRASE = "a passphrase typed by a human"
SMALL, LARGE = (80, 24), (120, 40)
WEB = """
version = 1

[[rules]]
id = "notes"
services = ["web"]
approval = "per_call"
reason = "Notes on the web hosts"

[services.web]
kind = "ssh"
credential = "deploy"
user = "{user}"
host_keys = "accept-new"

[services.web.hosts.web-1]
address = "127.0.0.1"
port = {port}

[services.web.operations.note]
command = ["touch", "{{name}}"]
effect = "write"
change_key = ["name"]
"""


@dataclass(frozen=True, kw_only=True)
class Morning:
    house: House
    upstream: Upstream
    terminal: Terminal
    ssh: bool  # whether a host's key was accepted: an sshd could be started here

    def at(self, screen: str, *words: str) -> str:
        """A screen at both sizes, with these words on it; as it is drawn at 80x24."""
        terminal = self.terminal
        terminal.keys(screen)
        terminal.until(f"[{screen} ", *words)
        terminal.resize(*LARGE)
        fits(terminal.until(f"[{screen} ", *words), LARGE)
        terminal.resize(*SMALL)
        shown = terminal.until(f"[{screen} ", *words)
        fits(shown, SMALL)
        return shown

    def yes(self, question: str, key: str = "y") -> None:
        """Answer a question of the last row, after the moment in which no answer counts."""
        self.terminal.until(question)
        time.sleep(2 * PAUSE_S)
        self.terminal.keys(key)


def fits(shown: str, size: tuple[int, int]) -> None:
    lines = shown.rstrip("\n").split("\n")
    assert len(lines) <= size[1], shown
    assert all(len(line) <= size[0] for line in lines), shown


@pytest.fixture(scope="module")
def morning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Morning]:
    kdf = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=1, salt=os.urandom(16))  # what the interface insists on
    home = tmp_path_factory.mktemp("morning") / "h"
    with ExitStack() as stack:
        upstream = stack.enter_context(plain_upstream.serving())
        house = stack.enter_context(House(home, passphrase=PASSPHRASE, kdf=kdf))
        house.init().open(SHOP, origin=upstream.origin)
        ssh = with_ssh(stack, house)
        command = [sys.executable, "-I", "-m", "ui"]
        terminal = stack.enter_context(Terminal("screens", command, environ=dict(house.environ), size=SMALL))
        terminal.unlock_approver(PASSPHRASE)
        yield Morning(house=house, upstream=upstream, terminal=terminal, ssh=ssh)


def with_ssh(stack: ExitStack, house: House) -> bool:
    """A host whose key was accepted by a human at the first contact."""
    try:
        lab = stack.enter_context(open_lab())
        account, server = lab.account("bash", mark="u"), lab.start(NORMAL)
    except NotHere:
        return False
    add_key(house, lab, f"ssh://{account.name}@127.0.0.1:{server.port}")
    house.human.write_policy("web.toml", WEB.format(user=account.name, port=server.port))
    house.human.trust()
    with house.agent() as agent:
        asked = agent.begin("POST", "/v1/ssh", {"host": "web-1", "operation": "note", "args": {"name": "one"}})
        house.human.approve(house.human.wait_for_card())
        assert agent.end_act(asked)["category"] == "success"
    return True


def granted(morning: Morning, agent: Agent) -> None:
    asked = agent.begin_act(service="shop", operation="orders.list", args={})
    morning.house.human.approve(morning.house.human.wait_for_card(), scope="session")
    agent.end_act(asked)


def left_in_doubt(morning: Morning, name: str) -> None:
    """An order that the upstream takes and does not answer."""
    with morning.house.agent() as agent:
        morning.upstream.answers.clear()
        deadline = {"first_byte_s": 1, "total_s": 2}
        asked = agent.begin_act(service="shop", operation="orders.create", args={"name": name}, deadline=deadline)
        morning.house.human.approve(morning.house.human.wait_for_card())
        assert agent.end_act(asked)["category"] == "outcome_unknown"
        morning.upstream.answers.set()


def test_sessions_are_a_tree_with_grants_and_what_is_under_way_and_can_be_folded(morning: Morning) -> None:
    terminal = morning.terminal
    with morning.house.agent() as agent:
        granted(morning, agent)
        morning.at("3", "1 alive, 1 grant", f"pid {agent.pid}", "name it: doorward policy add", "└─ grant look", "1/5")
        morning.upstream.answers.clear()
        reads = agent.begin_act(service="shop", operation="orders.list", args={})
        asks = agent.begin_act(service="shop", operation="orders.create", args={"name": "w"})
        morning.house.human.wait_for_card()
        morning.at("3", "├─ in flight  READ shop orders.list", "└─ waiting    1 card")
        terminal.keys("Space")
        until(lambda: "grant look" not in terminal.screen)
        terminal.keys("Space")
        terminal.until("grant look")
        morning.upstream.answers.set()
        morning.house.human.deny(morning.house.human.wait_for_card())
        agent.end_act(reads)
        agent.end_act(asks)

        terminal.keys("M")
        morning.yes("Mute this session?")
        terminal.until("MUTED", "u hears it again")
        terminal.keys("u")
        until(lambda: "MUTED" not in terminal.screen)
        terminal.keys("j")
        terminal.keys("R")
        morning.yes("Revoke this grant?")
        terminal.until("1 alive, 0 grants")
        terminal.keys("k")
        terminal.keys("R")
        morning.yes("K and kill its processes", "K")
        terminal.until("0 alive", "ended")
        until(lambda: not Path(f"/proc/{agent.pid}/exe").exists())


def test_a_doubt_is_read_back_or_settled_by_a_signed_word(morning: Morning) -> None:
    terminal = morning.terminal
    left_in_doubt(morning, "n-1")
    terminal.until("1 in doubt", "4 In doubt!")  # told without being asked for
    morning.at(
        "4", "1 open", "WRITE  shop orders.create", "handed over, no answer", "Read-back: orders.list", " ready "
    )
    terminal.until("you approved", "handed over whole, no answer", "14 bytes")
    terminal.keys("Enter")
    terminal.until("In doubt: op_", "the intent is on record", "more lines")
    terminal.keys("Escape")
    terminal.until("[Esc Leave it]")
    terminal.keys("r")
    terminal.until("reading back", "1 waiting")  # the rule has that read asked for as any other
    terminal.keys("n")
    terminal.until("[1 Approvals]", "orders.list", " ready ")
    terminal.keys("a")
    until(lambda: not morning.house.human.cards())
    terminal.keys("4")
    terminal.until("Nothing is in doubt.")

    left_in_doubt(morning, "n-2")
    terminal.until("1 open")
    terminal.keys("t")
    terminal.until("it was not done")
    terminal.keys("1")
    terminal.keys("-l", "seen")
    terminal.until("[seen")
    time.sleep(PAUSE_S)
    terminal.keys("Enter")
    morning.yes("Sign that it was done?")
    terminal.until("settled by your word", "Nothing is in doubt.")
    (settled,) = morning.house.human.events("operation.settled")[-1:]
    assert (True, "seen") == (settled["fields"]["applied"], settled["fields"]["reason"])


def test_the_vault_tells_what_is_known_of_credentials_and_shows_no_value(morning: Morning) -> None:
    terminal = morning.terminal
    shown = morning.at("5", "shop", "bearer", "+ valid", "WRITE", "ready since", "never shown, here or anywhere")
    assert "canary-token" not in shown
    terminal.keys("G")
    terminal.keys("g")
    until(lambda: re.search(r"^▌", terminal.screen, re.MULTILINE))
    terminal.keys("/")
    terminal.keys("-l", "bearer")
    terminal.keys("Enter")
    terminal.until("▌shop", "c  Check now")
    terminal.keys("c")
    terminal.until("checked: unknown")  # the policy declares no probe
    terminal.keys("Escape")
    until(lambda: "/ bearer" not in terminal.screen)


def test_an_accepted_host_key_is_shown_whole_and_forgotten_by_a_signed_word(morning: Morning) -> None:
    if not morning.ssh:
        pytest.skip("no SSH server can be started here: host keys on the screen are not shown")
    terminal = morning.terminal
    (key,) = morning.house.human.client.host_keys()
    morning.at("5", "web-1", "host key")
    terminal.keys("G")
    terminal.until(str(key["fingerprint"]), "R  Forget")
    terminal.keys("R")
    morning.yes("Forget this host key?")
    until(lambda: "host key of" not in terminal.screen)
    assert [] == morning.house.human.client.host_keys()


def test_an_edit_of_the_policy_is_read_line_by_line_and_trusted_by_a_typed_word(morning: Morning) -> None:
    terminal, path = morning.terminal, morning.house.places.policies / "shop.toml"
    morning.at("6", "RULE", "look", "ask each", "SERVICE", "as they were trusted")
    as_trusted = path.read_text(encoding="utf-8")
    path.write_text(as_trusted.replace('approval = "per_call"', 'approval = "sesion"'), encoding="utf-8")
    terminal.until(
        "Policy: an edit was refused", "!policy REFUSED", "FAULT shop.toml:", "The old policy stays in force."
    )

    path.write_text(as_trusted.replace("max_uses = 5", "max_uses = 7"), encoding="utf-8")
    morning.at("6", "a change waits for your trust", "!policy CHANGED", "LOOSENS", "session 5", "session 7")
    terminal.keys("e")
    terminal.until("- max_uses = 5", "+ max_uses = 7", 'id = "look"')
    terminal.keys("Escape")
    terminal.until("A yes covers")
    terminal.keys("v")
    terminal.until("warning")
    terminal.keys("Escape")
    word = re.search(r"type ([0-9a-f]{4})\)", terminal.until(" ready ", "type "))
    assert word is not None
    terminal.keys("d")
    terminal.until("nothing was changed")
    time.sleep(PAUSE_S)
    terminal.keys("t")
    terminal.until("to trust: [")
    terminal.type_word(word[1])
    terminal.until("The files are as they were trusted.", "+policy")
    assert "max_uses = 7" in path.read_text(encoding="utf-8")


def test_activity_follows_filters_and_shows_every_event_of_a_row(morning: Morning) -> None:
    terminal = morning.terminal
    morning.at("2", "following", "trusted the policy")
    terminal.resize(*LARGE)
    terminal.until("Target", "More", "ms")
    terminal.resize(*SMALL)
    terminal.keys("j")
    terminal.until("f follows")
    with morning.house.agent() as agent:
        agent.act(service="open", method="POST", path="/tips", body={"cents": 5})
        terminal.until("1 new, f follows")
    terminal.keys("f")
    terminal.until("following", "open POST")
    terminal.keys("/")
    terminal.keys("-l", "settled")
    terminal.keys("Enter")
    terminal.until("/ settled", "settled orders.create, done")
    terminal.keys("Escape")
    until(lambda: "/ settled" not in terminal.screen)
    terminal.keys("/")
    terminal.keys("-l", "outcome_unknown")
    terminal.keys("Enter")
    terminal.until("2 of ")
    terminal.keys("Enter")
    terminal.until("Activity: op_", "outcome_unknown / first_byte_timeout")
    terminal.keys("Escape")
    terminal.until("/ outcome_unknown")
    terminal.keys("Escape")
    until(lambda: "/ outcome_unknown" not in terminal.screen)


def test_a_checkpoint_is_written_listed_and_its_note_opened(morning: Morning) -> None:
    terminal = morning.terminal
    morning.at("7", "Head", "segment 00000001", "+ file", "outside: no", "Checkpoint  Time", "epoch ")
    terminal.keys("w")
    morning.yes("Write a checkpoint?")
    terminal.until("a checkpoint is written", "? outside: made")
    terminal.keys("Enter")
    note = terminal.until("Checkpoint of", "Keep a copy of these lines elsewhere")
    fits(note, SMALL)
    terminal.keys("Escape")
    terminal.until("Checkpoint  Time")
    terminal.keys("v")
    terminal.until("+ OK, whole log, checked")


def test_a_lost_daemon_leaves_old_rows_without_keys_and_each_screen_lives_again(morning: Morning) -> None:
    terminal = morning.terminal
    morning.at("3", "ended")
    morning.house.kill()
    terminal.until("LOST", "old: as at", "ended")
    terminal.keys("R")
    assert "y yes" not in terminal.screen
    morning.house.start()
    terminal.until("!vault")
    terminal.keys("5")
    terminal.until("The vault is locked")
    terminal.keys("u")
    terminal.until("VAULT LOCKED", "Passphrase")
    terminal.keys("-l", PASSPHRASE)
    terminal.keys("Enter")
    terminal.until("+approver")
    for screen, words in (
        ("2", "open POST"),
        ("3", "alive"),
        ("4", "Nothing is in doubt."),
        ("5", "shop"),
        ("6", "RULE"),
    ):
        terminal.keys(screen)
        terminal.until(f"[{screen} ", words)
    terminal.keys("7")
    terminal.until("[7 Audit]", "Checkpoint  Time", "epoch ")


def test_help_names_the_keys_of_the_screen_it_was_opened_on(morning: Morning) -> None:
    terminal = morning.terminal
    for screen, key in (
        ("3", "Space  fold"),
        ("4", "t  settle"),
        ("5", "c  check"),
        ("6", "t  trust it"),
        ("7", "w y"),
    ):
        terminal.keys(screen)
        terminal.until(f"[{screen} ")
        terminal.keys("?")
        terminal.until("Help:", key)
        terminal.keys("?")
        until(lambda: "Help:" not in terminal.screen)


def test_a_lock_from_the_vault_screen_says_what_it_ends(morning: Morning) -> None:
    terminal = morning.terminal
    terminal.keys("5")
    terminal.until("L  Lock", "voids 0 cards")
    terminal.keys("L")
    morning.yes("Lock the vault?")
    terminal.until("The vault is locked: asked for.")
