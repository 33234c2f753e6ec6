"""The process behind a connection, asked of the kernel about real processes."""

import array
import errno
import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.server import peer
from broker.server.peer import PeerError, PinnedPeer, alive, inspect, open_process, run_of, with_digest
from tests.fakes.processes import connected, listening, other_program
from tests.live.house import until

BOOT = "boot-1"


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with listening(tmp_path / "s") as made:
        yield made


class Spoken:
    """A connection of which the kernel says what a test wants it to say."""

    def __init__(self, link: socket.socket, *, pinning: int | None = None, credentials: bytes | None = None) -> None:
        self._link = link
        self._pinning = pinning
        self._credentials = credentials

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        if option == peer.SO_PEERPIDFD and self._pinning is not None:
            raise OSError(self._pinning, os.strerror(self._pinning))
        if option == socket.SO_PEERCRED and self._credentials is not None:
            return self._credentials
        return self._link.getsockopt(level, option, size)


def looked_at(connection: peer.Endpoint) -> PinnedPeer:
    pinned = inspect(connection, boot=BOOT)
    pinned.close()
    return pinned


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_peer_is_told_by_the_kernel(listener: socket.socket) -> None:
    with connected(listener) as child:
        pinned = inspect(child.link, boot=BOOT)
        process = pinned.facts.process

        assert (child.pid, os.geteuid()) == (process.pid, process.uid)
        assert os.path.realpath(sys.executable) == process.exe
        assert run_of(child.pid) == process.run
        assert sys.executable == process.argv[0]
        assert str(Path.cwd()) == process.cwd
        assert not pinned.facts.foreign_namespace
        assert alive(pinned.pidfd)
        child.kill()
        assert not alive(pinned.pidfd)
        pinned.close()
        pinned.close()  # once more does no harm


def test_ancestors_are_pinned_from_the_nearest_on(listener: socket.socket) -> None:
    with connected(listener) as child:
        ancestors = looked_at(child.link).facts.ancestors

        assert [os.getpid(), os.getppid()] == [process.pid for process in ancestors][:2]
        assert 1 == ancestors[-1].pid or os.getppid() == 0


def test_looking_at_peers_leaves_no_descriptor_open(listener: socket.socket) -> None:
    with connected(listener) as child:
        looked_at(child.link)
        before = open_descriptors()
        looked_at(child.link)
        child.kill()
        with pytest.raises(PeerError):
            inspect(child.link, boot=BOOT)

        assert before == open_descriptors()


def test_a_peer_that_is_gone_is_refused_whoever_has_its_number_now(listener: socket.socket) -> None:
    with connected(listener) as child:
        child.kill()
        with pytest.raises(PeerError, match="exited"):
            inspect(child.link, boot=BOOT)


