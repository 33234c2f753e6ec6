"""The approver's side of a passphrase: the two keys made of it, the wrapped approver key, and what that key signs.

For the user interface and the human verbs alone. The passphrase and the approver key never leave this process: the
daemon gets `vault_kek` and signatures. A key signs for its own log and no other. Costs that a file or a daemon names
are bounded both ways before they are paid. Wiping is best effort: Python and the cipher library make copies.
"""

import base64
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from broker.client.faults import ClientError
from broker.contract.kdf import MAX_ITERATIONS, STANDARD_FLOOR, KdfError, KdfFloor, KdfParams
from broker.contract.key_id import key_id
from broker.contract.statements import control_bytes, decision_bytes, policy_bytes, statement_bytes
from broker.contract.wire import JsonObject, JsonValue, WireError, canonical, parse_object
from broker.core.secret import Secret

__all__ = [
    "ApproverError",
    "ApproverKey",
    "KeyFile",
    "Keys",
    "Secret",
    "WrongPassphrase",
    "calibrate",
    "cost_of",
    "create_key_file",
    "derive",
    "finish_rewrap",
    "read_key_file",
    "rewrapped_beside",
    "save_key_file",
    "stage_rewrap",
]

FILE_VERSION = 1
MAX_FILE_BYTES = 8192
MAX_PASSPHRASE_BYTES = 1024
SALT_BYTES = 16
TARGET_S = 0.5
LANES = 4
MOST_MEMORY_KIB = 256 * 1024  # beyond this a small machine would swap
_FIELDS = frozenset({"version", "log_id", "kdf", "public_key", "nonce", "wrapped"})
_WRAP_DOMAIN = b"doorward/approver-key/v1\0"
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class ApproverError(ClientError):
    """The approver key can't be made, read or used. Says what to do; holds no passphrase and no key."""


class WrongPassphrase(ApproverError):  # noqa: N818 - the name that callers read
    """The passphrase does not open the approver key, or the file was altered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What one passphrase opens: `vault_kek` goes to the daemon at unlocking, `approver_kek` stays here."""

    vault_kek: Secret
    approver_kek: Secret


def derive(passphrase: Secret, kdf: KdfParams, *, floor: KdfFloor = STANDARD_FLOOR) -> Keys:
    """Run Argon2id once, and derive both keys. Refuses parameters below the floor: a guess must not get cheap."""
    if not kdf.meets(floor):
        raise ApproverError(
            "the key derivation is weaker than this program accepts; is this the right state directory?"
        )
    if not 1 <= len(passphrase) <= MAX_PASSPHRASE_BYTES:
        raise ApproverError(f"a passphrase has 1 to {MAX_PASSPHRASE_BYTES} bytes")
    root = _argon2id(passphrase.reveal(), kdf)
    return Keys(
        vault_kek=Secret(_expanded(root, b"doorward/vault-kek/v1")),
        approver_kek=Secret(_expanded(root, b"doorward/approver-kek/v1")),
    )


