"""Ending what a session spans, on real trees: orphans of two forks, storms of forks, other users, cgroups."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from broker.contract.cgroup_names import mount_in
from broker.core.identity import Span
from broker.server import kills
from broker.server.cgroups import Cgroup
from broker.server.kills import Killed, kill

LIMIT_S = 20.0

TREE = """
import ctypes, os, sys, time
place, adopts = sys.argv[1], sys.argv[2] == "adopts"
if adopts:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
def note(role):
    with open(place, "a") as told:
        told.write(f"{role} {os.getpid()}\\n")
note("root")
if os.fork() == 0:
    note("child")
    between = os.getpid()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note("orphan")
            time.sleep(120)
        os._exit(0)
    os.wait()
    time.sleep(120)
time.sleep(120)
"""
STORM = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
open(sys.argv[1], "a").write(f"root {os.getpid()}\\n")
for _ in range(3):
    if os.fork() == 0:
        end = time.monotonic() + 60
        while time.monotonic() < end:  # each is its parent's end: there is never the same process for long
            if os.fork():
                os._exit(0)
            time.sleep(0.002)
        os._exit(0)
open(sys.argv[1], "a").write("ready 0\\n")
time.sleep(120)
"""


@contextmanager
def started(script: str, place: Path, *more: str, roles: int) -> Iterator[dict[str, int]]:
    """A tree that noted so many roles; whatever is left of it is ended afterwards."""
    place.write_text("")
    with subprocess.Popen([sys.executable, "-I", "-c", script, str(place), *more]) as root:
        try:
            until(lambda: len(noted(place)) >= roles)
            yield noted(place)
        finally:
            root.kill()
            for pid in noted(place).values():
                if pid:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def noted(place: Path) -> dict[str, int]:
    lines = [line.split() for line in place.read_text(encoding="ascii").splitlines()]
    return {role: int(pid) for role, pid in lines}


