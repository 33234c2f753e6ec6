"""Opens the audit log with all that watches over it: seeds, anchors, keyring, writer."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from broker.audit.disk import PRIVATE_DIRECTORY, Disk
from broker.audit.inspection import Inspector
from broker.audit.pin import AuditPaths
from broker.audit.writer import AuditWriter
from broker.client.places import Places
from broker.daemon import inspector_process
from broker.daemon.keychain_process import command
from broker.daemon.log_watch import LogWatch, Notices, anchor_before
from broker.daemon.seed_home import Seeds
from broker.vault.keychain import Keychain


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParts:
    """A log that was opened."""

    paths: AuditPaths
    writer: AuditWriter
    watch: LogWatch


def open_log(
    places: Places, environ: Mapping[str, str], *, now_ms: Callable[[], int], disk: Disk | None = None
) -> LogParts:
    """Raises AuditError."""
    paths, notices = paths_of(places), Notices()
    anchor, untold = anchor_before(paths)
    if untold is not None:
        notices(untold)
    with suppress(OSError):  # a log that is gone is told as that, once a writer looks
        paths.directory.mkdir(mode=PRIVATE_DIRECTORY)
    keychain = Keychain(command(), environ) if os.path.lexists(places.audit_keyring) else None
    homes: list[Seeds] = []

    def seeds(log_id: bytes) -> Seeds:
        homes.append(Seeds(paths.seeds, log_id, keychain=keychain, warn=notices))
        return homes[-1]

    try:
        writer = AuditWriter.open(paths, clock=now_ms, disk=disk, seeds=seeds)
    except BaseException:
        if keychain is not None:
            keychain.close()
        raise
    watch = LogWatch(
        places=places,
        paths=paths,
        writer=writer,
        inspector=Inspector(paths, argv=inspector_process.command()),
        keychain=keychain,
        anchor_at_start=anchor,
        notices=notices,
        now_ms=now_ms,
    )
    for home in homes:
        home.after_epoch = watch.epoch_began
    return LogParts(paths=paths, writer=writer, watch=watch)


def paths_of(places: Places) -> AuditPaths:
    return AuditPaths(directory=places.audit, pin=places.pin, anchor=places.anchor_head, seeds=places.seeds)
