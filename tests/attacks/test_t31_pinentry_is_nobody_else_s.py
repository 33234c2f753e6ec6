"""T31: no passphrase is typed into a program that somebody else could put in the place of pinentry."""

import os
from pathlib import Path

import pytest

from broker.cli.faults import CliError
from broker.cli.pinentry import refuse_untrusted
from tests.fakes.pinentries import giving


def test_a_program_below_directories_of_ours_is_taken(tmp_path: Path) -> None:
    refuse_untrusted(str(giving(tmp_path / "bin", "canary")))


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_one_in_a_directory_that_others_may_write_is_not(tmp_path: Path, mode: int) -> None:
    """With the sticky bit they can't put another in its place; without it, at any moment."""
    program = giving(tmp_path / "bin", "canary")
    program.parent.chmod(mode)

    if mode & 0o1000:
        refuse_untrusted(str(program))
        return
    with pytest.raises(CliError, match="somebody else"):
        refuse_untrusted(str(program))


def test_a_link_to_a_good_one_is_as_good_as_the_directory_that_it_lies_in(tmp_path: Path) -> None:
    program, open_to_all = giving(tmp_path / "bin", "canary"), tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link = open_to_all / "pinentry"
    link.symlink_to(program)

    with pytest.raises(CliError, match="somebody else"):
        refuse_untrusted(str(link))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_one_in_a_directory_of_another_user_is_not(tmp_path: Path) -> None:
    program = giving(tmp_path / "bin", "canary")
    os.chown(program.parent, 65534, 65534)

    with pytest.raises(CliError, match="somebody else"):
        refuse_untrusted(str(program))
