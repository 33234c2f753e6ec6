"""The state directory: ours alone, one daemon at a time."""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.client.places import Places
from broker.daemon import statehold
from broker.daemon.statehold import StateError, hold, prepare
from tests.live.house import ROOT


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places({"DOORWARD_HOME": str(tmp_path / "h")})


def test_a_new_installation_is_made_for_its_owner_alone(places: Places) -> None:
    before = os.umask(0)
    try:
        prepare(places)
    finally:
        os.umask(before)
    made = [places.home, places.config, places.policies, places.data, places.runtime, places.anchor]

    assert {0o700} == {path.stat().st_mode & 0o777 for path in made if path is not None}
    prepare(places)  # and is taken as it is the next time


def as_link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700, exist_ok=True)
    path.symlink_to(elsewhere)


def as_dangling_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def as_file(path: Path) -> None:
    path.touch(0o600)


def open_to_a_group(path: Path) -> None:
    path.mkdir()
    path.chmod(0o770)


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o707)


SPOILS: list[Callable[[Path], None]] = [as_link, as_dangling_link, as_file, open_to_a_group, open_to_all]


@pytest.mark.parametrize("name", ["home", "config", "data", "runtime", "anchor", "policies"])
@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
def test_a_place_that_others_could_reach_is_refused(places: Places, name: str, spoil: Callable[[Path], None]) -> None:
    """T31."""
    path: Path = getattr(places, name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    spoil(path)

    with pytest.raises(StateError, match=str(path)):
        prepare(places)


def test_a_place_of_another_user_is_refused(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(places)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)

    with pytest.raises(StateError, match="belongs to uid"):
        prepare(places)


def test_a_place_that_can_not_be_made_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StateError, match="can't be made"):
        prepare(Places({"DOORWARD_HOME": str(tmp_path / "file" / "h")}))


def test_a_path_that_no_socket_can_have_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    home = tmp_path / ("h" * 100)

    with pytest.raises(StateError, match="longer than 107 bytes; set DOORWARD_HOME to a shorter directory"):
        prepare(Places({"DOORWARD_HOME": str(home)}))
    assert not home.exists()


HOLDER = """
import sys
from broker.client.places import Places
from broker.daemon.statehold import hold
hold(Places({"DOORWARD_HOME": sys.argv[1]}))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_one_is_refused_and_told_who_holds_it(places: Places) -> None:
    """T32."""
    prepare(places)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(places.home)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        with pytest.raises(StateError, match=rf"another doorward \(pid {holder.pid}\)"):
            hold(places)
        holder.kill()
        holder.wait(10)

    descriptor = hold(places)  # the hold ended with its process
    assert f"{os.getpid()}\n" == places.lock.read_text(encoding="ascii")
    os.close(descriptor)


def test_a_link_in_the_locks_place_is_refused(places: Places) -> None:
    prepare(places)
    places.lock.symlink_to(places.data / "elsewhere")

    with pytest.raises(StateError, match="can't be opened"):
        hold(places)
    assert not (places.data / "elsewhere").exists()


@pytest.mark.parametrize("variable", ["DOORWARD_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_a_path_that_is_no_text_is_refused_before_anything_is_made(tmp_path: Path, variable: str) -> None:
    odd = tmp_path / os.fsdecode(b"h\xff")
    environ = {name: str(tmp_path / name) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    with pytest.raises(StateError, match="is not UTF-8; set DOORWARD_HOME") as refused:
        prepare(Places({**environ, variable: str(odd)}))

    assert str(refused.value).encode()
    assert not odd.exists()


def test_a_daemon_in_a_path_that_is_no_text_says_so_in_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-m", "broker.daemon"],
        env={**os.environ, "DOORWARD_HOME": os.fsdecode(os.fsencode(tmp_path) + b"/h\xff")},
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert 1 == ended.returncode
    assert ended.stderr.startswith(b"doorward: the path ")
    assert 1 == ended.stderr.count(b"\n")


@pytest.mark.parametrize("says", [True, False])
def test_a_holder_that_has_just_begun_is_waited_for_until_it_says_who_it_is(
    places: Places, monkeypatch: pytest.MonkeyPatch, *, says: bool
) -> None:
    prepare(places)
    monkeypatch.setattr(statehold, "HOLDER_TRIES", 1000 if says else 2)
    with places.lock.open("w", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        later = threading.Timer(0.05, lambda: places.lock.write_text(f"{os.getpid()}\n", encoding="ascii"))
        if says:
            later.start()
        with pytest.raises(StateError, match=rf"\(pid {os.getpid() if says else 'unknown'}\)"):
            hold(places)
        later.cancel()
