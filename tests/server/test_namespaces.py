"""Namespaces as /proc tells them, of this process and of real ones in namespaces of their own (which root can make)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.server import namespaces


def entry(pid: int) -> int:
    return os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)


def test_our_own_files_are_where_we_find_them() -> None:
    directory = entry(os.getpid())
    try:
        assert namespaces.is_here(directory, sys.executable, None), "whatever the path: it is our own mount namespace"
    finally:
        os.close(directory)


@pytest.mark.parametrize("same", [True, False])
def test_in_another_mount_namespace_the_path_has_to_lead_to_the_very_file(tmp_path: Path, *, same: bool) -> None:
    """The process runs a file that its own namespace alone shows at the path, or the one that everybody sees there."""
    seen, hidden = tmp_path / "seen", tmp_path / "hidden"
    for path in (seen, hidden):
        path.write_bytes(Path("/bin/sleep").read_bytes())
        path.chmod(0o755)
    script = 'mount --make-rprivate /; [ "$1" = same ] || mount --bind "$2" "$3"; echo up; exec "$3" 60'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", "same" if same else "other", str(hidden), str(seen)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert b"up\n" == child.stdout.readline()
            link = Path(f"/proc/{child.pid}/exe")
            while link.readlink() != seen:
                assert child.poll() is None
            status = link.stat()
            directory = entry(child.pid)
            try:
                assert same is namespaces.is_here(directory, str(seen), (status.st_dev, status.st_ino))
                assert not namespaces.is_here(directory, str(tmp_path / "gone"), (status.st_dev, status.st_ino))
            finally:
                os.close(directory)
        finally:
            child.kill()


def test_the_pid_namespace_of_a_process_is_told_while_it_lives() -> None:
    assert namespaces.our_own() == namespaces.of_pid(os.getpid()) is not None
    assert namespaces.of_pid(2**22 + 1) is None


def test_a_container_is_known_by_the_id_in_its_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = "3fe2" + "0" * 60
    told = tmp_path / "cgroup"
    told.write_text(f"0::/system.slice/docker-{id_}.scope/init\n", encoding="ascii")
    monkeypatch.setattr(namespaces, "CGROUP", str(told))

    assert "3fe200000000" == namespaces.container_of(1)
    told.write_text("0::/user.slice/user-1000.slice\n", encoding="ascii")
    assert namespaces.container_of(1) is None
    told.unlink()
    assert namespaces.container_of(1) is None