def until(holds: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def killed(pid: int, *, span: Span = Span.TREE, cgroup: Cgroup | None = None) -> Killed:
    pidfd = os.pidfd_open(pid)
    try:
        return kill(pidfd, span=span, cgroup=cgroup, limit_s=LIMIT_S)
    finally:
        os.close(pidfd)


@pytest.mark.parametrize("children", [kills.CHILDREN, "/proc/nowhere"], ids=["told children", "all processes"])
def test_a_tree_ends_with_its_orphans_where_somebody_adopts_them(
    tmp_path: Path, children: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "CHILDREN", children)
    with started(TREE, tmp_path / "t", "adopts", roles=3) as tree:
        until(
            lambda: Path(f"/proc/{tree['orphan']}/stat").read_text().rsplit(")", 1)[1].split()[1] == str(tree["root"])
        )
        told = killed(tree["root"])

        assert (3, 0, "tree", kills.BY_TREE) == (told.processes, told.left, told.way, told.escape)
        assert [] == [role for role, pid in tree.items() if runs(pid)]


def test_an_orphan_that_nobody_adopts_escapes_and_that_is_said(tmp_path: Path) -> None:
    with started(TREE, tmp_path / "t", "lets go", roles=3) as tree:
        until(
            lambda: Path(f"/proc/{tree['orphan']}/stat").read_text().rsplit(")", 1)[1].split()[1] != str(tree["child"])
        )
        told = killed(tree["root"])

        assert (2, 0, "tree") == (told.processes, told.left, told.way)
        assert "could not be seen" in told.escape
        assert [False, False, True] == [runs(tree[role]) for role in ("root", "child", "orphan")]


def test_a_storm_of_forks_is_outrun(tmp_path: Path) -> None:
    with started(STORM, tmp_path / "t", roles=2) as tree:
        told = killed(tree["root"])

        assert (0, "tree") == (told.left, told.way)
        assert told.processes >= 2
        assert not runs(tree["root"])
        assert [] == [pid for pid in every_pid() if str(tmp_path / "t").encode() in command_line(pid)]


@pytest.mark.parametrize("span", [Span.PROCESS, Span.CONNECTION, Span.CONTAINER])
def test_who_is_no_tree_is_ended_alone(tmp_path: Path, span: Span) -> None:
    with started(TREE, tmp_path / "t", "adopts", roles=3) as tree:
        told = killed(tree["root"], span=span)

        assert (1, 0, "process") == (told.processes, told.left, told.way)
        assert not runs(tree["root"])
        assert runs(tree["child"])


@pytest.mark.parametrize("span", [Span.TREE, Span.PROCESS])
def test_nothing_is_sent_to_who_is_gone(span: Span) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        pidfd = os.pidfd_open(child.pid)
        child.kill()
        child.wait()
    told = kill(pidfd, span=span, cgroup=None)
    os.close(pidfd)

    assert ("none", 0) == (told.way, told.processes)


AS_ANOTHER = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
from broker.core.identity import Span
from broker.server.kills import kill
open("/dev/null", encoding="ascii").close()  # loads what that user can't
os.setgid(65534); os.setuid(65534)
told = kill(os.pidfd_open(int(sys.argv[1])), span=Span.TREE, cgroup=None, limit_s=5)
print(told.way, told.left)
"""


def test_whom_this_user_may_not_signal_is_told_as_left(tmp_path: Path) -> None:
    with started(TREE, tmp_path / "t", "adopts", roles=3) as tree:
        words = [sys.executable, "-c", AS_ANOTHER, str(tree["root"]), *sys.path]
        told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)

        assert "none 1\n" == told.stdout
        assert runs(tree["root"])


FROM_WITHIN = """
import os, subprocess, sys, time
sys.path[:0] = sys.argv[1:]
from broker.core.identity import Span
from broker.server.kills import kill
root, sleeper = os.getpid(), subprocess.Popen(["/bin/sleep", "120"], stdout=subprocess.DEVNULL)
if os.fork() == 0:
    told = kill(os.pidfd_open(root), span=Span.TREE, cgroup=None)
    print(told.way, told.processes, told.left, sleeper.pid, flush=True)
    os._exit(0)
time.sleep(120)
"""


def test_the_daemon_spares_itself_though_it_is_in_the_tree() -> None:
    with subprocess.Popen([sys.executable, "-c", FROM_WITHIN, *sys.path], stdout=subprocess.PIPE, text=True) as root:
        told, _ = root.communicate(timeout=60)
    way, ended, left, sleeper = told.split()

    assert ("tree", "2", "0", -9) == (way, ended, left, root.returncode)
    assert not runs(int(sleeper))


def every_pid() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


# Cgroups: on the machine's own hierarchy of version 2 where this user can make some, else over files that look alike.


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Cgroup]:
    made = real_cgroup() or fake_cgroup(tmp_path)
    yield made
    with suppress(OSError):
        made.path.rmdir()


def real_cgroup() -> Cgroup | None:
    mount = mount_in(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    if mount is None:
        return None
    path = Path(mount[0]) / f"doorward-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError:
        return None
    return Cgroup(path=path, inode=path.stat().st_ino)


def fake_cgroup(directory: Path) -> Cgroup:
    path = directory / "cgroup"
    path.mkdir()
    (path / "cgroup.events").write_text("populated 0\nfrozen 0\n")
    (path / "cgroup.procs").write_text("")
    return Cgroup(path=path, inode=path.stat().st_ino)


def join(cgroup: Cgroup, pid: int) -> None:
    with (cgroup.path / "cgroup.procs").open("a", encoding="ascii") as members:
        members.write(f"{pid}\n")


def test_a_cgroup_reaches_what_left_the_tree(tmp_path: Path, cgroup: Cgroup) -> None:
    with started(TREE, tmp_path / "t", "lets go", roles=3) as tree:
        until(lambda: parent_of(tree["orphan"]) not in {tree["root"], tree["child"]})
        for pid in tree.values():
            join(cgroup, pid)
        told = killed(tree["root"], cgroup=cgroup)

        assert ("cgroup", kills.BY_CGROUP) == (told.way, told.escape)
        assert [] == [role for role, pid in tree.items() if runs(pid)]
        assert (3, 0) == (told.processes, told.left) or not (cgroup.path / "cgroup.kill").exists()
        assert not cgroup.exists() or (cgroup.path / "cgroup.procs").read_text()


def test_without_the_kernels_own_kill_a_cgroup_is_emptied_one_by_one(
    tmp_path: Path, cgroup: Cgroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cgroup, "kill", lambda _: False)  # as before Linux 5.14
    with started(TREE, tmp_path / "t", "lets go", roles=3) as tree:
        until(lambda: parent_of(tree["orphan"]) not in {tree["root"], tree["child"]})
        for pid in tree.values():
            join(cgroup, pid)
        told = killed(tree["root"], cgroup=cgroup)

        assert "cgroup" == told.way
        assert [] == [role for role, pid in tree.items() if runs(pid)]


def test_the_daemon_spares_itself_though_it_is_in_the_cgroup(tmp_path: Path) -> None:
    cgroup = fake_cgroup(tmp_path)  # nothing real is to hold this very process
    with started(TREE, tmp_path / "t", "lets go", roles=3) as tree:
        for pid in (*tree.values(), os.getpid()):
            join(cgroup, pid)
        told = killed(tree["root"], cgroup=cgroup)

        assert "cgroup" == told.way
        assert [] == [role for role, pid in tree.items() if runs(pid)]


def test_a_cgroup_that_was_made_anew_is_another(tmp_path: Path) -> None:
    cgroup = fake_cgroup(tmp_path)
    stranger = Cgroup(path=cgroup.path, inode=cgroup.inode + 1)
    with started(TREE, tmp_path / "t", "adopts", roles=3) as tree:
        assert "tree" == killed(tree["root"], cgroup=stranger).way
    assert not stranger.kill()
