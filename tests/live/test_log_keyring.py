"""The log's seeds and its head in a real keyring under a real daemon: used, locked, dead, hung."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.vault.keychain import CALL_S
from tests.fakes.keyrings import SessionKeyring
from tests.live.house import House, until
from tests.live.plain_upstream import Upstream, serving
from tests.live.test_log_custody import CREATE, looked, quarantined, status, works

pytestmark = pytest.mark.live
OFTEN = 6


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SessionKeyring]:
    with SessionKeyring(tmp_path / "k") as made:
        yield made


class KeyringHouse(House):
    """One whose log lives with the keyring of a session."""

    def __init__(self, home: Path, session: SessionKeyring) -> None:
        super().__init__(home)
        bus = session.environ["DBUS_SESSION_BUS_ADDRESS"]
        self.environ = {**self.environ, "DBUS_SESSION_BUS_ADDRESS": bus}


@pytest.fixture
def house(tmp_path: Path, session: SessionKeyring, upstream: Upstream) -> Iterator[House]:
    """Made with the keyring, used, and stopped."""
    with KeyringHouse(tmp_path / "h", session) as made:
        made.init(audit_keyring=True).open(origin=upstream.origin)
        works(made)
        assert 0 == made.stop()
        yield made


def seeds(house: House) -> list[str]:
    return [path.name for path in house.places.seeds.iterdir()]


def warned(house: House, *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in status(house)["warnings"])


def test_seeds_live_in_the_keyring_and_the_head_is_anchored_there(house: House) -> None:
    assert [] == seeds(house)
    house.start()
    assert "keyring" == looked(house)["audit"]["rung"]
    house.human.unlock()
    assert [] == seeds(house)
    assert [] == [warning for warning in status(house)["warnings"] if "keyring" in warning]
    house.human.open_session()
    (created,) = house.human.events("vault.created")
    assert created["fields"]["audit_keyring"] is True


def test_the_keyring_knows_a_head_that_was_put_back_with_everything_else(
    house: House, session: SessionKeyring, tmp_path: Path
) -> None:
    older = House.like(house, tmp_path / "older")
    older.environ = {**older.environ, "DBUS_SESSION_BUS_ADDRESS": session.environ["DBUS_SESSION_BUS_ADDRESS"]}
    house.start().human.unlock()
    works(house)
    house.stop()
    with older:
        older.start()
        quarantined(older, "audit_rollback")  # the seed in the keyring is of a later epoch
        older.human.readopt()
        works(older)
        older.stop()
        older.start()
        assert "keyring" == looked(older)["audit"]["rung"]
        older.human.unlock()


@pytest.mark.parametrize("how", ["locked", "no bus"])
def test_without_the_keyring_the_daemon_goes_on_with_a_file_and_says_so(
    house: House, session: SessionKeyring, how: str
) -> None:
    house.start().human.unlock()
    if how == "locked":
        session.lock()
    else:
        session.end_bus()
    house.human.client.lock()
    house.human.unlock()
    works(house)
    assert 1 == len(seeds(house))
    assert warned(house, "kept in a file", "locked" if how == "locked" else "absent")
    house.stop()
    house.start()
    house.human.unlock()
    works(house)


def test_a_hung_keyring_holds_nothing_up_for_longer_than_its_limit(house: House, session: SessionKeyring) -> None:
    house.start()
    looked(house)
    house.human.unlock()
    session.hang()
    began = time.monotonic()
    house.human.client.lock()
    assert time.monotonic() - began < 4 * CALL_S
    until(lambda: warned(house, "keyring is silent"), limit_s=2 * CALL_S)
    began = time.monotonic()
    for _ in range(OFTEN):
        house.human.unlock()
        house.human.client.lock()
    assert time.monotonic() - began < OFTEN * CALL_S, "it is left alone by now: asked each time it would cost that much"
    house.human.unlock()
    works(house)
    assert 0 == house.stop()
    house.start()
    house.human.unlock()
    works(house)
    session.go_on()


def test_a_keyring_that_is_locked_at_the_start_leaves_nobody_to_endorse(house: House, session: SessionKeyring) -> None:
    """The seed is out of reach: the log goes on unendorsed until a human's word."""
    session.lock()
    house.start()
    found = quarantined(house, "audit_unendorsed")
    assert any("could not be read from the keyring" in warning for warning in found["warnings"])
    with house.agent() as agent:
        assert "quarantined" == agent.act(**CREATE)["code"]
    house.human.readopt()
    works(house)


def test_init_refuses_a_keyring_that_can_not_be_used(tmp_path: Path, session: SessionKeyring) -> None:
    session.lock()
    house = KeyringHouse(tmp_path / "h", session)
    with pytest.raises(AssertionError):
        house.init(audit_keyring=True)
    done: Any = house.run_daemon("--init", stdin=b"{}")
    assert b"schema" in done.stdout
    assert not house.places.vault.exists()
    assert not house.places.audit_keyring.exists()


def test_the_keyring_is_not_asked_unless_it_was_chosen(tmp_path: Path, session: SessionKeyring) -> None:
    with KeyringHouse(tmp_path / "h", session) as house:
        house.init().start()
        assert "file" == looked(house)["audit"]["rung"]
        house.human.unlock()
        assert 1 == len(seeds(house))
