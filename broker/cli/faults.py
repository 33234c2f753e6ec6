"""How a verb ends early: with a sentence for a human and an exit code of the contract. No traceback ever."""

from broker.contract.exits import FAULTS_FOUND, USAGE


class CliError(Exception):
    """The verb can't go on. The message says what to do and holds no secret."""

    exit_code = FAULTS_FOUND
    code = "failed"

    def __init__(self, message: str, *, exit_code: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = self.exit_code if exit_code is None else exit_code
        self.code = self.code if code is None else code


class UsageError(CliError):
    """The command line itself is wrong."""

    exit_code = USAGE
    code = "usage"


class HelpShown(Exception):  # noqa: N818 - an ending, not an error
    """Help was printed; there is nothing left to do."""
