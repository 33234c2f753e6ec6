"""Every way of changing a log that we know of: the log it is done to, and the table that the cases are entered in.

A case changes a copy and says where the verifier has to find it. The cases stand in the modules beside.
"""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit.disk import LocalDisk
from broker.audit.epoch import FileSeeds
from broker.audit.pin import Anchor
from broker.audit.verdict import VerdictName
from tests.fakes.forger import COMMIT, Forger, Raw
from tests.fakes.logs import SmallLog, new_log, paths_in, write_events

OK, UNANCHORED = VerdictName.OK, VerdictName.OK_UNANCHORED
TORN, UNSURE = VerdictName.TORN_TAIL, VerdictName.TORN_OR_TAMPERED
TRUNCATED, ALTERED = VerdictName.TRUNCATED, VerdictName.ALTERED
REORDERED, GAP = VerdictName.REORDERED, VerdictName.GAP
FORGED, ROLLBACK = VerdictName.FORGED_SIGNATURE, VerdictName.ROLLBACK
WRONG_LOG, EMPTY, UNREADABLE = VerdictName.WRONG_LOG, VerdictName.EMPTY_OR_MISSING, VerdictName.UNREADABLE


@dataclass(frozen=True, kw_only=True)
class Base:
    """A log with every record type as it lay while its writer lived, an older copy, a fork of that, another log."""

    log: SmallLog
    frozen: Path
    anchor: Anchor
    note: bytes  # a checkpoint that was kept elsewhere, shortly before the end
    older: Path
    older_anchor: Anchor
    fork: Path  # what a second writer made of the older copy, with the same seed
    other: Path
    todays_key: Ed25519PrivateKey


def make_base(place: Path) -> Base:
    log, other = new_log(place / "mine"), new_log(place / "other")
    with log.writer() as writer:
        write_events(writer, 24)
    torn = log.segments()[-1]
    torn.write_bytes(torn.read_bytes() + b"\0\0\1\x50\3\0")  # what a killed writer may leave
    writer = log.open()
    write_events(writer, 12, first=24)
    older, older_anchor = Path(shutil.copytree(log.base, place / "older")), log.anchor
    write_events(writer, 12, first=36)
    note = writer.checkpoint_blocking()
    write_events(writer, 3, first=48)
    frozen, anchor = Path(shutil.copytree(log.directory, place / "frozen")), log.anchor
    held = FileSeeds(log.paths.seeds, bytes.fromhex(log.pin.log_id), LocalDisk()).held()
    writer.close()
    shutil.copytree(older, place / "fork")
    fork = replace(log, base=place / "fork", paths=paths_in(place / "fork"))
    with fork.writer() as second:
        write_events(second, 24, first=36)
    with other.writer() as foreign:
        write_events(foreign, 40)
    return Base(
        log=log,
        frozen=frozen,
        anchor=anchor,
        note=note,
        older=paths_in(older).directory,
        older_anchor=older_anchor,
        fork=fork.directory,
        other=other.directory,
        todays_key=held[-1].private,
    )


class Place(NamedTuple):
    """What a verdict names."""

    segment: str | None
    offset: int | None
    seq: int | None


NOWHERE = Place(None, None, None)
Found = Place | tuple[Place, Place]  # one for both, or with the anchor and without
Mutation = Callable[[Forger, Base], Found]


def at(record: Raw) -> Place:
    return Place(record.file.name, record.offset, record.seq)


def after(record: Raw) -> Place:
    return Place(record.file.name, record.end, record.seq + 1)


def ends(record: Raw) -> Place:
    return Place(record.file.name, record.end, record.seq)


@dataclass(frozen=True, kw_only=True)
class Case:
    """`journal` names the change of a systemd journal that is closest to it, if there is one."""

    mutation: Mutation
    anchored: VerdictName
    alone: VerdictName
    journal: str | None


CASES: dict[str, Case] = {}


def case(
    name: str, anchored: VerdictName, alone: VerdictName | None = None, *, journal: str | None = None
) -> Callable[[Mutation], Mutation]:
    """Enter a case; without a second verdict it is the same without an anchor."""

    def register(mutation: Mutation) -> Mutation:
        assert name not in CASES, name
        CASES[name] = Case(mutation=mutation, anchored=anchored, alone=alone or anchored, journal=journal)
        return mutation

    return register


def commits(forger: Forger, file: Path | None = None) -> list[Raw]:
    return [record for record in forger.records if record.kind == COMMIT and file in {None, record.file}]


def chained(record: Raw, head: bytes) -> bytes:
    front = record.header() + record.payload
    return front + hashlib.sha256(head + front).digest()


def zeroed(record: Raw) -> Raw:
    return replace(record, payload=bytes(len(record.payload)))
