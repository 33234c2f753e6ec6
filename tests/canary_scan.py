"""Look for canary secrets in all that the tests left behind: state directories, logs, temporary files, processes.

Every made-up secret in the tests starts with the marker `canary-`. The scan knows the marker's spellings (plain,
base64 at its three alignments and in its URL-safe form, hexadecimal, UTF-16) and fails on any of them. Excepted is
what lies below a directory named `far_side`: there a test plays an upstream that has to see the credential, or the
human who holds it. Before it looks anywhere the scan finds leaks that it planted itself, or fails.

    python tests/canary_scan.py PATH...
"""

import base64
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

MARKER = b"canary-"
FAR_SIDE = "far_side"
CHUNK_BYTES = 1 << 20


def spellings(secret: bytes = MARKER) -> dict[str, bytes]:
    """Bytes that occur wherever the secret does, by the name of the encoding."""
    found = {
        "plain": secret,
        "hex": secret.hex().encode(),
        "HEX": secret.hex().upper().encode(),
        "utf-16": secret.decode().encode("utf-16-le"),
    }
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + secret)
        whole = text[(8 * shift + 5) // 6 : (8 * (shift + len(secret))) // 6]  # characters that neighbours do not touch
        found[f"base64+{shift}"] = whole
        found[f"base64url+{shift}"] = whole.replace(b"+", b"-").replace(b"/", b"_")
    return found


def hits(content: bytes) -> list[str]:
    return [name for name, spelling in spellings().items() if spelling in content]


def scan_file(path: Path) -> list[str]:
    """The spellings in a file, read in pieces that overlap; the holes of a sparse file are passed over."""
    found: set[str] = set()
    overlap = max(map(len, spellings().values())) - 1
    with path.open("rb") as file:
        for start, end in written(file.fileno()):
            file.seek(start)
            tail = b""
            while file.tell() < end and (piece := file.read(min(CHUNK_BYTES, end - file.tell()))):
                found.update(hits(tail + piece))
                tail = (tail + piece)[-overlap:]
    return sorted(found)


def written(descriptor: int) -> Iterator[tuple[int, int]]:
    """Where a file holds what was written, as pairs of start and end."""
    end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as cause:
            if cause.errno == errno.ENXIO:  # nothing but a hole, or nothing at all, until the end
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end


def scan_tree(root: Path) -> Iterator[str]:
    """One line for each regular file below the root that holds a canary, and for each name that is one."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - {FAR_SIDE})
        for name in sorted([*folders, *names]):
            path = Path(folder, name)
            if hits(os.fsencode(name)):
                yield f"{path}: in the name"
            if name in folders or not stat.S_ISREG(path.lstat().st_mode):
                continue
            if found := scan_file(path):
                yield f"{path}: {', '.join(found)}"


def scan_processes(roots: list[str], proc: Path = Path("/proc")) -> Iterator[str]:
    """One line for each process that the tests left running and whose arguments or environment hold a canary.

    A process is theirs if its arguments, environment or working directory lie below one of the roots.
    """
    below = [os.fsencode(str(Path(root).resolve())) for root in roots]
    for process in sorted(proc.glob("[0-9]*")):
        told = {name: _told(process / name) for name in ("cmdline", "environ", "cwd")}
        if any(root in text for root in below for text in told.values()):
            for name, text in told.items():
                if found := hits(text):
                    yield f"process {process.name}: {name}: {', '.join(found)}"


def _told(path: Path) -> bytes:
    try:
        return os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    except OSError:  # it ended meanwhile, or is another user's
        return b""


def plant_and_find() -> None:
    """Raise RuntimeError unless the scan finds a leak in each spelling, across the border of two pieces as well."""
    secret = MARKER + b"planted"
    leaks = {
        "plain": secret,
        "hex": secret.hex().encode(),
        "HEX": secret.hex().upper().encode(),
        "utf-16": secret.decode().encode("utf-16-le"),
        **{f"base64+{shift}": base64.b64encode(b"x" * shift + secret) for shift in range(3)},
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, leak in leaks.items():
            for before in (0, CHUNK_BYTES - len(leak) // 2):
                file = Path(folder, "leak")
                file.write_bytes(b"." * before + leak + b".")
                if not any(f" {name}" in line for line in scan_tree(Path(folder))):
                    raise RuntimeError(f"the scan is blind: it missed a planted leak ({name})")


def main(roots: list[str]) -> int:
    missing = [root for root in roots if not Path(root).exists()]
    if missing or not roots:
        print(f"nothing to scan at {', '.join(missing) or 'no path at all'}", file=sys.stderr)
        return 64
    plant_and_find()
    found = [line for root in roots for line in scan_tree(Path(root))] + list(scan_processes(roots))
    for line in found:
        print(f"canary found: {line}", file=sys.stderr)
    files = sum(len(names) for root in roots for _, _, names in os.walk(root))
    print(f"canary scan: {files} files, {len(found)} hits")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
