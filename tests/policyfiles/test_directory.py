"""Reading the directory: no link is followed, no stranger's file is read, and nothing is read without bound."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.policyfiles.directory import MAX_ENTRIES, MAX_FILE_BYTES, MAX_FILES, glance, read_directory, read_system
from broker.policyfiles.files import PolicyError

ME = os.getuid()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    directory.mkdir(mode=0o755)
    (directory / "b.toml").write_bytes(b"version = 1\n")
    (directory / "a.toml").write_bytes(b"version = 1\n# a\n")
    (directory / "ca.pem").write_bytes(b"pem")
    for path in directory.iterdir():
        path.chmod(0o644)
    return directory


def refused(path: Path, owner_uid: int = ME) -> str:
    with pytest.raises(PolicyError) as caught:
        read_directory(path, owner_uid)
    assert () == caught.value.faults
    return str(caught.value)


def test_policy_and_ca_files_are_read_by_name_and_all_others_left_alone(place: Path) -> None:
    (place / "notes.txt").write_text("x")
    (place / ".hidden.toml").symlink_to("/etc/passwd")
    (place / "sub").mkdir()
    (place / "sub" / "c.toml").write_text("x")

    assert ["a.toml", "b.toml", "ca.pem"] == [file.name for file in read_directory(place, ME)]
    assert b"version = 1\n# a\n" == read_directory(place, ME)[0].raw


def test_a_directory_that_is_not_there_holds_no_policy(tmp_path: Path) -> None:
    assert () == read_directory(tmp_path / "nosuch", ME)


def test_a_link_to_a_file_is_not_followed(place: Path) -> None:
    (place / "c.toml").symlink_to(place / "a.toml")

    assert "c.toml: can't be opened (symbolic links are not followed)" in refused(place)


def test_a_link_to_the_directory_is_not_followed(place: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(place)

    assert "can't be read as a directory" in refused(link)


def test_a_file_in_place_of_the_directory_is_refused(place: Path) -> None:
    assert "can't be read as a directory" in refused(place / "a.toml")


def test_a_hard_link_is_refused(place: Path) -> None:
    os.link(place / "a.toml", place / "z.toml")

    assert "has 2 hard links" in refused(place)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused_with_the_remedy(place: Path, mode: int) -> None:
    (place / "a.toml").chmod(mode)

    assert "run: chmod go-w" in refused(place)


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_directory_that_others_may_write_is_refused(place: Path, mode: int) -> None:
    place.chmod(mode)

    assert "policies: group or others may write it" in refused(place)


def test_a_strangers_file_is_refused(place: Path) -> None:
    if ME != 0:
        assert f"belongs to uid {ME}" in refused(place, owner_uid=ME + 1)
        return
    os.chown(place / "b.toml", 12345, -1)

    assert "b.toml: belongs to uid 12345; it has to belong to root" in refused(place)


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(place: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(place / "c.toml", 0o600)
    else:
        (place / "c.toml").mkdir(mode=0o700)

    assert "c.toml: is no regular file" in refused(place)


def test_a_file_over_the_bound_is_refused(place: Path) -> None:
    (place / "b.toml").write_bytes(b"#" * MAX_FILE_BYTES)
    assert MAX_FILE_BYTES == len(read_directory(place, ME)[1].raw)

    (place / "b.toml").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert "is larger than" in refused(place)


def test_more_files_than_the_bound_are_refused(place: Path) -> None:
    for number in range(MAX_FILES):
        (place / f"n{number}.toml").write_bytes(b"")

    assert f"at most {MAX_FILES} are read" in refused(place)


@pytest.mark.parametrize("name", ["a b.toml", "x\u202ey.toml", "-a.toml", "a\nb.toml"])
def test_an_odd_name_is_refused_and_shown_as_ascii(place: Path, name: str) -> None:
    (place / name).write_bytes(b"")

    told = refused(place)

    assert told.isascii()
    assert "\n" not in told


def test_a_name_that_is_no_text_is_refused(place: Path) -> None:
    with (place / os.fsdecode(b"x\xff.toml")).open("wb"):
        pass

    assert refused(place).isascii()


def test_more_entries_of_any_name_than_the_bound_are_refused_and_not_looked_through(place: Path) -> None:
    for number in range(MAX_ENTRIES):
        (place / f"n{number}.txt").touch()

    assert f"holds more than {MAX_ENTRIES} files" in refused(place)
    assert ("too many",) == glance(place, settled_ns=-(10**15))


def test_a_file_knows_when_and_by_whom_it_was_written(place: Path) -> None:
    os.utime(place / "a.toml", (5, 7))

    file = read_directory(place, ME)[0]
    assert (7000, (place / "a.toml").stat().st_uid) == (file.modified_at_ms, file.uid)


def changes(place: Path) -> list[Callable[[], object]]:
    a = place / "a.toml"
    return [
        lambda: a.write_bytes(b"version = 2\n# a\n"),
        lambda: a.chmod(0o600),
        lambda: os.link(a, place / "c.txt"),
        (place / "new.toml").touch,
        lambda: (place / "new.toml").rename(place / "newer.toml"),
        (place / "newer.toml").unlink,
        lambda: (a.rename(place / "old.txt"), (place / "old.txt").rename(a)),
        lambda: place.chmod(0o700),
        lambda: place.rename(place.with_name("moved")),
    ]


def test_a_glance_differs_after_every_change_and_stays_without_one(place: Path) -> None:
    def look() -> tuple[object, ...] | None:
        return glance(place, settled_ns=-(10**15))

    for change in changes(place):
        before = look()
        assert before == look()
        change()
        assert before != look()
    assert ("none",) == look()


def test_a_glance_at_what_was_just_written_is_not_relied_on(place: Path) -> None:
    assert glance(place) is None
    assert ("none",) == glance(place / "nosuch")
    assert ("unreadable", errno.ENOTDIR) == glance(place / "a.toml")


def test_the_machines_own_files_go_by_their_whole_path(place: Path) -> None:
    assert [str(place / "a.toml"), str(place / "b.toml"), str(place / "ca.pem")] == [
        file.name for file in read_system(place, root_uid=ME)
    ]
    assert () == read_system(place / "nosuch", root_uid=ME)
    assert () == read_system(place / "nosuch" / "deeper", root_uid=ME)


@pytest.mark.parametrize(("mode", "is_refused"), [(0o777, True), (0o775, True), (0o1777, False), (0o755, False)])
def test_every_directory_above_is_changed_by_root_alone(place: Path, mode: int, is_refused: bool) -> None:  # noqa: FBT001 - a verdict
    place.parent.chmod(mode)
    try:
        if not is_refused:
            assert read_system(place, root_uid=ME)
            return
        with pytest.raises(PolicyError, match="is no directory that root alone may change"):
            read_system(place, root_uid=ME)
    finally:
        place.parent.chmod(0o700)


def test_a_link_above_is_refused(place: Path) -> None:
    place.parent.with_name("link").symlink_to(place.parent)
    try:
        with pytest.raises(PolicyError, match="is no directory that root alone may change"):
            read_system(place.parent.with_name("link") / "policies", root_uid=ME)
    finally:
        place.parent.with_name("link").unlink()


def test_another_users_directory_above_is_refused(place: Path) -> None:
    with pytest.raises(PolicyError):
        read_system(place, root_uid=ME + 1) if ME else read_system(strangers(place), root_uid=0)


def strangers(place: Path) -> Path:
    os.chown(place.parent, 12345, -1)
    return place
