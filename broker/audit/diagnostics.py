"""The details of what was no success, each sealed to the audit key in a file of its own, for a while.

Guaranteed: nothing is on disk in clear, also while the vault is locked; the store is bounded by size, number and age,
the oldest goes first; keeping never fails an action and never holds it up for long. A reference is a commitment to
what it names: the audit record that carries it shows whether an item is the one that was kept.
An item is there before a record names it. It is not synced: the record needs no more than that it may be gone, and
a failure need not cost a third wait for the disk. What a crash leaves without a record is never named, and ages out.
"""

import asyncio
import hashlib
import logging
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from broker.audit.disk import PRIVATE_DIRECTORY, PRIVATE_FILE, Disk, LocalDisk, write_fully
from broker.audit.faults import AuditError
from broker.audit.pin import Pin
from broker.audit.seal import pad, unpad
from broker.contract.wire import JsonObject, WireError, canonical, parse_object
from broker.core.secret import Secret

LOG = logging.getLogger("doorward.diagnostics")
DAY_MS = 86_400_000
MAGIC = b"doorward/diag/1\0"
T = TypeVar("T")
REF = re.compile(r"diag_[0-9a-f]{40}")

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_INFO = b"doorward/diagnostics/v1\0"
_COMMITMENT = b"doorward/diagnostics/ref/v1\0"
_NONCE_BYTES = 32
_DRAFT = re.compile(r"\.diag_[0-9a-f]{40}\.new")
_SEAL_BYTES = len(MAGIC) + 32 + 16 + 64  # beside the plain text: magic, encapsulated key, tag, padding
_SEEN_MAX = 100_000  # entries of the directory that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticsLimits:
    item_bytes: int = 640 << 10  # of one item's plain text
    total_bytes: int = 64 << 20
    items: int = 4096
    age_ms: int = 30 * DAY_MS
    waiting: int = 8  # items that may wait for the disk; more are let go
    patience_s: float = 2.0  # so long an action waits for its item


@dataclass(frozen=True, slots=True)
class _Item:
    size_bytes: int
    kept_at_ms: int


