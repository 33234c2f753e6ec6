"""Takes down every change of the files under one directory, and every sync, standing before the system's calls."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.power_cut import Bind, Disk, Mark, Resize, Step, Sync, Write


class Recorder:
    """Knows what lies under `base` when it is made; `steps` is what was done since, in order."""

    def __init__(self, base: Path) -> None:
        self.steps: list[Step] = []
        self.start = Disk()
        self._base = str(base)
        self._held: dict[int, int | str] = {}  # open descriptors: a file's number, or a directory's path
        self._appending: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        for path in sorted(path for path in base.rglob("*") if path.is_file()):
            number = self._add(str(path), path.stat().st_size)
            self.start.names[str(path.parent), path.name] = number
            self.start.contents[number] = path.read_bytes()

    def say(self, said: object) -> None:
        self.steps.append(Mark(said=said))

    @contextmanager
    def recording(self) -> Iterator["Recorder"]:
        calls: dict[str, Callable[..., Any]] = {
            "open": self._open,
            "close": self._close,
            "write": self._write,
            "pwrite": self._pwrite,
            "ftruncate": self._ftruncate,
            "fsync": self._sync,
            "fdatasync": self._sync,
            "rename": self._rename,
            "replace": self._rename,
            "unlink": self._unlink,
            "remove": self._unlink,
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, call in calls.items():
                patch.setattr(os, name, _before(call, getattr(os, name)))
            yield self

    def _add(self, path: str, size: int) -> int:
        self._numbers[path] = number = len(self._sizes)
        self._sizes[number] = size
        return number

    def _open(self, real: Callable[..., int], path: object, flags: int, *args: object) -> int:
        name = str(path)
        is_new = not os.path.lexists(name)
        descriptor = real(path, flags, *args)
        if not name.startswith(self._base):
            return descriptor
        if Path(name).is_dir():
            self._held[descriptor] = name
            return descriptor
        if is_new:
            self.steps.append(_bound(name, self._add(name, 0)))
        number = self._held[descriptor] = self._numbers[name]
        if flags & os.O_TRUNC and self._sizes[number]:
            self._resize(number, 0)
        if flags & os.O_APPEND:
            self._appending.add(descriptor)
        return descriptor

    def _close(self, real: Callable[[int], None], descriptor: int) -> None:
        real(descriptor)
        self._held.pop(descriptor, None)
        self._appending.discard(descriptor)

    def _write(self, real: Callable[[int, bytes], int], descriptor: int, content: bytes) -> int:
        number = self._held.get(descriptor)
        if not isinstance(number, int):
            return real(descriptor, content)
        at = self._sizes[number] if descriptor in self._appending else os.lseek(descriptor, 0, os.SEEK_CUR)
        written = real(descriptor, content)
        self._wrote(number, at, bytes(content[:written]))
        return written

    def _pwrite(self, real: Callable[[int, bytes, int], int], descriptor: int, content: bytes, offset: int) -> int:
        written = real(descriptor, content, offset)
        number = self._held.get(descriptor)
        if isinstance(number, int):
            self._wrote(number, offset, content[:written])
        return written

    def _wrote(self, number: int, offset: int, content: bytes) -> None:
        if offset + len(content) > self._sizes[number]:
            self._sizes[number] = offset + len(content)
            self.steps.append(Resize(file=number, size=self._sizes[number], grows=True))
        self.steps.append(Write(file=number, offset=offset, content=content))

    def _ftruncate(self, real: Callable[[int, int], None], descriptor: int, size: int) -> None:
        real(descriptor, size)
        number = self._held.get(descriptor)
        if isinstance(number, int):
            self._resize(number, size)

    def _resize(self, number: int, size: int) -> None:
        self._sizes[number] = size
        self.steps.append(Resize(file=number, size=size, grows=False))

    def _sync(self, real: Callable[[int], None], descriptor: int) -> None:
        real(descriptor)
        if descriptor in self._held:
            self.steps.append(Sync(of=self._held[descriptor]))

    def _rename(self, real: Callable[[object, object], None], source: object, target: object) -> None:
        real(source, target)
        old, new = Path(str(source)), Path(str(target))
        if str(old) in self._numbers:
            number = self._numbers[str(new)] = self._numbers.pop(str(old))
            self.steps.append(Bind(directory=str(old.parent), names=((old.name, None), (new.name, number))))

    def _unlink(self, real: Callable[..., None], path: object, **named: Any) -> None:
        real(path, **named)
        if self._numbers.pop(str(path), None) is not None:
            self.steps.append(_bound(str(path), None))


def _bound(path: str, number: int | None) -> Bind:
    return Bind(directory=str(Path(path).parent), names=((Path(path).name, number),))


def _before(call: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: call(real, *args, **named)
