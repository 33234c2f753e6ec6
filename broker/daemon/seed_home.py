"""Where the log's signing seeds live: files, or the OS keyring with files to fall back on.

What is no seed of this log is set aside and counts as lost: the daemon starts all the same, and nobody vouches for
what it records until a human takes the log over. A seed is in the keyring only once it was read back from there.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from broker.audit import AuditError
from broker.audit.disk import PRIVATE_DIRECTORY, LocalDisk, read_private_file
from broker.audit.epoch import SEED_BYTES, EpochKey, FileSeeds, pack_seed, unpack_seed
from broker.core.secret import Secret
from broker.vault.keychain import Keychain, KeychainError

MAX_SEED_BYTES = 256
Warn = Callable[[str], None]


class Seeds:
    """Implements broker.audit.epoch.SeedHome."""

    def __init__(self, directory: Path, log_id: bytes, *, keychain: Keychain | None, warn: Warn) -> None:
        self._directory = directory
        self._log_id = log_id
        self._files = FileSeeds(directory, log_id, LocalDisk())
        self._keyring = None if keychain is None else _KeyringSeeds(keychain, log_id)
        self._warn = warn
        self.after_epoch: Callable[[], None] = lambda: None
        """Called when a new epoch's record is durable."""

    def keep(self, key: EpochKey) -> None:
        """Raises OSError."""
        if self._keyring is not None:
            try:
                self._keyring.keep(key)
            except KeychainError as error:
                self._warn(f"the audit log's signing seed is kept in a file, for {error}")
            else:
                return
        self._files.keep(key)

    def held(self) -> list[EpochKey]:
        """All that can be read. Raises AuditError."""
        self._set_aside()
        found = {key.number: key for key in self._files.held()}
        if self._keyring is not None:
            try:
                found |= {key.number: key for key in self._keyring.held()}
            except (KeychainError, AuditError) as error:
                self._warn(f"the audit log's signing seed could not be read from the keyring: {error}")
        return [found[number] for number in sorted(found)]

    def destroy_all_but(self, number: int) -> None:
        """Raises OSError."""
        self._files.destroy_all_but(number)
        if self._keyring is not None:
            try:
                self._keyring.destroy_all_but(number)
            except KeychainError as error:
                self._warn(f"an older signing seed could not be destroyed: {error}")
        self.after_epoch()

    def _set_aside(self) -> None:
        """Move away what stands under a seed's name and is none of this log's, so that it is not destroyed."""
        try:
            self._directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            for path in sorted(self._directory.glob("*.seed")):
                if not self._is_ours(path):
                    path.rename(path.with_name(f"{path.name}.foreign"))
                    self._warn(f"{path} was no seed of this audit log; it was set aside as {path.name}.foreign")
        except OSError as cause:
            raise AuditError(f"{self._directory} can't be used: {cause.strerror or cause}; mend it") from cause

    def _is_ours(self, path: Path) -> bool:
        try:
            content = read_private_file(path, max_bytes=MAX_SEED_BYTES)
            if not any(content):
                return True  # overwritten, and brought back by a power cut: the store knows what to do with it
            return path.name == f"{unpack_seed(content, self._log_id, source=path.name).number:010d}.seed"
        except AuditError:
            return False


class _KeyringSeeds:
    """All seeds in one item, so that each change of it is whole."""

    def __init__(self, keychain: Keychain, log_id: bytes) -> None:
        self._keychain = keychain
        self._log_id = log_id
        self._item = f"audit-seeds/{log_id.hex()}"
        self._known: list[EpochKey] | None = None  # what the item holds, as it was last read or written

    def keep(self, key: EpochKey) -> None:
        self._write([*self._read(), key])

    def held(self) -> list[EpochKey]:
        self._known = None
        return self._read()

    def destroy_all_but(self, number: int) -> None:
        before = self._read()
        kept = [key for key in before if key.number == number]
        if kept == before:
            return
        if kept:
            self._write(kept)
            return
        self._keychain.remove(self._item)
        self._known = []

    def _read(self) -> list[EpochKey]:
        if self._known is None:
            value = self._keychain.get(self._item)
            self._known = [] if value is None else self._unpacked(value.reveal())
        return self._known

    def _write(self, keys: Sequence[EpochKey]) -> None:
        self._known = None
        self._keychain.put(self._item, Secret(b"".join(pack_seed(key, self._log_id) for key in keys)))
        self._known = list(keys)

    def _unpacked(self, content: bytes) -> list[EpochKey]:
        size = SEED_BYTES
        with suppress(AuditError):
            parts = [content[at : at + size] for at in range(0, len(content), size)]
            return [unpack_seed(part, self._log_id, source=self._item) for part in parts]
        return []  # somebody else's value: as good as none
