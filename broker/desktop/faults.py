"""The error type of this package: what is the matter with a bus, or with who is asked on it."""

from enum import StrEnum


class Trouble(StrEnum):
    """Why a bus or a service on it is of no use now."""

    ABSENT = "absent"  # no address, nobody listens there, or nobody owns the name
    SILENT = "silent"  # no answer within the limit
    GONE = "gone"  # the connection ended
    REFUSED = "refused"  # an answer, and it was an error
    ODD = "odd"  # an answer that makes no sense


class DesktopError(Exception):
    """`trouble` is for programs; the message says what was tried, and holds no text that came from a bus."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble
