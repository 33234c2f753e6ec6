"""The vault: sealed credentials, the approvers' public keys, the trusted policy, and the keys of the audit log.

Edge package: its one error type is VaultError, whose `fault` is a closed set. Never sees a passphrase.
"""

from broker.vault.approver_keys import verify
from broker.vault.contents import AuditHead, TrustedPolicy
from broker.vault.faults import (
    NEEDS_BACKUP,
    Fault,
    QuarantineReason,
    UnlockTooSoon,
    VaultError,
    VaultLocked,
    VaultQuarantined,
    WrongPassphrase,
    in_words,
    remedy,
)
from broker.vault.opened import Opened
from broker.vault.vault import Vault

__all__ = [
    "NEEDS_BACKUP",
    "AuditHead",
    "Fault",
    "Opened",
    "QuarantineReason",
    "TrustedPolicy",
    "UnlockTooSoon",
    "Vault",
    "VaultError",
    "VaultLocked",
    "VaultQuarantined",
    "WrongPassphrase",
    "in_words",
    "remedy",
    "verify",
]
