"""T31: whoever may write the directory of a listening socket gets no other file's mode changed by it.

The directory of `doorward listen` is mounted into a container, so that what lives in there can put a link in the
socket's place at any moment.
"""

import json
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

# Puts a link where the socket was at every moment at which a mode is about to be changed by name.
SWAPPING = """
import json, os, sys
from pathlib import Path
from broker.cli.listen import listening
from broker.daemon.sockets import listen

which, path, victim, mode = sys.argv[1:]

def swap(event, words):
    if event == "os.chmod" and str(words[0]) == path:
        os.unlink(path)
        os.symlink(victim, path)

sys.addaudithook(swap)
made = listening(path, int(mode, 8)) if which == "listen" else listen(path, mode=int(mode, 8))
print(json.dumps({"mode": os.lstat(path).st_mode & 0o777, "bound": made.getsockname()}))
"""


@pytest.mark.parametrize("which", ["listen", "daemon"])
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_a_link_in_the_socket_s_place_changes_no_mode(tmp_path: Path, which: str, mode: int) -> None:
    victim, path = tmp_path / "victim", tmp_path / "agent.sock"
    victim.write_text("canary", encoding="ascii")
    victim.chmod(0o400)
    done = subprocess.run(
        [sys.executable, "-I", "-c", SWAPPING, which, str(path), str(victim), f"{mode:o}"],
        capture_output=True,
        check=True,
        timeout=60,
    )

    assert 0o400 == stat.S_IMODE(victim.stat().st_mode)
    assert {"mode": mode, "bound": str(path)} == json.loads(done.stdout), "and it is as it was asked for"


def test_a_link_that_lies_there_first_is_not_followed_either(tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "elsewhere.sock", tmp_path / "agent.sock"
    path.symlink_to(elsewhere)
    done = subprocess.run(
        [sys.executable, "-I", "-c", SWAPPING, "listen", str(path), str(elsewhere), "666"],
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert b"is no socket" in done.stderr
    assert not elsewhere.exists()


def test_a_socket_has_its_mode_from_its_first_moment(tmp_path: Path) -> None:
    """Between being made and being closed to others there is no moment: nobody else connects in it."""
    from broker.daemon.sockets import listen  # noqa: PLC0415 - beside the other, which runs in a child

    with listen(str(tmp_path / "a.sock")) as made:
        assert socket.AF_UNIX == made.family
        assert 0o600 == stat.S_IMODE((tmp_path / "a.sock").lstat().st_mode)
