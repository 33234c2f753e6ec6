"""Small real vaults with cheap parameters, and a clock that stands still until it is moved."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.contract.kdf import KdfParams
from broker.contract.key_id import key_id
from broker.contract.statements import policy_bytes
from broker.contract.unlock_methods import UnlockMethod
from broker.core.credential import BearerSecret, Credential, CredentialSecret, parse_binding
from broker.core.secret import Secret
from broker.vault import TrustedPolicy, Vault

NOW_MS = 1_763_130_000_000
LOG_ID = "doorward-log-5c1d"
KEK = Secret(b"k" * 32)
WRONG_KEK = Secret(b"w" * 32)
AUDIT_SK = Secret(b"a" * 32)
ROOT_SEED = Secret(b"r" * 32)
CHEAP_KDF = KdfParams(memory_kib=8192, iterations=1, lanes=1, salt=b"salt-of-16-bytes")
APPROVER = Ed25519PrivateKey.from_private_bytes(b"p" * 32)
APPROVER_KEY = APPROVER.public_key().public_bytes_raw()


@dataclass
class StillClock:
    """Monotonic seconds that move when told."""

    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def new_vault(
    directory: Path,
    *,
    kek: Secret = KEK,
    methods: Sequence[UnlockMethod] = (UnlockMethod.PASSPHRASE,),
    share: Secret | None = None,
) -> Path:
    """A vault in a directory of its own."""
    path = directory / "data" / "vault.db"
    Vault.create(
        path,
        kek=kek,
        kdf=CHEAP_KDF,
        log_id=LOG_ID,
        audit_sk=AUDIT_SK,
        root_seed=ROOT_SEED,
        approver_public_key=APPROVER_KEY,
        now_ms=NOW_MS,
        methods=methods,
        share=share,
    )
    return path


def bearer(name: str, value: str, *origins: str) -> Credential:
    return credential(name, BearerSecret(token=Secret(value)), *origins)


def credential(name: str, secret: CredentialSecret, *origins: str) -> Credential:
    urls = origins or ("https://api.example.com",)
    return Credential(name=name, bindings=tuple(parse_binding(url) for url in urls), secret=secret)


def signed_policy(counter: int, *, signer: Ed25519PrivateKey = APPROVER, log_id: str = LOG_ID) -> TrustedPolicy:
    digest = f"sha256:{counter:064x}"
    message = policy_bytes({"policy_digest": digest, "counter": counter, "log_id": log_id})
    return TrustedPolicy(
        files=(("rules.toml", b"version = 1\n"),),
        digest=digest,
        counter=counter,
        signature=signer.sign(message),
        approver=key_id(signer.public_key().public_bytes_raw()),
    )
