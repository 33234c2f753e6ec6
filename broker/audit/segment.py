"""Segment files: their names, what else may lie beside them, and opening one without trusting its path.

Only these names may stand in a log's directory: NNNNNNNN.seg, NNNNNNNN.OFFSET.torn (bytes that a recovery cut off)
and `reserve`. Anything else is reported, never skipped.
"""

import fcntl
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from broker.audit.disk import open_regular
from broker.core.chain import MAX_GROUP_BYTES

SEGMENT_BYTES = 64 << 20  # a writer begins the next file once this is reached
MAX_SEGMENT_BYTES = SEGMENT_BYTES + 2 * MAX_GROUP_BYTES
RESERVE = "reserve"

_SEGMENT = re.compile(r"((?!0{8})[0-9]{8})\.seg")  # not \d: that takes the digits of any script
_TORN = re.compile(r"[0-9]{8}\.[0-9]+(\.[0-9]+)?\.torn")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # as Python spells such a byte of a name


def segment_name(number: int) -> str:
    return f"{number:08d}.seg"


def number_of(path: Path) -> int | None:
    match = _SEGMENT.fullmatch(path.name)
    return None if match is None else int(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a directory holds: its segments in order, and the first name that does not belong there."""

    segments: tuple[Path, ...]
    foreign: str | None


def layout_of(directory: Path) -> Layout:
    """Raises OSError."""
    names = sorted((path.name for path in directory.iterdir()), key=os.fsencode)
    foreign = [name for name in names if not (_SEGMENT.fullmatch(name) or _TORN.fullmatch(name) or name == RESERVE)]
    segments = tuple(directory / name for name in names if _SEGMENT.fullmatch(name))
    return Layout(segments=segments, foreign=shown_name(foreign[0]) if foreign else None)


def shown_name(name: str) -> str:
    """A file's name as an answer may spell it: U+FFFD stands for each byte that is not part of UTF-8."""
    return _NOT_UTF8.sub("\N{REPLACEMENT CHARACTER}", name)


class SegmentFile:
    """One segment opened for reading, as long as it was when it was opened."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, also for anything but a regular file with one name."""
        self.path = path
        self.number = number_of(path) or 0
        self._descriptor = open_regular(path)
        self.size_bytes = os.fstat(self._descriptor).st_size
        self._digest: hashlib._Hash | None = None

    def read(self, offset: int, count: int) -> bytes:
        """At most `count` bytes, none past the size taken at opening. Raises OSError."""
        return os.pread(self._descriptor, min(count, self.size_bytes - offset), offset)

    def read_on(self, offset: int, count: int) -> bytes:
        """The same for the one pass that goes over the whole file, which `digest` speaks of."""
        content = self.read(offset, count)
        if self._digest is not None:
            self._digest.update(content)
        return content

    def keep_digest(self) -> None:
        """From now on, at the file's beginning."""
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str | None:
        """Of the very bytes that the pass was given: another read may be given others."""
        return None if self._digest is None else self._digest.hexdigest()

    def forget_cached(self) -> None:
        """Read what is on the disk: after a failed sync the cache may hold what the disk does not."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def writer_is_live(directory: Path) -> bool:
    """Whether a writer holds this directory's lock now. Writes nothing and waits for nothing."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError):  # ValueError: a path with a NUL in it
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks has no writer of ours
    else:
        return False
    finally:
        os.close(descriptor)
