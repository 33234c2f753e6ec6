"""The canary scan: a secret in any of its spellings, in bytes and in all that lies below a directory.

Spellings: plain, hexadecimal, UTF-16, and base64 at its three alignments in both alphabets. Files are read in pieces
that overlap. It finds what it planted itself before it says that there is nothing.
"""

import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 1 << 20


def spellings(secret: str) -> dict[str, bytes]:
    """Bytes that occur wherever the secret does, by the name of the encoding."""
    octets = secret.encode()
    found = {
        "plain": octets,
        "hex": octets.hex().encode(),
        "HEX": octets.hex().upper().encode(),
        "utf-16": secret.encode("utf-16-le"),
    }
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + octets)
        whole = text[(8 * shift + 5) // 6 : 8 * (shift + len(octets)) // 6]  # what neighbours have no part in
        found[f"base64+{shift}"] = whole
        found[f"base64url+{shift}"] = whole.translate(bytes.maketrans(b"+/", b"-_"))
    return found


def spelled_in(content: bytes, secret: str) -> list[str]:
    return [name for name, spelling in spellings(secret).items() if spelling in content]


def scan(root: Path, secret: str) -> Iterator[str]:
    """One line for each file below the root that holds the secret or is named after it."""
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            path = Path(folder, name)
            found = spelled_in(os.fsencode(name), secret)
            if stat.S_ISREG(path.lstat().st_mode):
                found += _in_file(path, secret)
            if found:
                yield f"{path.relative_to(root)} ({', '.join(sorted(set(found)))})"


def sees(root: Path) -> bool:
    """Whether the scan finds a leak that is planted for it; the leak is removed again."""
    planted = "canary-planted-to-be-found"
    file = root / "planted"
    try:
        file.write_bytes(b"." * (CHUNK_BYTES - 9) + base64.b64encode(b"x" + planted.encode()) + b".")
        return any("planted" in line for line in scan(root, planted))
    finally:
        file.unlink(missing_ok=True)


def _in_file(path: Path, secret: str) -> list[str]:
    overlap = max(map(len, spellings(secret).values())) - 1
    found: set[str] = set()
    tail = b""
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            found.update(spelled_in(tail + piece, secret))
            tail = (tail + piece)[-overlap:]
    return sorted(found)
