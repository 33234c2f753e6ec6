"""The unlock methods of a vault, as the command line, the wire and the vault's file spell them."""

from collections.abc import Collection
from enum import StrEnum

FIRST_HUMAN_UID = 1000  # below it, but for root, are accounts that nobody logs in to


class UnlockMethod(StrEnum):
    """Each opens the vault by itself: a vault is as strong as the weakest of its methods."""

    PASSPHRASE = "passphrase"  # noqa: S105 - the name of a method
    KEYRING = "keyring"  # a share that the OS keyring keeps, and nothing else
    BOTH = "passphrase+keyring"  # the passphrase and that share; neither opens anything alone

    @property
    def takes_passphrase(self) -> bool:
        return self is not UnlockMethod.KEYRING

    @property
    def takes_share(self) -> bool:
        return self is not UnlockMethod.PASSPHRASE


def keyring_alone_refused(methods: Collection[UnlockMethod], uid: int) -> str | None:
    """Why a daemon of this user must not be opened by its keyring alone; None where it may, or need not."""
    if UnlockMethod.KEYRING not in methods or 0 < uid < FIRST_HUMAN_UID:
        return None
    return (
        "The keyring alone opens no vault of a login user: every program of the session reads an open keyring, and "
        "the vault's file with it. Use passphrase+keyring; in system mode, where the daemon has a user of its own, "
        "the keyring alone is offered."
    )