def calibrate(
    *,
    target_s: float = TARGET_S,
    floor: KdfFloor = STANDARD_FLOOR,
    seconds_for: Callable[[KdfParams], float] | None = None,
) -> KdfParams:
    """Parameters with a fresh salt that take about the target on this machine, and never less than the floor.

    More memory first, for that is what guessing hardware lacks; then more passes.
    """
    least = KdfParams(
        memory_kib=floor.memory_kib, iterations=floor.iterations, lanes=LANES, salt=os.urandom(SALT_BYTES)
    )
    took_s = max((seconds_for or _seconds_for)(least), 1e-4)
    affordable = target_s / took_s
    memory_kib = least.memory_kib
    while affordable >= 2 and memory_kib * 2 <= MOST_MEMORY_KIB:
        memory_kib, affordable = memory_kib * 2, affordable / 2
    iterations = min(max(least.iterations, int(least.iterations * affordable)), MAX_ITERATIONS // 2)
    return replace(least, memory_kib=memory_kib, iterations=iterations)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """The file as it lies on disk: everything but the wrapped key itself may be shown."""

    log_id: str
    kdf: KdfParams
    public_key: bytes
    nonce: bytes
    wrapped: bytes

    @property
    def key_id(self) -> str:
        return key_id(self.public_key)

    def opened(self, approver_kek: Secret) -> "ApproverKey":
        """Raises WrongPassphrase."""
        try:
            seed = ChaCha20Poly1305(approver_kek.reveal()).decrypt(self.nonce, self.wrapped, self._bound_to())
            key = ApproverKey(log_id=self.log_id, seed=seed)
        except (InvalidTag, ValueError):
            raise WrongPassphrase("the passphrase does not open the approver key") from None
        if key.public_key != self.public_key:
            raise WrongPassphrase("the approver key is not the one that its file names; restore the file")
        return key

    @staticmethod
    def sealed(key: "ApproverKey", kdf: KdfParams, approver_kek: Secret) -> "KeyFile":
        bare = KeyFile(log_id=key.log_id, kdf=kdf, public_key=key.public_key, nonce=os.urandom(12), wrapped=b"")
        return replace(bare, wrapped=key.wrapped(approver_kek, bare.nonce, bare._bound_to()))

    def encode(self) -> bytes:
        values: dict[str, JsonValue] = {
            "version": FILE_VERSION,
            "log_id": self.log_id,
            "kdf": self.kdf.to_json(),
            "public_key": _spelled(self.public_key),
            "nonce": _spelled(self.nonce),
            "wrapped": _spelled(self.wrapped),
        }
        return canonical(values) + b"\n"

    def _bound_to(self) -> bytes:
        named: dict[str, JsonValue] = {
            "version": FILE_VERSION,
            "log_id": self.log_id,
            "public_key": _spelled(self.public_key),
        }
        return _WRAP_DOMAIN + canonical(named)


@final
class ApproverKey:
    """An approver key in use. Signs statements about its own log, until it is wiped."""

    __slots__ = ("_seed", "log_id", "public_key")

    def __init__(self, *, log_id: str, seed: bytes) -> None:
        self.log_id = log_id
        self._seed = bytearray(seed)
        self.public_key = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()

    @classmethod
    def load(cls, path: Path, approver_kek: Secret) -> "ApproverKey":
        """The key of a file. Raises WrongPassphrase, or ApproverError for a file that is not ours alone."""
        return read_key_file(path).opened(approver_kek)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    @property
    def key_id(self) -> str:
        return key_id(self.public_key)

    def sign_decision(self, values: JsonObject) -> bytes:
        return self._sign(decision_bytes, values)

    def sign_statement(self, values: JsonObject) -> bytes:
        return self._sign(statement_bytes, values)

    def sign_control(self, values: JsonObject) -> bytes:
        return self._sign(control_bytes, values)

    def sign_policy(self, values: JsonObject) -> bytes:
        return self._sign(policy_bytes, values)

    def wrapped(self, approver_kek: Secret, nonce: bytes, bound_to: bytes) -> bytes:
        return ChaCha20Poly1305(approver_kek.reveal()).encrypt(nonce, self._in_use(), bound_to)

    def wipe(self) -> None:
        """Overwrite the key; what copied it before is not reached. It signs nothing afterwards."""
        self._seed[:] = bytes(len(self._seed))
        self._seed.clear()

    def _sign(self, spell: Callable[[JsonObject], bytes], values: JsonObject) -> bytes:
        if values.get("log_id") != self.log_id:
            raise ApproverError("this approver key belongs to another log; it signs nothing for this daemon")
        try:
            message = spell(values)
        except ValueError as cause:
            raise ApproverError(f"this can't be signed: {cause}") from cause
        return Ed25519PrivateKey.from_private_bytes(self._in_use()).sign(message)

    def _in_use(self) -> bytes:
        if not self._seed:
            raise ApproverError("the approver key was locked; give the passphrase again")
        return bytes(self._seed)


def create_key_file(path: Path, log_id: str, kdf: KdfParams, approver_kek: Secret) -> bytes:
    """Make an approver key, keep it wrapped in a new file with mode 0600, and return its public key."""
    with ApproverKey(log_id=log_id, seed=os.urandom(32)) as key:
        save_key_file(path, key, kdf, approver_kek)
        return key.public_key


def save_key_file(path: Path, key: ApproverKey, kdf: KdfParams, approver_kek: Secret) -> None:
    """Keep a key wrapped in a new file with mode 0600. Raises ApproverError where there is one."""
    _write_new(path, KeyFile.sealed(key, kdf, approver_kek).encode())


def rewrapped_beside(path: Path) -> Path:
    """Where the key lies under another passphrase until the vault has taken that as well."""
    return path.with_name(path.name + ".new")


def stage_rewrap(path: Path, old_kek: Secret, new_kek: Secret, new_kdf: KdfParams) -> None:
    """Put the same key under another passphrase beside the file, which stays as it is until `finish_rewrap`."""
    beside = rewrapped_beside(path)
    with read_key_file(path).opened(old_kek) as key:
        content = KeyFile.sealed(key, new_kdf, new_kek).encode()
    try:
        beside.unlink(missing_ok=True)  # left by an attempt that came to nothing
    except OSError as cause:
        raise ApproverError(f"{beside} can't be replaced: {cause.strerror}") from cause
    _write_new(beside, content)


def finish_rewrap(path: Path) -> None:
    """Take what lies beside. The file is replaced whole or not at all."""
    try:
        rewrapped_beside(path).replace(path)
        _sync_directory(path.parent)
    except OSError as cause:
        raise ApproverError(f"{path} can't be replaced: {cause.strerror}") from cause


def cost_of(kdf: KdfParams) -> KdfFloor:
    """The least that another derivation of the same passphrase may cost, whoever names it."""
    return KdfFloor(memory_kib=kdf.memory_kib, iterations=kdf.iterations)


def read_key_file(path: Path) -> KeyFile:
    """What the file says, without its key. Raises ApproverError, also where others could have written it."""
    try:
        values = parse_object(_read_checked(path), max_bytes=MAX_FILE_BYTES)
        return _key_file(values)
    except (WireError, KdfError) as cause:
        raise ApproverError(f"{path} is no approver key: {cause}") from cause


def _key_file(values: JsonObject) -> KeyFile:
    if values.keys() != _FIELDS or values["version"] != FILE_VERSION:
        raise WireError("its fields are not those of this version")
    log_id = values["log_id"]
    if not isinstance(log_id, str):
        raise WireError("log_id is no text")
    return KeyFile(
        log_id=log_id,
        kdf=KdfParams.from_json(values["kdf"]),
        public_key=_octets(values["public_key"], 32),
        nonce=_octets(values["nonce"], 12),
        wrapped=_octets(values["wrapped"], 48),
    )


def _octets(value: JsonValue, length: int) -> bytes:
    try:
        octets = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except ValueError:
        octets = b""
    if len(octets) != length:
        raise WireError(f"a field is not base64 of {length} bytes")
    return octets


def _spelled(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


def _read_checked(path: Path) -> bytes:
    """Content of a plain file of ours with mode 0600 and one name; looked at through the descriptor that is read."""
    try:
        if path.parent.exists():
            _refuse_open_directory(path.parent)
        descriptor = os.open(path, os.O_RDONLY | _OPEN)
    except FileNotFoundError:
        raise ApproverError(
            f"there is no approver key at {path}; `doorward setup github`, or `doorward init` alone, makes one"
        ) from None
    except OSError as cause:
        raise ApproverError(f"{path} can't be opened as a plain file: {cause.strerror}") from cause
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or facts.st_uid != os.geteuid():
            raise ApproverError(f"{path} is not a plain file of yours with one name")
        if stat.S_IMODE(facts.st_mode) & 0o077:
            raise ApproverError(f"{path} is open to others; run chmod 600 on it")
        return os.read(descriptor, MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)


def _write_new(path: Path, content: bytes) -> None:
    _refuse_open_directory(path.parent)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
    except FileExistsError:
        raise ApproverError(f"there is an approver key already at {path}; it is left as it is") from None
    except OSError as cause:
        raise ApproverError(f"{path} can't be made: {cause.strerror}") from cause
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _sync_directory(path.parent)
    except OSError as cause:
        path.unlink(missing_ok=True)
        raise ApproverError(f"{path} can't be written: {cause.strerror}") from cause


def _refuse_open_directory(path: Path) -> None:
    try:
        facts = path.lstat()
    except OSError as cause:
        raise ApproverError(f"{path} can't be looked at: {cause.strerror}") from cause
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        raise ApproverError(f"{path} has to be a directory of yours that nobody else can write to")


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _argon2id(passphrase: bytes, kdf: KdfParams) -> bytes:
    try:
        return Argon2id(
            salt=kdf.salt, length=32, iterations=kdf.iterations, lanes=kdf.lanes, memory_cost=kdf.memory_kib
        ).derive(passphrase)
    except MemoryError as cause:
        raise ApproverError(f"this machine has no {kdf.memory_kib // 1024} MiB to spare for the passphrase") from cause


def _expanded(root: bytes, info: bytes) -> bytes:
    return HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(root)


def _seconds_for(kdf: KdfParams) -> float:
    started = time.perf_counter()
    _argon2id(b"measured, then thrown away", kdf)
    return time.perf_counter() - started
