import base64
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.canary_scan import CHUNK_BYTES, FAR_SIDE, main, plant_and_find, scan_file, scan_processes, scan_tree

SECRET = b"canary-" + b"5f1e77"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is gone afterwards: what is planted here must not be found by the scan of the whole run."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.parametrize(
    "leak",
    [
        SECRET,
        b'{"token":"' + SECRET + b'"}',
        base64.b64encode(SECRET),
        base64.b64encode(b"user:" + SECRET),
        base64.b64encode(b"ab:" + SECRET + b"?>"),
        base64.urlsafe_b64encode(b"abcd:" + SECRET + b"?>"),
        SECRET.hex().encode(),
        SECRET.hex().upper().encode(),
        SECRET.decode().encode("utf-16-le"),
        SECRET.decode().encode("utf-16-be"),
    ],
)
def test_a_planted_leak_is_found(folder: Path, leak: bytes) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "daemon.log").write_bytes(b"x" * 7 + leak + b"y")

    assert [line.partition(": ")[0] for line in scan_tree(folder)] == [str(folder / "deep" / "daemon.log")]
    assert main([str(folder)]) == 1


def test_a_leak_across_the_pieces_of_a_large_file_is_found(folder: Path) -> None:
    (folder / "core").write_bytes(b"." * (CHUNK_BYTES - 3) + SECRET)

    assert scan_file(folder / "core") == ["plain"]


def test_a_leak_far_out_in_a_sparse_file_is_found_soon(folder: Path) -> None:
    with (folder / "sparse").open("wb") as file:
        file.seek(1 << 40)
        file.write(SECRET)
        file.truncate(1 << 41)

    assert scan_file(folder / "sparse") == ["plain"]


def test_a_leak_in_a_name_is_found(folder: Path) -> None:
    (folder / SECRET.decode()).mkdir()

    assert list(scan_tree(folder)) == [f"{folder / SECRET.decode()}: in the name"]


def test_what_plays_the_far_side_may_know_the_secret(folder: Path) -> None:
    (folder / FAR_SIDE).mkdir()
    (folder / FAR_SIDE / "upstream.log").write_bytes(SECRET)

    assert list(scan_tree(folder)) == []


def test_links_are_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to("/proc/self/environ")

    assert list(scan_tree(folder)) == []


@pytest.mark.parametrize("left", ["cmdline", "environ", "cwd"])
def test_a_secret_in_a_process_that_was_left_running_is_found(folder: Path, left: str) -> None:
    place = str(folder.resolve())
    with subprocess.Popen(
        [sys.executable, "-c", "input(chr(62))", SECRET.decode(), place if left == "cmdline" else ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PLACE": place} if left == "environ" else {},
        cwd=place if left == "cwd" else "/",
    ) as child:
        assert child.stdout is not None
        assert b">" == child.stdout.read(1)  # before it runs, the kernel says nothing of it
        found, elsewhere = list(scan_processes([place])), list(scan_processes([place + "/elsewhere"]))
        child.communicate(b"\n", timeout=10)

    assert found == [f"process {child.pid}: cmdline: plain"]
    assert elsewhere == []


def test_a_process_that_can_not_be_looked_into_is_passed_over(folder: Path) -> None:
    (folder / "123").mkdir()

    assert list(scan_processes([str(folder)], folder)) == []


def test_the_scan_proves_itself_before_it_looks() -> None:
    plant_and_find()


def test_a_scan_of_nothing_is_no_success(folder: Path) -> None:
    assert main([str(folder / "not there")]) == 64
    assert main([]) == 64


def test_a_clean_folder_is_clean(folder: Path) -> None:
    (folder / "log").write_bytes(b"canary")

    assert list(scan_tree(folder)) == []
