"""Reading a policy directory: regular files of the right owner, that nobody else may write, and no link followed.

Takes `*.toml`, `*.pem` and `*.known_hosts` of the directory itself; names that begin with a dot and all others are
left alone. Every file is looked at through its descriptor, so that what was checked is what is read.
"""

import os
import re
import stat
from pathlib import Path

from broker.policyfiles.files import PolicyError, PolicyFile

MAX_FILE_BYTES = 262_144
MAX_FILES = 64
SUFFIXES = (".toml", ".pem", ".known_hosts")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}")


def read_directory(path: Path, owner_uid: int) -> tuple[PolicyFile, ...]:
    """The policy files of a directory, by name; () where there is none. Raises PolicyError on what can't be trusted.

    Directory and files belong to root or `owner_uid`, and neither group nor others may write them.
    """
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return ()
    except OSError as cause:
        raise PolicyError(f"{path}: can't be read as a directory (symbolic links are not followed)") from cause
    try:
        _check(os.fstat(directory), path, owner_uid, is_directory=True)
        names = _names(directory, path)
        return tuple(PolicyFile(name=name, raw=_read(directory, name, path / name, owner_uid)) for name in names)
    finally:
        os.close(directory)


def _names(directory: int, shown: Path) -> list[str]:
    with os.scandir(directory) as entries:
        names = sorted(
            entry.name for entry in entries if entry.name.endswith(SUFFIXES) and not entry.name.startswith(".")
        )
    if len(names) > MAX_FILES:
        raise PolicyError(f"{shown}: holds {len(names)} policy files; at most {MAX_FILES} are read")
    odd = [name for name in names if not _PLAIN.fullmatch(name)]
    if odd:
        raise PolicyError(f"{shown}: a file's name ({odd[0]!a}) is more than letters, digits, dots and hyphens")
    return names


def _read(directory: int, name: str, shown: Path, owner_uid: int) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError as cause:
        raise PolicyError(f"{shown}: can't be opened (symbolic links are not followed)") from cause
    try:
        _check(os.fstat(descriptor), shown, owner_uid, is_directory=False)
        raw = bytearray()
        while chunk := os.read(descriptor, MAX_FILE_BYTES + 1 - len(raw)):
            raw += chunk
            if len(raw) > MAX_FILE_BYTES:
                raise PolicyError(f"{shown}: is larger than {MAX_FILE_BYTES} bytes")
        return bytes(raw)
    except OSError as cause:
        raise PolicyError(f"{shown}: can't be read") from cause
    finally:
        os.close(descriptor)


def _check(status: os.stat_result, shown: Path, owner_uid: int, *, is_directory: bool) -> None:
    if not is_directory and not stat.S_ISREG(status.st_mode):
        raise PolicyError(f"{shown}: is no regular file")
    if status.st_uid not in {0, owner_uid}:
        raise PolicyError(f"{shown}: belongs to uid {status.st_uid}; it has to belong to root or uid {owner_uid}")
    if status.st_mode & 0o022:
        raise PolicyError(f"{shown}: group or others may write it; run: chmod go-w {shown}")
    if not is_directory and status.st_nlink != 1:
        raise PolicyError(f"{shown}: has {status.st_nlink} hard links; a policy file has one name")
