"""What a power cut leaves of files: the disks that may be found after it, from a record of all that was done to them.

What was synced is on the disk. What was not may be there or not: each 512 byte sector of a write by itself, a file's
new size with or without the bytes in it, and each change of a directory on its own, whatever came before it.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECTOR_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class Bind:
    """Names in a directory come to mean files, at once; None takes a name away."""

    directory: str
    names: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, kw_only=True)
class Write:
    file: int
    offset: int
    content: bytes

    def sectors(self) -> list["Write"]:
        """Its parts, each of which reaches the disk whole or not at all."""
        parts, at = [], 0
        while at < len(self.content):
            size = SECTOR_BYTES - (self.offset + at) % SECTOR_BYTES
            parts.append(Write(file=self.file, offset=self.offset + at, content=self.content[at : at + size]))
            at += size
        return parts


@dataclass(frozen=True, kw_only=True)
class Resize:
    """A file is cut; or it grows, and holds zeros where its bytes have not arrived."""

    file: int
    size: int
    grows: bool


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Of a file by its number, or of a directory by its path."""

    of: int | str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Not of the disk: something that the program said by then."""

    said: object


Volatile = Bind | Write | Resize
Step = Volatile | Sync | Mark


@dataclass
class Disk:
    """Names and contents."""

    names: dict[tuple[str, str], int] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)

    def copy(self) -> "Disk":
        return Disk(names=dict(self.names), contents=dict(self.contents))

    def apply(self, step: Volatile) -> None:
        match step:
            case Bind(directory=directory, names=names):
                for name, number in names:
                    if number is None:
                        self.names.pop((directory, name), None)
                    else:
                        self.names[directory, name] = number
            case Write(file=number, offset=offset, content=content):
                held = self.contents.get(number, b"").ljust(offset, b"\0")
                self.contents[number] = held[:offset] + content + held[offset + len(content) :]
            case Resize(file=number, size=size, grows=grows):
                held = self.contents.get(number, b"")
                self.contents[number] = held.ljust(size, b"\0") if grows else held[:size].ljust(size, b"\0")

    def files(self) -> dict[str, bytes]:
        """Every path with what it holds."""
        return {f"{place}/{name}": self.contents.get(number, b"") for (place, name), number in self.names.items()}


def crashes(start: Disk, steps: Sequence[Step], *, chance: random.Random, torn: int) -> Iterator[tuple[int, Disk]]:
    """The disks that a cut may leave just before each sync and at the end: how many steps were made, and what is found.

    None of what was not synced; all of it; its first parts; each part alone; all but each part; and `torn` random
    choices. What a cut at an earlier point may leave is among these, since anything may be missing.
    """
    durable, waiting = start.copy(), list[Volatile]()
    for at, step in enumerate([*steps, Sync(of="")]):
        match step:
            case Sync(of=place):
                yield from ((at, found) for found in _found(durable, waiting, _choices(len(waiting), chance, torn)))
                for part in [part for part in waiting if _place(part) == place]:
                    durable.apply(part)
                waiting = [part for part in waiting if _place(part) != place]
            case Mark():
                pass
            case _:
                waiting += step.sectors() if isinstance(step, Write) else [step]


def _found(durable: Disk, waiting: Sequence[Volatile], choices: set[frozenset[int]]) -> Iterator[Disk]:
    for kept in choices:
        found = durable.copy()
        for part in (part for index, part in enumerate(waiting) if index in kept):
            found.apply(part)
        yield found


def _place(part: Volatile) -> int | str:
    return part.directory if isinstance(part, Bind) else part.file


def _choices(count: int, chance: random.Random, torn: int) -> set[frozenset[int]]:
    every = frozenset(range(count))
    alone = [frozenset({index}) for index in range(count)]
    without = [every - one for one in alone]
    prefixes = [frozenset(range(index)) for index in range(count)]
    picked = [frozenset(index for index in range(count) if chance.random() < 0.5) for _ in range(torn)]
    return {frozenset(), every, *alone, *without, *prefixes, *picked}


def lay_out(disk: Disk, old: Path, new: Path) -> None:
    """Put what is found under `new`, where it lay under `old`. Whatever is there already goes."""
    for path in new.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, content in disk.files().items():
        path = new / Path(name).relative_to(old)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)
