"""A lock while the log is verified for an unlock: at once, whatever the disk does that the verification waits for."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.client.control import ControlClient
from broker.client.faults import Refused
from tests.live.house import House, until

pytestmark = pytest.mark.live
AT_ONCE_S = 15.0  # an inspection that does not end takes far longer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> House:
    with House(tmp_path_factory.mktemp("made") / "h") as house:
        return house.init()


@pytest.fixture
def house(tmp_path: Path, made: House) -> Iterator[House]:
    with House.like(made, tmp_path / "h") as house:
        house.start()
        until(lambda: house.human.client.status()["audit"]["verified_at"] is not None)  # type: ignore[index, call-overload]
        yield house


class Opening:
    """An unlock or a takeover that somebody asked for, in a thread of its own."""

    def __init__(self, house: House, opened_by: Callable[[ControlClient], object]) -> None:
        self.fault: Refused | None = None
        self._client, self._opened_by = ControlClient(house.places), opened_by
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._opened_by(self._client)
        except Refused as refused:
            self.fault = refused
        finally:
            self._client.close()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def code(self) -> str | None:
        """How it was refused; None where it was not."""
        self._thread.join(15)
        assert self.ended
        return None if self.fault is None else self.fault.code


def inspector_of(house: House) -> int | None:
    """The process that inspects now."""
    assert house.process is not None
    with suppress(OSError):
        for task in Path(f"/proc/{house.process.pid}/task").iterdir():
            for child in (task / "children").read_text("ascii").split():
                if b"inspector" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
    return None


def stuck_unlock(house: House) -> Opening:
    """An unlock whose inspection makes no progress: its process is stopped."""
    kek = house.keys.vault_kek.reveal()
    for _ in range(20):  # an inspection may have ended before it could be stopped
        asked = Opening(house, lambda client: client.unlock(kek))
        while not asked.ended:
            child = inspector_of(house)
            if child is not None and _stop(child):
                return asked
        asked.code()
        house.human.client.lock()
    pytest.fail("no inspection could be stopped")


def _stop(process: int) -> bool:
    try:
        os.kill(process, signal.SIGSTOP)
        state = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(") ")[2][0]
    except OSError:
        return False
    return state in "tT"


def vault(house: House) -> Any:
    return house.human.client.status()["vault"]


def test_a_lock_waits_for_no_inspection(house: House) -> None:
    asked = stuck_unlock(house)
    before = vault(house)["state"]
    began = time.monotonic()
    answer = house.human.client.lock()
    took_s = time.monotonic() - began

    assert ("unlocking", "locked", "locked") == (before, answer["state"], vault(house)["state"])
    assert took_s < AT_ONCE_S
    assert "vault_locked" == asked.code()
    assert inspector_of(house) is None
    assert not any("not verified" in warning for warning in house.human.client.status()["warnings"])  # type: ignore[union-attr, operator]


def test_the_vault_can_be_unlocked_again_after_that(house: House) -> None:
    asked = stuck_unlock(house)
    house.human.client.lock()
    asked.code()
    house.human.unlock()
    house.human.open_session()

    assert "ready" == vault(house)["state"]
    assert 1 == len(house.human.events("vault.unlocked"))


def test_a_freeze_waits_for_no_inspection(house: House) -> None:
    asked = stuck_unlock(house)
    began = time.monotonic()
    house.human.client.freeze()
    took_s = time.monotonic() - began
    frozen = house.human.client.status()["frozen"]
    house.human.client.lock()

    assert frozen is True
    assert took_s < AT_ONCE_S
    assert "vault_locked" == asked.code()


def test_a_lock_calls_a_takeover_off_and_the_vault_stays_quarantined(house: House) -> None:
    house.stop()
    segment = house.places.audit / "00000001.seg"
    content = bytearray(segment.read_bytes())
    content[300] ^= 1
    segment.write_bytes(content)
    house.start()
    until(lambda: vault(house)["state"] == "quarantined")
    statement: Any = house.human.client.quarantine()["statement"]
    asked = Opening(house, lambda client: client.readopt(statement, house.keys.vault_kek.reveal(), house.key))
    until(lambda: (child := inspector_of(house)) is not None and _stop(child))
    began = time.monotonic()
    answer = house.human.client.lock()
    took_s = time.monotonic() - began

    assert ("quarantined", "vault_locked") == (answer["state"], asked.code())
    assert took_s < AT_ONCE_S
    house.human.readopt()
    assert "ready" == vault(house)["state"]


def test_a_daemon_that_is_to_stop_waits_for_no_inspection(house: House) -> None:
    asked = stuck_unlock(house)
    assert 0 == house.stop()
    assert asked.code() in {"audit_unwritable", "vault_locked"}
