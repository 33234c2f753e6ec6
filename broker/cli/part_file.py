"""A file of what comes from the daemon: beside its name until it is whole, and never there in part.

No pathlib, no dataclass: this is on the path of agents, where each millisecond counts.
"""

import os

from broker.cli.faults import CliError

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from typing import BinaryIO


class PartFile:
    """Write to it, then `keep` it or `discard` it. Each raises CliError where the disk does not do it."""

    def __init__(self, name: str) -> None:
        """Nothing is made before there is something to write, or to keep."""
        self._name = name
        self._beside = f"{name}.doorward-{os.getpid()}.part"
        self._file: BinaryIO | None = None

    def write(self, octets: bytes) -> None:
        try:
            self._opened().write(octets)
        except OSError as cause:
            raise self._fault(cause) from None

    def keep(self) -> None:
        """It is whole, if only empty: it gets its name, in place of what had it."""
        try:
            self._opened().close()
            os.replace(self._beside, self._name)  # noqa: PTH105 - no pathlib here
        except OSError as cause:
            raise self._fault(cause) from None
        self._file = None

    def discard(self) -> None:
        """What is not whole is taken away; what was kept stays."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            try:
                file.close()
            finally:
                os.unlink(self._beside)  # noqa: PTH108 - no pathlib here
        except OSError as cause:
            raise self._fault(cause) from None

    def _opened(self) -> "BinaryIO":
        if self._file is None:
            descriptor = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._file = os.fdopen(descriptor, "wb")
        return self._file

    def _fault(self, cause: OSError) -> CliError:
        return CliError(f"{self._name} can't be written: {cause.strerror}")