def test_a_passed_on_descriptor_names_who_connected_and_not_who_uses_it(listener: socket.socket) -> None:
    """Once the one who connected is gone, nobody may speak for it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        program = (
            "import array, os, socket, sys\n"
            "link = socket.socket(socket.AF_UNIX); link.connect(sys.argv[1])\n"
            "out = socket.socket(fileno=int(sys.argv[2]))\n"
            "out.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [link.fileno()]))])\n"
            "sys.stdin.read()\n"
        )
        with subprocess.Popen(
            [sys.executable, "-I", "-c", program, listener.getsockname(), str(theirs.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        ) as connector:
            link, _ = listener.accept()
            _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
            passed = array.array("i", ancillary[0][2])[0]
            with link, socket.socket(fileno=passed):
                assert connector.pid == looked_at(link).facts.process.pid
                connector.kill()
                connector.wait(10)
                with pytest.raises(PeerError, match="exited"):
                    inspect(link, boot=BOOT)


@pytest.mark.parametrize("said", [errno.ESRCH, errno.EINVAL, errno.EIO])
def test_no_fault_of_the_kernel_but_one_leads_to_a_guess(listener: socket.socket, said: int) -> None:
    with connected(listener) as child, pytest.raises(PeerError, match="exited"):
        inspect(Spoken(child.link, pinning=said), boot=BOOT)


def test_an_older_kernel_names_the_peer_by_its_credentials(listener: socket.socket) -> None:
    with connected(listener) as child:
        assert child.pid == looked_at(Spoken(child.link, pinning=errno.ENOPROTOOPT)).facts.process.pid
        child.kill()
        with pytest.raises(PeerError, match="exited"):
            inspect(Spoken(child.link, pinning=errno.ENOPROTOOPT), boot=BOOT)


def test_a_peer_outside_our_namespace_is_refused_with_the_remedy(listener: socket.socket) -> None:
    nobody = Spoken(listener, pinning=errno.ENOPROTOOPT, credentials=bytes(12))

    with pytest.raises(PeerError, match="listener of its own"):
        inspect(nobody, boot=BOOT)


def test_this_kernel_is_asked_whether_it_pins_peers() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            os.close(int.from_bytes(ours.getsockopt(socket.SOL_SOCKET, peer.SO_PEERPIDFD, 4), sys.byteorder))
            pins = True
        except OSError:
            pins = False

    before = open_descriptors()
    assert pins is peer.peerpidfd_works()
    assert before == open_descriptors()


def test_an_orphan_of_two_forks_has_lost_its_first_ancestors(listener: socket.socket) -> None:
    program = (
        "import os, socket, sys\n"
        "if os.fork() == 0:\n"
        "    between = os.getpid()\n"
        "    if os.fork() == 0:\n"
        "        while os.getppid() == between: pass\n"
        "        link = socket.socket(socket.AF_UNIX); link.connect(sys.argv[1]); link.recv(1)\n"
        "    os._exit(0)\n"
        "os.wait(); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", program, listener.getsockname()], stdin=subprocess.PIPE
    ) as launcher:
        link, _ = listener.accept()
        with link:
            facts = looked_at(link).facts
            link.sendall(b"x")
        launcher.kill()

    assert launcher.pid not in {process.pid for process in facts.ancestors}


def test_exec_makes_another_executable_of_the_same_process(listener: socket.socket, tmp_path: Path) -> None:
    with connected(listener) as child:
        before = looked_at(child.link).facts.process
        assert "became" == child.tell(f"exec {other_program(tmp_path)}")
        after = looked_at(child.link).facts.process

        assert before.key == after.key
        assert before.exe_id != after.exe_id
        assert "another" == after.name


def test_the_executable_of_a_process_that_hides_itself_may_be_unknown(listener: socket.socket) -> None:
    with connected(listener) as child:
        assert "done" == child.tell("undumpable")
        process = looked_at(child.link).facts.process

        assert (child.pid, os.geteuid()) == (process.pid, process.uid)
        assert process.exe in {None, os.path.realpath(sys.executable)}  # root may look all the same


def test_a_process_is_opened_again_only_as_the_very_same(listener: socket.socket) -> None:
    with connected(listener) as child:
        process = looked_at(child.link).facts.process
        wrong: list[Callable[[], int | None]] = [
            lambda: open_process(child.pid, start_ticks=process.start_ticks + 1, inode=0),
            lambda: open_process(child.pid, start_ticks=process.start_ticks, inode=process.inode + 1),
            lambda: open_process(1 << 22, start_ticks=1, inode=0),
        ]
        before = open_descriptors()
        assert [None, None, None] == [look() for look in wrong]
        for inode in {process.inode, 0}:
            pidfd = open_process(child.pid, start_ticks=process.start_ticks, inode=inode)
            assert pidfd is not None
            os.close(pidfd)
        child.kill()
        assert open_process(child.pid, start_ticks=process.start_ticks, inode=process.inode) is None
        assert before == open_descriptors()


def test_the_digest_is_that_of_the_file_that_runs(listener: socket.socket) -> None:
    with connected(listener) as child:
        process = looked_at(child.link).facts.process
        image = Path(sys.executable).resolve().read_bytes()

        assert hashlib.sha256(image).hexdigest() == with_digest(process).exe_sha256
        child.kill()
        assert with_digest(process).exe_sha256 is None
        until(lambda: run_of(child.pid) is None)
