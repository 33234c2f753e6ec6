"""What the power cuts are played from is what the kernel is really asked to do, with nothing left out."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CALLS = "openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat"
KINDS = {
    "pwrite64": "write",
    "ftruncate": "truncate",
    "fsync": "sync",
    "fdatasync": "sync",
    "renameat": "rename",
    "renameat2": "rename",
    "unlinkat": "unlink",
}
UNFINISHED = " <unfinished ...>"
RESUMED = re.compile(r"\d+ +<\.\.\. \w+ resumed>")
CALL = re.compile(r"(?:\[pid +)?\d*\]? *(\w+)\((.*)\) += (-?\d+)")


def whole_calls(trace: str) -> Iterator[str]:
    """Each call in one line: the tracer parts the line of one during which another thread was heard of."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        thread = line.partition(" ")[0]
        if line.endswith(UNFINISHED):
            begun[thread] = line.removesuffix(UNFINISHED)
        elif (resumed := RESUMED.match(line)) is not None and thread in begun:
            yield begun.pop(thread) + line[resumed.end() :]
        else:
            yield line


def kinds(trace: str, base: Path) -> list[str]:
    """The same words as the recorder's, for each call on a file of the log between the two marks."""
    found, reserved = [], False
    for line in whole_calls(trace):
        call = CALL.match(line)
        if call is None or str(base) not in line or int(call[3]) < 0:
            continue
        name, arguments = call[1], call[2]
        if "/begin" in arguments or "/end" in arguments:
            found.append("mark")
        elif name == "openat":
            kept_open = "/reserve" in arguments and reserved  # it is there from the first start on
            if "O_CREAT" in arguments and not kept_open:
                found.append("create")
            reserved = reserved or "/reserve" in arguments
        else:
            found.append(KINDS.get(name, name))
    first, last = (index for index, word in enumerate(found) if word == "mark")
    return found[first + 1 : last]


def test_a_call_that_the_tracer_tells_of_in_two_lines_is_one() -> None:
    parted = """7 openat(AT_FDCWD, "/log/begin", O_WRONLY|O_CREAT <unfinished ...>
8 fsync(3</log/a>)                        = 0
7 <... openat resumed>, 0666)             = 4
8 unlink("/log/end")                      = 0"""

    assert [
        "8 fsync(3</log/a>)                        = 0",
        '7 openat(AT_FDCWD, "/log/begin", O_WRONLY|O_CREAT, 0666)             = 4',
        '8 unlink("/log/end")                      = 0',
    ] == list(whole_calls(parted))


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace (Debian: strace) is not installed")
def test_the_recorder_sees_every_call_that_changes_or_syncs_a_file(tmp_path: Path) -> None:
    base, trace = tmp_path / "log", tmp_path / "trace"
    command = [sys.executable, "-m", "tests.fakes.recorded_child", str(base)]
    told = subprocess.run(
        ["strace", "-f", "-q", "-y", "-s", "0", "-e", f"trace={CALLS}", "-o", str(trace), *command],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    assert kinds(trace.read_text(), base) == told
    assert {"write", "sync", "create", "rename", "unlink", "truncate"} == set(told)
