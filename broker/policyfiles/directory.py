"""Reading a policy directory: regular files of the right owner, that nobody else may write, and no link followed.

Takes `*.toml`, `*.pem` and `*.known_hosts` of the directory itself; names that begin with a dot and all others are
left alone. Every file is looked at through its descriptor before and after it was read, so that what was checked is
what was read, and as a whole. `glance` tells cheaply whether anything may have changed.
"""

import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from broker.policyfiles.files import PolicyError, PolicyFile

MAX_FILE_BYTES = 262_144
MAX_FILES = 64
MAX_ENTRIES = 1024  # of any name: looking at them is all that a directory may cost
ROOT_UID = 0
SUFFIXES = (".toml", ".pem", ".known_hosts")
SETTLED_NS = 2_000_000_000  # a file that was written later than that may be written again within its own time stamp
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}")
_LINKS = "symbolic links are not followed"


def read_directory(path: Path, owner_uid: int, *, root_uid: int = ROOT_UID) -> tuple[PolicyFile, ...]:
    """The policy files of a directory, by name; () where there is none. Raises PolicyError on what can't be trusted.

    Directory and files belong to root or `owner_uid`, and neither group nor others may write them.
    """
    return _read_all(path, frozenset({root_uid, owner_uid}), prefix="")


def read_system(path: Path, *, root_uid: int = ROOT_UID) -> tuple[PolicyFile, ...]:
    """The machine's own files, named by their whole path; () where there are none. Raises PolicyError.

    Directory and files belong to root, and so does every directory above: no one else can put another in its place.
    """
    for above in path.parents:
        try:
            status = os.lstat(above)
        except FileNotFoundError:
            return ()
        except OSError as cause:
            raise PolicyError(f"{above}: can't be looked at") from cause
        guarded = status.st_mode & stat.S_ISVTX or not status.st_mode & 0o022
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in {ROOT_UID, root_uid} or not guarded:
            raise PolicyError(f"{above}: is no directory that root alone may change; the policies below are not read")
    return _read_all(path, frozenset({ROOT_UID, root_uid}), prefix=f"{path}/")


def glance(path: Path, *, settled_ns: int = SETTLED_NS) -> tuple[object, ...] | None:
    """What changes whenever the directory or a policy file in it does; None where that can't be relied on now."""
    latest_ns = time.time_ns() - settled_ns
    try:
        seen: list[object] = [_facts(os.lstat(path))]
        with os.scandir(path) as entries:
            for count, entry in enumerate(entries):
                if count == MAX_ENTRIES:
                    return ("too many",)
                if _is_ours(entry.name):
                    status = entry.stat(follow_symlinks=False)
                    if status.st_ctime_ns > latest_ns:
                        return None
                    seen.append((entry.name, _facts(status)))
    except FileNotFoundError:
        return ("none",)
    except OSError as cause:
        return ("unreadable", cause.errno)
    return tuple(sorted(map(repr, seen)))


def _facts(status: os.stat_result) -> tuple[int, ...]:
    kind = (status.st_mode, status.st_uid, status.st_nlink)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, *kind)


def _is_ours(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")


def _read_all(path: Path, owners: frozenset[int], *, prefix: str) -> tuple[PolicyFile, ...]:
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return ()
    except OSError as cause:
        raise PolicyError(f"{path}: can't be read as a directory ({_LINKS})") from cause
    try:
        _check(os.fstat(directory), path, owners, is_directory=True)
        names = sorted(_names(directory, path))
        return tuple(_read(directory, name, path / name, owners, prefix=prefix) for name in names)
    finally:
        os.close(directory)


def _names(directory: int, shown: Path) -> Iterator[str]:
    names: list[str] = []
    with os.scandir(directory) as entries:
        for count, entry in enumerate(entries):
            if count == MAX_ENTRIES:
                raise PolicyError(f"{shown}: holds more than {MAX_ENTRIES} files of any name")
            if _is_ours(entry.name):
                names.append(entry.name)
    if len(names) > MAX_FILES:
        raise PolicyError(f"{shown}: holds {len(names)} policy files; at most {MAX_FILES} are read")
    odd = sorted(name for name in names if not _PLAIN.fullmatch(name))
    if odd:
        raise PolicyError(f"{shown}: a file's name ({odd[0]!a}) is more than letters, digits, dots and hyphens")
    yield from names


def _read(directory: int, name: str, shown: Path, owners: frozenset[int], *, prefix: str) -> PolicyFile:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError as cause:
        raise PolicyError(f"{shown}: can't be opened ({_LINKS})") from cause
    try:
        before = os.fstat(descriptor)
        _check(before, shown, owners, is_directory=False)
        raw = _whole(descriptor, shown)
        # A second name that was taken away before the first look leaves no trace but in the directory.
        named = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not _facts(before) == _facts(os.fstat(descriptor)) == _facts(named):
            raise PolicyError(f"{shown}: was changed while it was read; it is looked at again")
        modified_at_ms = before.st_mtime_ns // 1_000_000
        return PolicyFile(name=f"{prefix}{name}", raw=raw, modified_at_ms=modified_at_ms, uid=before.st_uid)
    except OSError as cause:
        raise PolicyError(f"{shown}: can't be read") from cause
    finally:
        os.close(descriptor)


def _whole(descriptor: int, shown: Path) -> bytes:
    raw = bytearray()
    while chunk := os.read(descriptor, MAX_FILE_BYTES + 1 - len(raw)):
        raw += chunk
        if len(raw) > MAX_FILE_BYTES:
            raise PolicyError(f"{shown}: is larger than {MAX_FILE_BYTES} bytes")
    return bytes(raw)


def _check(status: os.stat_result, shown: Path, owners: frozenset[int], *, is_directory: bool) -> None:
    if not is_directory and not stat.S_ISREG(status.st_mode):
        raise PolicyError(f"{shown}: is no regular file")
    if status.st_uid not in owners:
        others = " or ".join(f"uid {uid}" for uid in sorted(owners - {ROOT_UID}))
        whose = f"root or {others}" if others else "root"
        raise PolicyError(f"{shown}: belongs to uid {status.st_uid}; it has to belong to {whose}")
    if status.st_mode & 0o022:
        raise PolicyError(f"{shown}: group or others may write it; run: chmod go-w {shown}")
    if not is_directory and status.st_nlink != 1:
        raise PolicyError(f"{shown}: has {status.st_nlink} hard links; a policy file has one name")
