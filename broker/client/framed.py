"""Answers in frames: read as they come, each piece of output handed on, the final envelope returned.

An answer that ends without its envelope is Broken with `sent` set: what became of the request is not known.
On the agent's path: nothing is loaded that is not needed.
"""

from broker.client.faults import Broken
from broker.client.transport import Connection
from broker.contract.frames import DATA, END, MEDIA, PREFIX_BYTES, FrameError, split_data, unpack_prefix

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from collections.abc import Callable

    Heard = Callable[[str, bytes], None]

UPLOAD_FRAME_BYTES = 1 << 19


def is_framed(headers: dict[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0] == MEDIA


def envelope_of(connection: Connection, heard: "Heard", *, is_plain: bool = False) -> bytes:
    """Read frames to the end; the envelope's bytes. Raises Broken.

    `is_plain` says that data is the body of an answer, with no byte before it that names a stream.
    """
    body = _Chunks(connection)
    try:
        while True:
            kind, length = unpack_prefix(body.exactly(PREFIX_BYTES))
            payload = body.exactly(length)
            if kind == DATA:
                heard(*(("body", payload) if is_plain else split_data(payload)))
            elif kind == END:
                body.finish()
                return payload
    except FrameError as cause:
        connection.close()
        raise Broken(f"the daemon's answer is not usable: {cause}", sent=True) from None


class _Chunks:
    """The body of a chunked answer as one run of bytes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._held = b""
        self._ended = False

    def exactly(self, size: int) -> bytes:
        while len(self._held) < size:
            self._more()
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def finish(self) -> None:
        """Read away what ends the body, so that the connection can be used again."""
        while not self._ended:
            self._held = b""
            self._more(may_end=True)

    def _more(self, *, may_end: bool = False) -> None:
        size = 0 if self._ended else self._connection.chunk_size()
        if size == 0:
            self._ended = True
            if may_end:
                return
            self._connection.close()
            raise Broken("the daemon's answer ended before its envelope came", sent=True)
        self._held += self._connection.exactly(size)
        if self._connection.line():
            raise Broken("the daemon's answer is not usable: a chunk does not end where it should", sent=True)
