"""T31: symbolic and hard links, wrong owners and modes on state, sockets, policies and ledger are refused."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.house import House

pytestmark = pytest.mark.live


def moved_and_linked(path: Path) -> None:
    """It is elsewhere now, and a link to it stands in its place."""
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def open_to_the_group(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o020)


def with_another_name(path: Path) -> None:
    os.link(path, path.with_name("another-name"))


def readable_by_all(path: Path) -> None:
    path.chmod(0o644)


SPOILS: list[tuple[str, Callable[[Path], None]]] = [
    *((place, moved_and_linked) for place in ("config", "data", "runtime", "anchor", "vault", "ledger", "pin", "lock")),
    *((place, open_to_the_group) for place in ("home", "config", "data", "runtime", "anchor", "vault", "ledger")),
    *((place, with_another_name) for place in ("vault", "ledger", "pin")),
    *((place, readable_by_all) for place in ("vault", "ledger")),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> House:
    """State that a daemon has used once."""
    house = House(tmp_path_factory.mktemp("t31") / "h").init()
    with house:
        house.start()
        house.stop()
    return house


@pytest.mark.parametrize(("name", "spoil"), SPOILS, ids=lambda part: getattr(part, "__name__", part))
def test_a_daemon_does_not_start_over_it(made: House, name: str, spoil: Callable[[Path], None]) -> None:
    path = getattr(made.places, name)
    mode = path.stat().st_mode & 0o777
    try:
        spoil(path)
        told = made.run_daemon()
        assert (1, b"") == (told.returncode, told.stdout)
        assert told.stderr.startswith(b"doorward: ")
        assert 1 == told.stderr.count(b"\n"), told.stderr
    finally:
        if path.is_symlink():
            path.unlink()
            path.with_name("elsewhere").rename(path)
        path.with_name("another-name").unlink(missing_ok=True)
        path.chmod(mode)


def test_what_was_put_right_is_taken_again(made: House) -> None:
    with made:
        made.start()
        assert 0 == made.stop()


@pytest.mark.parametrize(
    "spoil", [moved_and_linked, open_to_the_group, with_another_name], ids=lambda one: one.__name__
)
def test_a_policy_file_that_others_could_write_is_not_read(made: House, spoil: Callable[[Path], None]) -> None:
    made.human.write_policy("mine.toml", "version = 1\n")
    path = made.places.policies / "mine.toml"
    spoil(path)
    with made:
        made.start().open()
        pending = made.human.client.policy_pending()
        made.stop()
    for left in made.places.policies.iterdir():
        left.unlink()

    assert pending["faults"]
    assert pending["digest"] in {None, ""}