class DiagnosticsStore:
    """Implements ports.Diagnostics over one directory. One per process."""

    def __init__(
        self,
        directory: Path,
        *,
        audit_key: bytes,
        log_id: bytes,
        clock: Callable[[], int],
        limits: DiagnosticsLimits | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Looks at what is there. Never raises: a store that can't be used says why in `fault`."""
        self._directory = directory
        self._key = X25519PublicKey.from_public_bytes(audit_key)
        self._log_id = log_id
        self._clock = clock
        self._limits = limits or DiagnosticsLimits()
        self._disk = disk or LocalDisk()
        self._items: dict[str, _Item] = {}  # the oldest first
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(self._limits.waiting)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="diagnostics")
        self.fault: str | None = None
        self.foreign = 0  # entries of the directory that are none of ours; they stay as they are
        self._guarded(self._look)

    @classmethod
    def of(cls, directory: Path, pin: Pin, *, clock: Callable[[], int]) -> Self:
        """The store beside the log that the pin names."""
        audit_key, log_id = bytes.fromhex(pin.audit_key), bytes.fromhex(pin.log_id)
        return cls(directory, audit_key=audit_key, log_id=log_id, clock=clock)

    # -- keeping

    async def keep(self, correlation_id: str, details: JsonObject) -> str | None:
        if not self._places.acquire(blocking=False):
            self._failed("too many of them wait for the disk", correlation_id)
            return None
        try:
            work = self._thread.submit(self.keep_blocking, correlation_id, details)
        except RuntimeError:  # closed
            self._places.release()
            return None
        work.add_done_callback(self._done)
        try:
            async with asyncio.timeout(self._limits.patience_s):
                return await asyncio.wrap_future(work)
        except TimeoutError:
            self._failed("the disk is too slow", correlation_id)
            return None

    def keep_blocking(self, correlation_id: str, details: JsonObject) -> str | None:
        """The same for callers outside an event loop."""
        return self._guarded(lambda: self._write(correlation_id, details), correlation_id)

    def sweep(self) -> None:
        """Let go of what is too old."""
        self._guarded(lambda: self._make_room(0))

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- reading

    def show(self, reference: str, audit_sk: Secret) -> JsonObject | None:
        """The item; None where there is none (any more). Raises AuditError where it is not the one that was kept."""
        if not REF.fullmatch(reference):
            return None
        with self._lock:
            self._make_room_quietly()
            sealed = self._read(reference)
        if sealed is None:
            return None
        try:
            key = X25519PrivateKey.from_private_bytes(audit_sk.reveal())
            plain = unpad(_SUITE.decrypt(sealed.removeprefix(MAGIC), key, self._info(reference)))
        except (InvalidTag, ValueError):
            plain = None
        if plain is None or not sealed.startswith(MAGIC) or _reference(plain) != reference:
            raise AuditError(f"{self._directory / reference} is not what was kept under this name; don't rely on it")
        try:
            return parse_object(plain[_NONCE_BYTES:], max_bytes=self._limits.item_bytes)
        except WireError as cause:
            raise AuditError(f"{self._directory / reference} can't be read by this version: {cause}") from None

    @property
    def gone(self) -> str:
        """Why there may be nothing under a reference, for whoever asked."""
        limits = self._limits
        return (
            f"Nothing is kept under this name (any more): details are kept for {limits.age_ms // DAY_MS} days, at most "
            f"{limits.items} of them in {limits.total_bytes >> 20} MiB, and not where the disk failed."
        )

    def _read(self, reference: str) -> bytes | None:
        """The bytes of the file; None where there is none. Raises AuditError."""
        try:
            with self._opened_directory() as directory:
                descriptor = os.open(reference, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise AuditError(f"{self._directory / reference} can't be read: {cause.strerror or cause}") from cause
        try:
            if not _is_ours(os.fstat(descriptor)):
                raise AuditError(f"{self._directory / reference} is linked, or open to others; don't rely on it")
            return os.read(descriptor, self._limits.item_bytes + _SEAL_BYTES + 1)
        except OSError as cause:
            raise AuditError(f"{self._directory / reference} can't be read: {cause.strerror}") from cause
        finally:
            os.close(descriptor)

    # -- the directory; whoever calls these holds the lock

    def _write(self, correlation_id: str, details: JsonObject) -> str:
        now_ms = self._clock()
        item = {**details, "version": 1, "correlation_id": correlation_id, "kept_at_ms": now_ms}
        content = canonical(item)
        if len(content) > self._limits.item_bytes:
            raise OSError(f"it has {len(content)} bytes, more than an item may have")
        plain = secrets.token_bytes(_NONCE_BYTES) + content
        reference = _reference(plain)
        sealed = MAGIC + _SUITE.encrypt(pad(plain), self._key, self._info(reference))
        self._make_room(len(sealed))
        with self._opened_directory() as directory:
            self._put(directory, reference, sealed, now_ms)
        self._items[reference] = _Item(len(sealed), now_ms)
        return reference

    def _put(self, directory: int, name: str, content: bytes, at_ms: int) -> None:
        """Whole or not at all, as far as anybody sees who reads while this runs."""
        draft = f".{name}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft, flags, PRIVATE_FILE, dir_fd=directory)
        try:
            try:
                write_fully(descriptor, content, self._disk)
                os.utime(descriptor, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
            finally:
                os.close(descriptor)
            os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            with suppress(OSError):
                os.unlink(draft, dir_fd=directory)
            raise

    def _look(self) -> None:
        """What is there: items by age, and drafts that a crash left."""
        found: list[tuple[str, _Item]] = []
        with self._opened_directory() as directory:
            for seen, name in enumerate(os.listdir(directory)):  # noqa: PTH208 - of the directory that is open
                if _DRAFT.fullmatch(name):
                    os.unlink(name, dir_fd=directory)
                    continue
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if seen < _SEEN_MAX and REF.fullmatch(name) and _is_ours(status):
                    found.append((name, _Item(status.st_size, status.st_mtime_ns // 1_000_000)))
                else:
                    self.foreign += 1
        self._items = dict(sorted(found, key=lambda entry: entry[1].kept_at_ms))
        if self.foreign:
            LOG.warning("there are files that are none of ours", extra={"path": str(self._directory)})
        self._make_room(0)

    def _make_room(self, size_bytes: int) -> None:
        """Let the oldest go until another one fits."""
        limits, oldest_ms = self._limits, self._clock() - self._limits.age_ms
        total = sum(item.size_bytes for item in self._items.values()) + size_bytes
        room_for = limits.items - (size_bytes > 0)
        gone: list[str] = []
        for name, item in self._items.items():
            enough = len(self._items) - len(gone) <= room_for and total <= limits.total_bytes
            if enough and item.kept_at_ms >= oldest_ms:
                break
            gone.append(name)
            total -= item.size_bytes
        if not gone:
            return
        with self._opened_directory() as directory:
            for name in gone:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
                del self._items[name]

    def _make_room_quietly(self) -> None:
        with suppress(OSError):
            self._make_room(0)

    @contextmanager
    def _opened_directory(self) -> Iterator[int]:
        """A descriptor of the directory, made where it is not there. Raises OSError where it is not ours alone."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            directory = os.open(self._directory, flags)
        except FileNotFoundError:
            self._directory.mkdir(PRIVATE_DIRECTORY)
            self._items = {}
            directory = os.open(self._directory, flags)
        try:
            status = os.fstat(directory)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise OSError(f"{self._directory} is another user's, or open to others")
            yield directory
        finally:
            os.close(directory)

    # -- telling

    def _guarded(self, work: Callable[[], T], correlation_id: str | None = None) -> T | None:
        try:
            with self._lock:
                done = work()
        except OSError as cause:
            self._failed(cause.strerror or str(cause), correlation_id)
        except Exception as cause:  # noqa: BLE001 - a fault of ours in here must not cost anybody their result
            self._failed(f"{type(cause).__name__} while writing", correlation_id)
        else:
            self.fault = None
            return done
        return None

    def _failed(self, why: str, correlation_id: str | None) -> None:
        """Once in the log for each run of failures, and in the daemon's status as long as it lasts."""
        was, self.fault = self.fault, f"details of failures can't be kept in {self._directory} ({why})"
        if was is None:
            LOG.warning("%s", self.fault, extra={"correlation_id": correlation_id})

    def _done(self, _: "Future[str | None]") -> None:
        self._places.release()

    def _info(self, reference: str) -> bytes:
        return _INFO + self._log_id + reference.encode("ascii")


def _reference(plain: bytes) -> str:
    """Unguessable by the nonce that the plain text begins with, and bound to every byte of it."""
    return "diag_" + hashlib.sha256(_COMMITMENT + plain).hexdigest()[:40]


def _is_ours(status: os.stat_result) -> bool:
    private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and private
