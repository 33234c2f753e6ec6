"""Epoch signing keys: one Ed25519 key per epoch, endorsed by the one before, and the seeds kept for a restart.

A seed is durable in its home before the EPOCH record that names its key, and the old one is destroyed only after
that record is durable: so at any instant the key of the log's tail is held, and no key of an earlier epoch is.
Destroying a file overwrites and unlinks it; a copy-on-write file system or a backup may keep the old bytes.
"""

import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from broker.audit.disk import PRIVATE_DIRECTORY, Disk, read_private_file, sync_directory, write_durably
from broker.audit.faults import AuditError
from broker.audit.payload import LOG_ID_BYTES, Endorser

_SEED_FILE = re.compile(r"\d{10}\.seed")
_SEED_OR_DRAFT = re.compile(r"\d{10}\.seed|\.\d{10}\.seed\.new")
_SEED = struct.Struct(">8sI32s?")
SEED_BYTES = _SEED.size  # of a seed as a home keeps it
_EPOCH_DOMAIN = b"doorward/audit/epoch/v1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKey:
    """One epoch's signing key; `public` is what the log shows. Where nobody vouches for it, it is not `endorsed`."""

    number: int
    private: Ed25519PrivateKey
    public: bytes
    endorsed: bool = True

    def sign(self, message: bytes) -> bytes:
        return self.private.sign(message)


def epoch_key(number: int, seed: bytes, *, endorsed: bool = True) -> EpochKey:
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public = private.public_key().public_bytes_raw()
    return EpochKey(number=number, private=private, public=public, endorsed=endorsed)


def new_epoch_key(number: int, *, endorsed: bool = True) -> EpochKey:
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    return EpochKey(number=number, private=private, public=public, endorsed=endorsed)


def pack_seed(key: EpochKey, log_id: bytes) -> bytes:
    """What a home keeps of a key: its log, its number, the seed, and whether anybody endorsed it."""
    return _SEED.pack(log_id, key.number, key.private.private_bytes_raw(), key.endorsed)


def unpack_seed(content: bytes, log_id: bytes, *, source: str) -> EpochKey:
    """Raises AuditError where this is no seed of that log."""
    if len(content) != _SEED.size or content[:LOG_ID_BYTES] != log_id:
        raise AuditError(f"{source} is not a seed of this log; move it away or restore the right one")
    _, number, seed, endorsed = _SEED.unpack(content)
    return epoch_key(number, seed, endorsed=endorsed)


class SeedHome(Protocol):
    """Where the seeds of one log live: usually one, two while an epoch changes.

    Each method returns only once its effect is durable, and is called by one thread at a time. A home in which there
    is nothing answers `held` with an empty list: the writer then begins a lineage that nobody endorses.
    """

    def keep(self, key: EpochKey) -> None:
        """Raises OSError; the caller poisons the writer."""
        ...

    def held(self) -> list[EpochKey]:
        """All keys whose seeds are here, by number. Raises AuditError, which keeps the writer from being opened."""
        ...

    def destroy_all_but(self, number: int) -> None:
        """Raises OSError; the caller poisons the writer."""
        ...


MakeSeedHome: TypeAlias = Callable[[bytes], SeedHome]  # by the log id


def signature_holds(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def endorsement_message(
    *, log_id: bytes, previous: bytes, header: bytes, endorser: Endorser, key: bytes, sealed: bytes
) -> bytes:
    """What an EPOCH record's signature covers: everything in the record, its place, and its log."""
    return _EPOCH_DOMAIN + log_id + previous + header + bytes([endorser]) + bytes(7) + key + sealed


class FileSeeds:
    """A directory of seed files. Implements SeedHome."""

    def __init__(self, directory: Path, log_id: bytes, disk: Disk) -> None:
        self._directory = directory
        self._log_id = log_id
        self._disk = disk

    def keep(self, key: EpochKey) -> None:
        """Raises OSError."""
        if not self._directory.is_dir():  # it was lost with all that was in it
            self._directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True)
            sync_directory(self._directory.parent)
        write_durably(self._path(key.number), pack_seed(key, self._log_id), self._disk)

    def held(self) -> list[EpochKey]:
        """All keys whose seeds are here. Raises AuditError on a file that is none of ours."""
        found = sorted(self._directory.iterdir()) if self._directory.is_dir() else []
        keys = (self._load(path) for path in found if _is_seed(path.name))
        return [key for key in keys if key is not None]

    def destroy_all_but(self, number: int) -> None:
        """Raises OSError."""
        kept = self._path(number)
        others = [path for path in self._directory.iterdir() if path != kept and _SEED_OR_DRAFT.fullmatch(path.name)]
        for path in others:
            _overwrite(path)
            path.unlink()
        if others:
            sync_directory(self._directory)

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:010d}.seed"

    def _load(self, path: Path) -> EpochKey | None:
        """None where the seed was overwritten, and a power cut brought the name of the file back."""
        content = read_private_file(path, max_bytes=_SEED.size)
        if not any(content):
            return None
        key = unpack_seed(content, self._log_id, source=str(path))
        if path.name != self._path(key.number).name:
            raise AuditError(f"{path} holds the seed of another epoch; restore the right one")
        return key


def _is_seed(name: str) -> bool:
    return _SEED_FILE.fullmatch(name) is not None


def _overwrite(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        os.write(descriptor, bytes(os.fstat(descriptor).st_size))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
