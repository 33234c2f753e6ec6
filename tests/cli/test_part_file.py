"""What comes from the daemon stands under its name whole, or not at all."""

import os
from pathlib import Path

import pytest

from broker.cli.faults import CliError
from broker.cli.part_file import PartFile


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "got"


def test_it_has_its_name_once_it_is_kept(target: Path) -> None:
    target.write_bytes(b"before")
    file = PartFile(str(target))
    file.write(b"one ")
    file.write(b"two")
    before = target.read_bytes()
    file.keep()
    file.discard()  # what was kept stays

    assert (b"before", b"one two") == (before, target.read_bytes())
    assert 0o600 == target.stat().st_mode & 0o777
    assert [target] == list(target.parent.iterdir())


def test_nothing_is_left_of_what_is_not_whole(target: Path) -> None:
    file = PartFile(str(target))
    file.write(b"half")
    file.discard()

    assert [] == list(target.parent.iterdir())


def test_an_empty_one_is_kept_too(target: Path) -> None:
    PartFile(str(target)).keep()

    assert b"" == target.read_bytes()


def test_nothing_is_made_or_taken_away_before_there_is_something_to_write(target: Path) -> None:
    somebodys = target.with_name(f"got.doorward-{os.getpid()}.part")
    somebodys.write_bytes(b"another's")
    file = PartFile(str(target))
    file.discard()
    with pytest.raises(CliError, match="can't be written: File exists"):
        file.write(b"half")
    file.discard()

    assert b"another's" == somebodys.read_bytes()
    assert not target.exists()


def test_a_name_that_can_not_be_had_is_told_and_nothing_is_left(target: Path) -> None:
    target.mkdir()
    file = PartFile(str(target))
    file.write(b"whole")
    with pytest.raises(CliError, match="can't be written: Is a directory"):
        file.keep()
    file.discard()

    assert [target] == list(target.parent.iterdir())
