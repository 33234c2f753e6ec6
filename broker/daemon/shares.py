"""The share of the vault's key that the OS keyring keeps, for the unlock methods that use one.

Asked for when somebody opens the vault, and never kept here. Every call ends within the keyring's own limit; what it
can't give is told as a refusal with what to do. Calls but `asked` wait for a child process: run them in a thread.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from broker.core.secret import Secret
from broker.daemon.keychain_process import command
from broker.server.faults import ControlError
from broker.vault.keychain import Keychain, KeychainError, KeychainFault

_WORDS = {
    KeychainFault.ABSENT: (
        "there is none that the daemon can reach: start the daemon from within the login session (its session bus "
        "and a Secret Service such as GNOME Keyring have to run)"
    ),
    KeychainFault.LOCKED: "it is locked: log in to the desktop session or open it there, then unlock again",
    KeychainFault.SILENT: "it does not answer: end what hangs, or log in again, then unlock again",
    KeychainFault.REFUSED: "it answered with an error: look at it with the desktop's own tool for keys",
}


class KeyShares:
    """One log's share."""

    def __init__(self, keychain: Keychain, log_id: str) -> None:
        self._keychain = keychain
        self._item = f"unlock-share/{log_id}"
        self._asking: asyncio.Future[Secret | None] | None = None

    @staticmethod
    def of_session(environ: Mapping[str, str], log_id: str) -> "KeyShares":
        """In the keyring of the session that the environment names. A silent one is asked again at each opening."""
        return KeyShares(Keychain(command(), environ, rest_s=0.0), log_id)

    async def asked(self) -> Secret | None:
        """The same for whoever asks meanwhile: however many do, one call is under way. Raises ControlError."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().run_in_executor(None, self.get)
            self._asking.add_done_callback(self._answered)
        return await asyncio.shield(self._asking)

    def _answered(self, asking: "asyncio.Future[Secret | None]") -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # whoever still waits is told of it; nobody need be there any more

    def get(self) -> Secret | None:
        """None where the keyring is open and holds none. Raises ControlError where it can't be used."""
        try:
            return self._keychain.get(self._item)
        except KeychainError as error:
            raise unusable(error) from None

    def keep(self, share: Secret) -> None:
        """Put it there, and see that it is there. Raises ControlError."""
        try:
            self._keychain.put(self._item, share)
        except KeychainError as error:
            raise unusable(error) from None

    def drop(self) -> None:
        """No method uses it any more. What the keyring won't forget opens nothing."""
        with suppress(KeychainError):
            self._keychain.remove(self._item)

    def close(self) -> None:
        self._keychain.close()


def unusable(error: KeychainError) -> ControlError:
    """What is told to whoever wanted the vault open."""
    return ControlError("keyring", f"The vault needs its key share of the keyring, and {_WORDS[error.fault]}.")
