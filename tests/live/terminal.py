"""A real terminal: tmux on a socket of its own, typed into and read like a human would."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

WAIT_S = 20.0
PAUSE_S = 0.3  # a deciding key counts only alone
TYPING_S = 0.1  # a quick hand; what comes all at once is taken for a paste
TRIES = 5


class Terminal:
    """One window of columns x rows that runs one command."""

    def __init__(self, name: str, command: Sequence[str], *, environ: dict[str, str], size: tuple[int, int]) -> None:
        found = shutil.which("tmux")
        assert found is not None, "tmux is missing; run packaging/setup-test-deps.sh"
        self._tmux = [found, "-L", f"doorward-{name}-{os.getpid()}", "-f", "/dev/null"]
        self._environ = {**environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        self._environ.pop("TMUX", None)
        columns, rows = size
        # The environment of the command is the one given; tmux would otherwise filter it.
        self._run("new-session", "-d", "-s", "t", "-x", str(columns), "-y", str(rows), shlex.join(command))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._run("kill-server", check=False)

    @property
    def screen(self) -> str:
        return self._run("capture-pane", "-t", "t", "-p")

    @property
    def title(self) -> str:
        return self._run("display-message", "-p", "-t", "t", "#{pane_title}").strip()

    def click(self, column: int, line: int) -> None:
        """A click of the left button, as a terminal with a mouse tells it; counted from 1."""
        for end in "Mm":
            self.keys("-l", f"\x1b[<0;{column};{line}{end}")

    def keys(self, *names: str) -> None:
        """Type keys by their tmux names, one after the other."""
        self._run("send-keys", "-t", "t", *names)

    def record(self, path: Path) -> None:
        """From now on, write all that the command sends to its terminal into a file, byte for byte."""
        path.touch()
        self._run("pipe-pane", "-t", "t", "-o", f"cat >> {shlex.quote(str(path))}")

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))

    def unlock_approver(self, passphrase: str) -> None:
        """Unlock the approver's key in an interface that has just come up, by hand."""
        self.until("-approver", "u unlocks it in this window")
        self.keys("u")
        self.until("Passphrase")
        self.keys("-l", passphrase)
        self.keys("Enter")
        self.until("+approver", "Nothing waits for you")

    def type_word(self, word: str) -> None:
        """Type a confirming word as a person does, anew where the field took it for a paste, and send it."""
        for _ in range(TRIES):
            for letter in word:
                self.keys("-l", letter)
                time.sleep(TYPING_S)
            time.sleep(PAUSE_S)
            if f"[{word}" in self.screen:
                break
            self.keys("C-u")
        for _ in range(TRIES):
            self.keys("Enter")
            time.sleep(2 * PAUSE_S)
            if f"[{word}" not in self.screen:
                return
        raise AssertionError(f"{word} was not taken:\n{self.screen}")

    def paste(self, text: str) -> None:
        self._run("set-buffer", text)
        self._run("paste-buffer", "-p", "-t", "t")

    def until(self, *words: str, limit_s: float = WAIT_S) -> str:
        """The screen once it shows all the words; fails with what it shows instead."""
        deadline = time.monotonic() + limit_s
        while not all(word in (shown := self.screen) for word in words):
            assert time.monotonic() < deadline, f"{words} did not appear:\n{shown}"
            time.sleep(0.05)
        return shown

    def _run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._tmux, *words], env=self._environ, capture_output=True, text=True, check=check, timeout=20
        )
        return done.stdout
