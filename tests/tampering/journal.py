"""What `journalctl --verify` says of the changes of a systemd journal that are closest to those of the corpus.

The journal is made by systemd-journal-remote from a text file, so nothing of the machine's own logs is touched. It is
not sealed: sealing needs a key on the machine that wrote it, and many distributions build without it.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

REMOTE = Path("/lib/systemd/systemd-journal-remote")
BOOT = "0123456789abcdef0123456789abcdef"
START_US = 1_700_000_000_000_000
LIMIT_S = 30.0


def available() -> bool:
    return REMOTE.exists() and shutil.which("journalctl") is not None


def export(target: Path, entries: int, *, deny: str = "deny", without: int | None = None, text: str = "") -> Path:
    """A journal in its export format: one entry in three says `deny`."""
    with target.open("w", encoding="ascii") as file:
        for number in range(entries):
            if number == without:
                continue
            decision = deny if number % 3 == 0 else "allow"
            file.write(
                f"__REALTIME_TIMESTAMP={START_US + number}\n__MONOTONIC_TIMESTAMP={number + 1}\n_BOOT_ID={BOOT}\n"
                f"PRIORITY=6\nDECISION={decision}\nMESSAGE=event {number} {text}\n\n"
            )
    return target


def made_from(exported: Path, target: Path) -> Path:
    command = [str(REMOTE), "--split-mode=none", "--compress=no", f"--output={target}", str(exported)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return target


class Journal:
    """One small journal, an older one, and what can be done to a copy."""

    def __init__(self, place: Path, entries: int = 400) -> None:
        self._place = place
        self._entries = entries
        self.whole = made_from(export(place / "export", entries), place / "whole.journal")

    def says(self, name: str) -> str:
        """`FAIL` or `accepts`, for the change of that name. Nothing it can hang on is waited for."""
        directory = self._place / "journal"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        target = directory / "changed.journal"
        shutil.copy(self.whole, target)
        CHANGES[name](self, target)
        command = ["journalctl", "--verify", f"--directory={directory}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return "hangs"
        return "accepts" if done.returncode == 0 else "FAIL"

    def rebuilt(
        self, target: Path, *, entries: int | None = None, deny: str = "deny", without: int | None = None
    ) -> None:
        target.unlink()
        fresh = export(self._place / "export", entries or self._entries, deny=deny, without=without)
        made_from(fresh, target)


def _flip(_: Journal, target: Path) -> None:
    content = target.read_bytes()
    place = content.index(b"MESSAGE=event 123 ") + len("MESSAGE=event ")
    target.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def _cut(size: Callable[[int], int]) -> Callable[[Journal, Path], None]:
    return lambda _, target: os.truncate(target, size(target.stat().st_size))


def _append(content: bytes) -> Callable[[Journal, Path], None]:
    def change(_: Journal, target: Path) -> None:
        with target.open("ab") as file:
            file.write(content)

    return change


def _hole(_: Journal, target: Path) -> None:
    content = target.read_bytes()
    place = content.index(b"MESSAGE=event 123 ")
    target.write_bytes(content[:place] + bytes(64) + content[place + 64 :])


def _symlink(journal: Journal, target: Path) -> None:
    target.unlink()
    target.symlink_to(journal.whole)


def _hard_link(_: Journal, target: Path) -> None:
    second = target.parent.with_suffix(".second")
    second.unlink(missing_ok=True)
    os.link(target, second)


def _fifo(_: Journal, target: Path) -> None:
    target.unlink()
    os.mkfifo(target)


def _directory(_: Journal, target: Path) -> None:
    target.unlink()
    target.mkdir()


CHANGES: dict[str, Callable[[Journal, Path], None]] = {
    "byte flipped": _flip,
    "half cut off": _cut(lambda size: size // 2),
    "last 4 KiB cut off": _cut(lambda size: size - 4096),
    "emptied": _cut(lambda _: 0),
    "deleted": lambda _, target: target.unlink(),
    "zeros at the end": _append(bytes(4096)),
    "garbage at the end": _append(b"garbage"),
    "hole of zeros": _hole,
    "entry left out": lambda journal, target: journal.rebuilt(target, without=123),
    "entry added": lambda journal, target: journal.rebuilt(target, entries=401),
    "rebuilt, deny changed to allow": lambda journal, target: journal.rebuilt(target, deny="allow"),
    "older copy put back": lambda journal, target: journal.rebuilt(target, entries=300),
    "symbolic link": _symlink,
    "hard link": _hard_link,
    "FIFO": _fifo,
    "directory": _directory,
}
