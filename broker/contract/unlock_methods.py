"""The unlock methods of a vault, as the command line, the wire and the vault's file spell them."""

from enum import StrEnum


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
