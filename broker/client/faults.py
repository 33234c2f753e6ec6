"""The one family of errors of the client. Messages name what failed and what to do, and never hold a secret.

A message may carry words of the daemon; whoever prints it neutralises it.
"""


class ClientError(Exception):
    """Something between this process and the daemon went wrong."""


class NotRunning(ClientError):  # noqa: N818 - the name says what is so
    """Nobody listens on the socket: nothing was sent."""


class Broken(ClientError):  # noqa: N818 - likewise
    """The other side is not the daemon we trust, or does not speak as it should. `sent` tells if bytes went out."""

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class Refused(ClientError):  # noqa: N818 - likewise
    """The daemon understood and said no."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        faults: tuple[tuple[str, str, str], ...] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.faults = faults  # path, problem, expected
        self.retry_after_s = retry_after_s
