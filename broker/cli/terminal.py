"""A line typed at the terminal without echo. Whatever ends or stops the wait, the terminal echoes again.

Ctrl-Z gives the terminal back and asks anew when the job goes on, dropping what was typed before. Reads the controlling
terminal and nothing else; keys that were typed before the question stood there are dropped.
"""

import os
import select
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

TERMINAL = "/dev/tty"
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LOCAL_FLAGS = 3  # their place in what termios gives


def open_terminal() -> int:
    """A descriptor of the controlling terminal. Raises OSError where there is none."""
    return os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def has_terminal() -> bool:
    with suppress(OSError):
        os.close(open_terminal())
        return True
    return False


def hidden_line(question: str, *, most_bytes: int) -> bytes:
    """What was typed, up to the line's end. Raises OSError without a terminal, EOFError where there was no line.

    A longer line than `most_bytes` raises ValueError, once it was read to its end.
    """
    descriptor = open_terminal()
    try:
        with _woken() as woken, _silent(descriptor, question.encode("utf-8", "replace")):
            line = _line(descriptor, woken, most_bytes)
        os.write(descriptor, b"\n")
    finally:
        os.close(descriptor)
    return line


@contextmanager
def _woken() -> Iterator[int]:
    """What is readable when a signal came: one that comes just before a wait would else be handled after it only."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


@contextmanager
def _silent(descriptor: int, question: bytes) -> Iterator[None]:
    """Echo off, until the end or while the process is stopped."""
    before = termios.tcgetattr(descriptor)
    silent = [*before]
    silent[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ECHONL)
    silent[_LOCAL_FLAGS] |= termios.ISIG | termios.ICANON

    def ask() -> None:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, silent)
        os.write(descriptor, question)

    def restore() -> None:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)

    def pass_on(number: int, _: FrameType | None) -> None:
        """Let the signal do what it does, on a terminal that echoes; after a stop, go on."""
        restore()
        ours = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, ours)
        ask()

    former = {number: signal.signal(number, pass_on) for number in (signal.SIGTSTP, *_ENDING)}
    try:
        ask()
        yield
    finally:
        restore()
        for number, handler in former.items():
            signal.signal(number, handler)


def _line(descriptor: int, woken: int, most_bytes: int) -> bytes:
    out = bytearray()
    too_long = False
    while (octet := _octet(descriptor, woken)) != b"\n":
        if not octet:
            if out:
                break
            raise EOFError
        too_long = too_long or len(out) >= most_bytes
        if not too_long:
            out += octet
    if too_long:
        raise ValueError(f"the line has more than {most_bytes} bytes")
    return bytes(out).removesuffix(b"\r")


def _octet(descriptor: int, woken: int) -> bytes:
    while woken in select.select([descriptor, woken], [], [])[0]:
        os.read(woken, 64)  # the handlers have run by now
    return os.read(descriptor, 1)
