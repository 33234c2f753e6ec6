"""The launcher's cgroup, over directories that look like a hierarchy; the real one is met in tests/live."""

import os
from pathlib import Path

import pytest

from broker.cli import own_cgroup
from broker.cli.own_cgroup import OwnCgroup, delegated
from broker.contract.cgroup_names import PREFIX, is_of_launcher


@pytest.fixture
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process is said to be, with a directory above that the mount does not show."""
    place = tmp_path / "mount" / "app.slice"
    place.mkdir(parents=True)
    (place / "cgroup.procs").write_text("")
    mounts, membership = tmp_path / "mounts", tmp_path / "membership"
    mounts.write_text(f"36 24 0:31 /user.slice {tmp_path / 'mount'} rw - cgroup2 cgroup2 rw\n")
    membership.write_text("1:cpu:/\n0::/user.slice/app.slice\n")
    monkeypatch.setattr(own_cgroup, "MOUNTS", str(mounts))
    monkeypatch.setattr(own_cgroup, "MEMBERSHIP", str(membership))
    return place


def test_it_is_made_below_our_own_entered_and_left_again(above: Path) -> None:
    left_over = above / f"{PREFIX}1-old"
    left_over.mkdir()
    made = OwnCgroup.enter()

    assert made is not None
    assert Path(made.path).parent == above
    assert is_of_launcher(made.path, os.getpid())
    assert "0" == (Path(made.path) / "cgroup.procs").read_text()
    assert not left_over.exists(), "what earlier launchers left is swept"
    (Path(made.path) / "cgroup.procs").unlink()  # the kernel's own files keep no directory
    made.leave()
    assert "0" == (above / "cgroup.procs").read_text()
    assert not Path(made.path).exists()


def test_one_that_is_still_in_use_is_left_to_a_later_launcher(above: Path) -> None:
    made = OwnCgroup.enter()
    assert made is not None
    made.leave()  # a file is in there

    assert Path(made.path).exists()
    assert above.exists()


def test_where_it_can_not_be_left_it_is_not_removed(above: Path) -> None:
    made = OwnCgroup.enter()
    assert made is not None
    (above / "cgroup.procs").unlink()
    (above / "cgroup.procs").mkdir()
    (Path(made.path) / "cgroup.procs").unlink()
    made.leave()

    assert Path(made.path).exists()


def test_whether_it_could_be_made_is_told_without_making_one(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [*above.iterdir()]
    assert delegated()
    assert before == [*above.iterdir()]
    (above / "cgroup.procs").unlink()
    assert not delegated()
    monkeypatch.setattr(own_cgroup, "MOUNTS", str(above / "nowhere"))
    assert not delegated()


@pytest.mark.parametrize("missing", ["MOUNTS", "MEMBERSHIP"])
def test_without_a_hierarchy_there_is_none(above: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    empty = above.parent.parent / "empty"
    empty.write_text("")
    monkeypatch.setattr(own_cgroup, missing, str(empty))
    assert OwnCgroup.enter() is None
    monkeypatch.setattr(own_cgroup, missing, str(empty / "nowhere"))
    assert OwnCgroup.enter() is None


def test_where_it_is_not_delegated_there_is_none(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: str) -> None:
        raise PermissionError

    monkeypatch.setattr(own_cgroup, "_move_to", refused)
    assert OwnCgroup.enter() is None
    (above.parent.parent / "membership").write_text("0::/user.slice/gone\n")
    assert OwnCgroup.enter() is None
