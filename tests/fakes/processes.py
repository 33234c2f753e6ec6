"""Real processes for tests about peers: programs that connect, wait, fork, exec and end as they are told."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy2
from typing import Self

_CONNECT = """
import os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
"""
_OBEY = """
for line in sys.stdin:
    word = line.strip()
    if word == "fork":
        child = os.fork()
        if child == 0:
            os.read(0, 1)  # keeps the connection until the test ends
            os._exit(0)
        print(child, flush=True)
    elif word == "undumpable":
        import ctypes
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        print("done", flush=True)
    elif word.startswith("exec "):
        os.set_inheritable(link.fileno(), True)
        os.execv(word[5:], [word[5:], "-I", "-c", "import sys; print('became', flush=True); sys.stdin.read()"])
    elif word == "say":
        link.sendall(b"x")
        print("said", flush=True)
"""


class Peer:
    """A child process with a connection, and our end of it."""

    def __init__(self, process: "subprocess.Popen[str]", link: socket.socket) -> None:
        self.process = process
        self.link = link

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, word: str) -> str:
        """Have it do something; its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """End it and wait for its end, so that its pid is free again."""
        self.process.kill()
        self.process.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(10)
        self.link.close()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        listener.settimeout(10)
        yield listener


def connected(listener: socket.socket, *, program: str = sys.executable) -> Peer:
    """A child that connected to the listener and obeys from then on."""
    process = subprocess.Popen(
        [program, "-I", "-c", _CONNECT + _OBEY, listener.getsockname()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    link, _ = listener.accept()
    return Peer(process, link)


def other_program(directory: Path) -> Path:
    """Another executable that is this interpreter all the same."""
    real = Path(sys.executable).resolve()
    (directory / "bin").mkdir()
    copied = directory / "bin" / "another"
    copy2(real, copied)
    (directory / "pyvenv.cfg").write_text(f"home = {real.parent}\n", encoding="utf-8")
    return copied
