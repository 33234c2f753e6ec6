"""T31: whoever swaps policy files while they are read gets a good set read, or none: never what a link leads to."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.policyfiles.directory import read_directory, read_system
from broker.policyfiles.files import PolicyError, PolicyFile

ME = os.getuid()
GOOD = b"version = 1\n# good\n"
LONG = b"version = 1\n" + b"# a line that is the same as all others\n" * 3000
FOREIGN = b"version = 1\n# of a foreign file\n"
READS_MAX = 20_000
WANTED = 25  # of good sets and of refusals each, before it is enough


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    directory.mkdir(mode=0o755)
    write(directory / "a.toml", GOOD)
    write(tmp_path / "foreign", FOREIGN)
    return directory


def write(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    path.chmod(0o644)


@contextmanager
def meanwhile(swap: Callable[[], None]) -> Iterator[None]:
    """Swap in a thread for as long as the block lasts."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.is_set():
            swap()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def swaps(place: Path) -> dict[str, Callable[[], None]]:
    target, foreign, spare = place / "a.toml", place.parent / "foreign", place.parent / "spare"

    def back() -> None:
        write(spare, GOOD)
        spare.rename(target)

    def a_link() -> None:
        spare.symlink_to(foreign)
        spare.rename(target)
        back()

    def another_name() -> None:
        os.link(foreign, spare)
        spare.rename(target)
        back()

    def a_pipe() -> None:
        os.mkfifo(spare, 0o600)
        spare.rename(target)
        back()

    def a_writable_file() -> None:
        write(spare, FOREIGN)
        spare.chmod(0o666)
        spare.rename(target)
        back()

    def another_directory() -> None:
        place.rename(place.with_name("moved"))
        place.symlink_to(place.with_name("moved"))
        place.unlink()
        place.with_name("moved").rename(place)

    return {one.__name__: one for one in (a_link, another_name, a_pipe, a_writable_file, another_directory)}


def read_in_a_race(read: Callable[[], tuple[PolicyFile, ...]], swap: Callable[[], None]) -> set[bytes]:
    """Everything that was read while somebody swaps; until it was read and refused often enough."""
    seen: set[bytes] = set()
    good = refused = 0
    with meanwhile(swap):
        for _ in range(READS_MAX):
            try:
                files = read()
            except PolicyError:
                refused += 1
            else:
                good += 1
                seen |= {file.raw for file in files}
            if min(good, refused) >= WANTED:
                break
    return seen


@pytest.mark.parametrize("kind", ["a_link", "another_name", "a_pipe", "a_writable_file", "another_directory"])
@pytest.mark.parametrize("reader", ["user", "machine"])
def test_only_what_was_checked_is_read(place: Path, kind: str, reader: str) -> None:
    def read() -> tuple[PolicyFile, ...]:
        return read_directory(place, ME) if reader == "user" else read_system(place, root_uid=ME)

    assert read_in_a_race(read, swaps(place)[kind]) <= {GOOD}


def test_a_file_that_is_written_while_it_is_read_is_read_whole_or_not_at_all(place: Path) -> None:
    texts = {GOOD, LONG}
    target = place / "a.toml"

    def rewrite() -> None:
        for text in texts:
            with target.open("r+b") as file:
                file.write(text)
                file.truncate(len(text))

    half_written = read_in_a_race(lambda: read_directory(place, ME), rewrite) - texts
    assert all(raw.startswith(GOOD) or raw in LONG for raw in half_written), "a moment between two writes at most"


def test_a_file_of_another_user_is_refused_wherever_it_stands(place: Path) -> None:
    if ME == 0:
        os.chown(place / "a.toml", 12345, -1)
    with pytest.raises(PolicyError, match="belongs to uid"):
        read_directory(place, ME + 1, root_uid=ME + 2)
