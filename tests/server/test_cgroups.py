"""The daemon's look at a launcher's cgroup, over files that look like a hierarchy."""

import os
import time
from pathlib import Path

import pytest

from broker.contract.cgroup_names import name_of
from broker.server import cgroups
from broker.server.cgroups import Cgroup, of_launcher

PID = 4711


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "mount" / "app.slice" / name_of(PID, "ab")
    place.mkdir(parents=True)
    mounts, membership = tmp_path / "mounts", tmp_path / "membership"
    mounts.write_text(f"36 24 0:31 / {tmp_path / 'mount'} rw - cgroup2 cgroup2 rw\n")
    membership.write_text(f"0::/app.slice/{name_of(PID, 'ab')}\n")
    monkeypatch.setattr(cgroups, "MOUNTS", str(mounts))
    monkeypatch.setattr(cgroups, "MEMBERSHIP", str(membership))
    return place


def test_a_launchers_cgroup_is_the_one_that_the_kernel_says_it_is_in(place: Path) -> None:
    found = of_launcher(PID)

    assert Cgroup(path=place, inode=place.stat().st_ino) == found
    assert found.exists()
    assert of_launcher(PID + 1) is None, "it is in one of another launcher"
    place.rmdir()
    assert of_launcher(PID) is None
    assert not found.exists()


def test_without_a_hierarchy_there_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "MOUNTS", str(place / "nowhere"))

    assert of_launcher(PID) is None


def test_who_is_in_it_is_who_is_below_it_too(place: Path) -> None:
    (place / "cgroup.procs").write_text("1\n2\n")
    (place / "below").mkdir()
    (place / "below" / "cgroup.procs").write_text("3\n")
    cgroup = Cgroup(path=place, inode=place.stat().st_ino)

    assert {1, 2, 3} == cgroup.members()
    assert set() == Cgroup(path=place / "gone", inode=1).members()


def test_the_kernel_is_asked_to_end_all_where_it_can(place: Path) -> None:
    cgroup = Cgroup(path=place, inode=place.stat().st_ino)
    (place / "cgroup.kill").write_text("")
    assert cgroup.kill()
    assert "1" == (place / "cgroup.kill").read_text()
    (place / "cgroup.kill").unlink()
    (place / "cgroup.kill").mkdir()
    assert not cgroup.kill()


def test_it_is_empty_when_the_kernel_says_so_or_it_is_gone(place: Path) -> None:
    cgroup = Cgroup(path=place, inode=place.stat().st_ino)
    (place / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert not cgroup.empty_by(time.monotonic() - 1)
    (place / "cgroup.events").write_text("populated 0\nfrozen 0\n")
    assert cgroup.empty_by(time.monotonic() - 1)
    assert Cgroup(path=place / "gone", inode=1).empty_by(time.monotonic() - 1)


def test_it_is_removed_with_the_empty_ones_below_and_not_if_something_is_left(place: Path) -> None:
    cgroup = Cgroup(path=place, inode=place.stat().st_ino)
    (place / "below").mkdir()
    (place / "file").write_text("")
    assert not cgroup.remove()
    (place / "file").unlink()
    assert cgroup.remove()
    assert os.path.lexists(place.parent)
