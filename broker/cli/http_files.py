"""Bodies that come from a file or go to one: `doorward http --upload FILE`, `--output FILE`.

Files are opened here, never by the daemon. What is not whole is not left behind under the name that was given; on
standard output it is told by the exit code and on standard error.
"""

import sys

from broker.cli.faults import CliError, UsageError
from broker.cli.part_file import PartFile

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.contract.wire import JsonValue

MOST_UPLOAD_BYTES = 16_777_216
STANDARD = "-"


def content_of(name: str) -> bytes:
    """The bytes of a file, or of standard input. Raises UsageError."""
    if name == STANDARD:
        content = sys.stdin.buffer.read(MOST_UPLOAD_BYTES + 1)
    else:
        try:
            with open(name, "rb") as file:  # noqa: PTH123 - no pathlib on this path
                content = file.read(MOST_UPLOAD_BYTES + 1)
        except OSError as cause:
            raise UsageError(f"{name} can't be read: {cause.strerror}") from None
    if len(content) > MOST_UPLOAD_BYTES:
        raise UsageError(f"{name} has more than {MOST_UPLOAD_BYTES} bytes")
    return content


class Download:
    """Where the body of an answer goes: beside its name until it is whole."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._file = PartFile(name)
        self._heard = False

    def hear(self, _: str, octets: bytes) -> None:
        self._heard = True
        if self._name == STANDARD:
            sys.stdout.buffer.write(octets)
            sys.stdout.buffer.flush()
            return
        self._file.write(octets)

    def end(self, answer: "Mapping[str, JsonValue]") -> int:
        """Keep what is whole, say what there is to say on standard error; the exit code."""
        from broker.cli.main import exit_code  # noqa: PLC0415 - likewise
        from broker.client.envelope_lines import lines  # noqa: PLC0415 - only the end needs it

        is_whole = _is_whole(answer)
        if is_whole and not self._heard:
            self._take(answer)
        if is_whole and self._name != STANDARD:
            self._file.keep()
        if answer.get("category") != "success":
            sys.stdout.flush()
            told = {**answer, "http": None} if is_whole else answer
            print("\n".join(lines(told, terminal=True)), file=sys.stderr)
        elif self._name != STANDARD:
            print(f"got {self._name}")
        return exit_code(answer.get("category"))

    def close(self) -> None:
        """What is not whole is taken away."""
        self._file.discard()

    def _take(self, answer: "Mapping[str, JsonValue]") -> None:
        """The body out of the envelope, where an earlier request's answer is this one's."""
        http = answer.get("http")
        octets = _body_in(http) if isinstance(http, dict) else b""
        if octets is None:
            raise CliError("the body was handed to an earlier request; ask anew, without its --request-id")
        if octets:
            self.hear("body", octets)


def _is_whole(answer: "Mapping[str, JsonValue]") -> bool:
    """Whether the body came to its end and nothing of it was withheld."""
    scrub = answer.get("scrub")
    is_withheld = isinstance(scrub, dict) and scrub.get("state") == "done" and scrub.get("reason") is not None
    return answer.get("category") in {"success", "partial"} and not is_withheld


def _body_in(http: "Mapping[str, JsonValue]") -> bytes | None:
    if "body_b64" in http:
        from base64 import b64decode  # noqa: PLC0415 - only for what is no text

        return b64decode(str(http["body_b64"]))
    if "body" in http:
        return str(http["body"]).encode("utf-8", "surrogatepass")
    if "body_json" in http:
        from broker.contract.wire import dump  # noqa: PLC0415 - loaded by now

        return dump(http["body_json"])
    return None if http.get("body_bytes") else b""
