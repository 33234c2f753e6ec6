"""A real daemon beside a login manager: locked with the screen and before a sleep, by its word and nobody else's."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.house import House, until
from tests.live.login_manager import MANAGER, NAME, PATH, LoginManager

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def logind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginManager]:
    with LoginManager(tmp_path_factory.mktemp("b") / "bus") as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, logind: LoginManager) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("h") / "h") as made:
        made.environ = {**made.environ, "DBUS_SYSTEM_BUS_ADDRESS": logind.bus.address}
        yield made.init().start()


@pytest.fixture(scope="module")
def session(logind: LoginManager, running: House) -> str:
    """The daemon's own; it is known later than the daemon."""
    assert "no_session" == until(lambda: told(running)["login_session"].replace("absent", ""))
    path = logind.add_session("c1", is_own=True)
    until(lambda: told(running)["login_session"] == "ready")
    return path


@pytest.fixture
def house(running: House, session: str) -> House:
    """With an open vault, and a sleep that waits for it."""
    assert session
    running.human.unlock()
    until(lambda: told(running)["delays_sleep"])
    return running


def told(house: House) -> dict[str, Any]:
    found = house.human.client.status()["desktop"]
    assert isinstance(found, dict)
    return found


def vault(house: House) -> str:
    found = house.human.client.status()["vault"]
    assert isinstance(found, dict)
    return str(found["state"])


def why_locked(house: House) -> str:
    """The latest reason on record."""
    house.human.unlock()
    house.human.open_session()
    return str(house.human.events("vault.locked")[-1]["fields"]["reason"])


def test_a_sleep_waits_until_the_vault_is_locked(house: House, logind: LoginManager) -> None:
    assert [("sleep", "doorward", "delay")] == logind.inhibitors()
    logind.sleep(begins=True)
    until(lambda: not logind.inhibitors())
    assert "locked" == vault(house)
    logind.sleep(begins=False)
    until(logind.inhibitors)
    assert "suspend" == why_locked(house)


@pytest.mark.parametrize("how", ["signal", "hint"])
def test_a_locked_screen_locks_the_vault(house: House, logind: LoginManager, session: str, how: str) -> None:
    if how == "signal":
        logind.lock(session)
    else:
        logind.hint_locked(session)
    until(lambda: vault(house) == "locked")
    assert "screen_locked" == why_locked(house)


def test_what_another_program_says_and_what_another_session_does_is_nothing(
    house: House, logind: LoginManager, session: str
) -> None:
    before = told(house)["forged_signals"]
    other = logind.add_session("c2", is_own=False)
    logind.lock(other)
    logind.forge(PATH, MANAGER, "PrepareForSleep", "b", True)  # noqa: FBT003 - begins
    logind.forge(session, f"{NAME}.Session", "Lock")
    until(lambda: told(house)["forged_signals"] == before + 2)
    assert "ready" == vault(house)
    assert [("sleep", "doorward", "delay")] == logind.inhibitors()


def test_a_login_manager_that_ends_is_no_error_and_is_found_again(house: House, logind: LoginManager) -> None:
    logind.end()
    until(lambda: told(house)["login_session"] == "absent")
    assert ("ready", False) == (vault(house), told(house)["delays_sleep"])
    logind.start()
    until(lambda: told(house)["delays_sleep"])
    logind.sleep(begins=True)
    until(lambda: vault(house) == "locked")


def test_whoever_does_not_want_it_is_left_alone(running: House, logind: LoginManager) -> None:
    running.stop()
    running.start("--no-desktop-lock", "--no-notices")
    running.human.unlock()
    found = told(running)
    assert ("off", "off", False) == (found["notices"], found["login_session"], found["delays_sleep"])
    assert [] == logind.inhibitors()
    assert 0 == running.stop()
