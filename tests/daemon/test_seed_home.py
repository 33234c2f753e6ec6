"""Where signing seeds live: files, the keyring, and what is done where one of them fails. With a real keyring."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.audit.epoch import EpochKey, new_epoch_key
from broker.core.secret import Secret
from broker.daemon.keychain_process import command
from broker.daemon.seed_home import Seeds
from broker.vault.keychain import Keychain
from tests.fakes.keyrings import SessionKeyring

LOG_ID = bytes(range(8))
ITEM = f"audit-seeds/{LOG_ID.hex()}"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionKeyring]:
    with SessionKeyring(tmp_path_factory.mktemp("k") / "s") as made:
        yield made


@pytest.fixture
def keychain(session: SessionKeyring) -> Iterator[Keychain]:
    made = Keychain(command(), session.environ)
    yield made
    made.remove(ITEM)
    made.close()


class Home:
    """Seeds, what they told, and what lies in files."""

    def __init__(self, directory: Path, keychain: Keychain | None) -> None:
        self.directory = directory
        self.keychain = keychain
        self.told: list[str] = []
        self.seeds = self.again()

    def again(self) -> Seeds:
        """As the next start has it."""
        self.seeds = Seeds(self.directory, LOG_ID, keychain=self.keychain, warn=self.told.append)
        return self.seeds

    def files(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())

    def next(self, number: int) -> EpochKey:
        """What a writer does for a new epoch."""
        key = new_epoch_key(number)
        self.seeds.keep(key)
        self.seeds.destroy_all_but(number)
        return key


def publics(keys: list[EpochKey]) -> list[bytes]:
    return [key.public for key in keys]


def test_seeds_in_the_keyring_leave_no_file(tmp_path: Path, keychain: Keychain) -> None:
    home = Home(tmp_path / "s", keychain)
    assert [] == home.seeds.held()
    first = home.next(1)
    second = new_epoch_key(2, endorsed=False)
    home.seeds.keep(second)
    assert [first.public, second.public] == publics(home.again().held())
    assert [True, False] == [key.endorsed for key in home.seeds.held()]
    home.seeds.destroy_all_but(2)
    assert [second.public] == publics(home.again().held())
    home.seeds.destroy_all_but(9)
    assert keychain.get(ITEM) is None
    assert ([], []) == (home.files(), home.told)


def test_a_locked_keyring_is_fallen_back_from_and_gone_back_to(
    tmp_path: Path, session: SessionKeyring, keychain: Keychain
) -> None:
    home = Home(tmp_path / "s", keychain)
    home.seeds.held()
    home.next(1)
    session.lock()
    second = home.next(2)
    assert ["0000000002.seed"] == home.files()
    assert any("kept in a file" in told and "locked" in told for told in home.told)
    assert [second.public] == publics(home.again().held())
    session.end()
    session.start()
    assert second.public in publics(home.again().held())
    third = home.next(3)
    assert ([third.public], []) == (publics(home.again().held()), home.files())


def test_a_keyring_that_holds_somebody_elses_value_holds_no_seed(tmp_path: Path, keychain: Keychain) -> None:
    keychain.put(ITEM, Secret(b"x" * 90))
    home = Home(tmp_path / "s", keychain)
    assert [] == home.seeds.held()
    key = home.next(1)
    assert [key.public] == publics(home.again().held())


def test_what_is_no_seed_of_this_log_is_set_aside_and_not_destroyed(tmp_path: Path) -> None:
    theirs = Seeds(tmp_path / "t", b"another!", keychain=None, warn=lambda _: None)
    theirs.held()
    theirs.keep(new_epoch_key(7))
    home = Home(tmp_path / "s", None)
    home.seeds.held()
    mine = home.next(3)
    content = (tmp_path / "t" / "0000000007.seed").read_bytes()
    (home.directory / "0000000007.seed").write_bytes(content)
    (home.directory / "0000000008.seed").mkdir()
    (home.directory / "0000000009.seed").symlink_to("/dev/null")
    (home.directory / "0000000004.seed").write_bytes((home.directory / "0000000003.seed").read_bytes())

    assert [mine.public] == publics(home.again().held())
    home.next(5)
    assert content == (home.directory / "0000000007.seed.foreign").read_bytes()
    aside = [f"000000000{number}.seed.foreign" for number in (4, 7, 8, 9)]
    assert sorted([*aside, "0000000005.seed"]) == home.files()
    assert 4 == len(home.told)


def test_each_new_epoch_is_told_once_it_is_durable(tmp_path: Path) -> None:
    home, begun = Home(tmp_path / "s", None), []
    home.seeds.held()
    home.seeds.after_epoch = lambda: begun.append(home.files())
    home.next(1)
    home.next(2)

    assert [["0000000001.seed"], ["0000000002.seed"]] == begun
