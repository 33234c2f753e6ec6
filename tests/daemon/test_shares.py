"""The keyring's share as the daemon asks for it: one question for however many ask, and every fault in words."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.secret import Secret
from broker.daemon.shares import KeyShares
from broker.server.faults import ControlError
from broker.vault.keychain import Keychain

LOG_ID = "5c1d0badcafe0000"
CHILD = """
import os, sys, time
record, answer = sys.argv[1:]
for line in sys.stdin:
    with open(record, "a") as file:
        file.write(line)
    while answer == "wait" and not os.path.exists(record + ".go"):
        time.sleep(0.01)
    print("{}" if answer == "die" else answer if answer != "wait" else '{"value": "c2hhcmU="}', flush=True)
    if answer == "die":
        sys.exit(1)
"""


class Child:
    """A keyring's child that answers as it is told to, and what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.record = directory / "record"
        self._open: list[KeyShares] = []

    def shares(self, answer: str, *, call_s: float = 30.0) -> KeyShares:
        command = [sys.executable, "-I", "-c", CHILD, str(self.record), answer]
        made = KeyShares(Keychain(command, {}, call_s=call_s, rest_s=0.0), LOG_ID)
        self._open.append(made)
        return made

    @property
    def asked(self) -> int:
        return len(self.record.read_text().splitlines())

    def go_on(self) -> None:
        self.record.with_name("record.go").touch()

    def close(self) -> None:
        for shares in self._open:
            shares.close()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    made = Child(tmp_path)
    yield made
    made.close()


async def test_many_who_ask_at_once_are_answered_by_one_question(child: Child) -> None:
    shares = child.shares("wait")
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(shares.asked()) for _ in range(50)]
        while not child.record.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        asking[0].cancel()  # one hangs up; the others are answered all the same
        child.go_on()

    assert [Secret("share")] * 49 == [one.result() for one in asking[1:]]
    assert 1 == child.asked
    assert Secret("share") == await shares.asked()
    assert 2 == child.asked, "what it said is not kept"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"fault": "locked", "why": "x"}', "it is locked"),
        ('{"fault": "absent", "why": "x"}', "from within the login session"),
        ('{"fault": "refused", "why": "x"}', "with an error"),
        ('{"value": "no base64"}', "with an error"),
    ],
)
async def test_every_fault_is_told_with_what_to_do(child: Child, answer: str, words: str) -> None:
    with pytest.raises(ControlError, match=words) as refused:
        await child.shares(answer).asked()

    assert ("keyring", 409) == (refused.value.code, refused.value.status)


async def test_a_silent_keyring_is_told_and_asked_again_the_next_time(child: Child) -> None:
    shares = child.shares("wait", call_s=0.2)
    for _ in range(2):
        with pytest.raises(ControlError, match="does not answer"):
            await shares.asked()
    child.go_on()
    patient = child.shares("wait")

    assert Secret("share") == await patient.asked()


async def test_a_keyring_without_the_share_says_so(child: Child) -> None:
    assert await child.shares('{"value": null}').asked() is None


def test_what_can_not_be_kept_is_told_and_what_can_not_be_dropped_is_no_fault(child: Child) -> None:
    shares = child.shares('{"fault": "locked", "why": "x"}')
    shares.drop()
    with pytest.raises(ControlError, match="it is locked"):
        shares.keep(Secret(b"s" * 32))
