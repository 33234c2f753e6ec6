"""Making a new log: its identity, its first records, its anchor and its pin.

What it returns must be sealed into the vault by the caller and exists nowhere else: without the audit key nobody
reads the log, without the root key nobody can vouch for it anew.
"""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit.anchor_file import AnchorFile
from broker.audit.appender import Appender, LogEnd
from broker.audit.disk import PRIVATE_DIRECTORY, Disk, LocalDisk, lock_directory, sync_directory
from broker.audit.epoch import FileSeeds, MakeSeedHome, new_epoch_key
from broker.audit.faults import AuditError
from broker.audit.limits import WriterLimits
from broker.audit.merkle import MerkleTree
from broker.audit.payload import LOG_ID_BYTES, LogIdentity
from broker.audit.pin import Anchor, AuditPaths, Pin
from broker.core.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSecrets:
    """For the vault alone: the key that opens the log, and the seed of the key that vouches for it."""

    log_id: str
    audit_sk: Secret  # X25519, 32 raw bytes
    root_seed: Secret  # Ed25519, 32 raw bytes


def create_log(
    directory: Path,
    anchor_path: Path,
    pin_path: Path,
    seed_dir: Path,
    *,
    clock: Callable[[], int],
    disk: Disk | None = None,
    seeds: MakeSeedHome | None = None,
) -> LogSecrets:
    """A new log with its first SEGMENT, EPOCH and COMMIT, durable. Touches no existing one. Raises AuditError.

    The first seed is kept in `seed_dir`, or where `seeds` says.
    """
    paths = AuditPaths(directory=directory, pin=pin_path, anchor=anchor_path, seeds=seed_dir)
    try:
        _make_places(paths)
        lock = lock_directory(directory, wait_s=0)
        try:
            return _create(paths, clock, disk or LocalDisk(), seeds)
        finally:
            os.close(lock)
    except OSError as cause:
        raise AuditError(f"the audit log could not be made: {cause.strerror or cause}") from cause


def _make_places(paths: AuditPaths) -> None:
    for place in (paths.directory, paths.seeds):
        place.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        if any(place.iterdir()):
            raise AuditError(f"{place} is not empty; a log is made only where none is")
    for place in (paths.pin, paths.anchor):
        place.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        if os.path.lexists(place):
            raise AuditError(f"{place} exists already; a log is made only where none is")


def _create(paths: AuditPaths, clock: Callable[[], int], disk: Disk, seeds: MakeSeedHome | None) -> LogSecrets:
    audit_sk, root, first = X25519PrivateKey.generate(), Ed25519PrivateKey.generate(), new_epoch_key(1)
    identity = LogIdentity(
        log_id=secrets.token_bytes(LOG_ID_BYTES),
        audit_key=audit_sk.public_key().public_bytes_raw(),
        first_epoch_key=first.public,
        root_key=root.public_key().public_bytes_raw(),
    )
    genesis = identity.genesis()
    blank = Anchor(
        log_id=identity.log_id.hex(), seq=0, segment=1, offset=0, head=genesis.hex(), epoch_key=first.public.hex()
    )
    blank.save(paths.anchor, disk)
    appender = Appender(
        directory=paths.directory,
        identity=identity,
        end=LogEnd(segment=1, offset=0, seq=0, head=genesis, epoch=0, epoch_key=first.public, tree=MerkleTree()),
        key=first,
        seeds=seeds(identity.log_id) if seeds is not None else FileSeeds(paths.seeds, identity.log_id, disk),
        anchor=AnchorFile(paths.anchor, disk, log_id=identity.log_id.hex()),
        disk=disk,
        clock=clock,
        limits=WriterLimits(),
    )
    try:
        appender.first_epoch(first, root.sign)
    finally:
        appender.close()
    Pin.of(identity).save(paths.pin, disk)
    for place in {paths.directory.parent, paths.seeds.parent, paths.anchor.parent.parent}:
        sync_directory(place)
    return LogSecrets(
        log_id=identity.log_id.hex(),
        audit_sk=Secret(audit_sk.private_bytes_raw()),
        root_seed=Secret(root.private_bytes_raw()),
    )
