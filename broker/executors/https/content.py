"""The bytes of an answer's body, decoded and counted as they come.

Decoded bytes come in pieces of bounded size, whatever was compressed into them; a kept body is at most one byte longer
than its cap. A compressed body counts as whole only when its trailer was there and right.
"""

import zlib
from collections.abc import Iterator

from broker.core.outcome import Fault
from broker.executors.https.faults import ContentFaultError

COMPRESSED_SLACK_BYTES = 65_536  # compression may lengthen small or random content
MAX_MEMBERS = 64
PIECE_BYTES = 262_144

_GZIP_BITS = 16 + zlib.MAX_WBITS
_CODINGS = {"gzip": _GZIP_BITS, "x-gzip": _GZIP_BITS, "deflate": zlib.MAX_WBITS}


class Decoder:
    """Undoes the content coding. Raises ContentFaultError where it is broken or none that was asked for."""

    def __init__(self, coding: str) -> None:
        """`coding` is the whole Content-Encoding. Where no byte comes, it may name whatever it likes."""
        named = [name for part in coding.split(",") if (name := part.strip().lower()) not in {"", "identity"}]
        self._bits = _CODINGS.get(named[0], 0) if len(named) == 1 else 0
        self._is_known = not named or bool(self._bits)
        self._inflate = zlib.decompressobj(self._bits) if self._bits else None
        self._members = 1
        self.received_bytes = 0

    @property
    def is_coded(self) -> bool:
        return self._inflate is not None

    def pieces(self, chunk: bytes, *, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
        """What the chunk decodes to; nothing is decoded ahead of who takes it."""
        if chunk and not self._is_known:
            raise ContentFaultError(Fault.DECODING)
        self.received_bytes += len(chunk)
        if self._inflate is None:
            yield from (chunk,) if chunk else ()
            return
        while chunk:
            if self._inflate.eof:
                self._inflate = self._next_member()
            try:
                piece = self._inflate.decompress(chunk, piece_bytes)
            except zlib.error:
                raise ContentFaultError(Fault.DECODING) from None
            chunk = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if piece:
                yield piece

    def finish(self) -> None:
        """Raises ContentFaultError where a compressed body lacks its end."""
        if self._inflate is not None and self.received_bytes and not self._inflate.eof:
            raise ContentFaultError(Fault.TRUNCATED)

    def _next_member(self) -> "zlib._Decompress":
        """RFC 1952 lets a gzip body be several members in a row; a flood of empty ones is an attack."""
        self._members += 1
        if self._bits != _GZIP_BITS or self._members > MAX_MEMBERS:
            raise ContentFaultError(Fault.DECODING)
        return zlib.decompressobj(_GZIP_BITS)


class Content:
    """Takes the body's chunks. `body` is what was decoded so far, at most `cap_bytes` of it."""

    def __init__(self, *, coding: str, cap_bytes: int) -> None:
        self._decoder = Decoder(coding)
        self._cap_bytes = cap_bytes
        self._body = bytearray()

    @property
    def body(self) -> bytes:
        return bytes(self._body[: self._cap_bytes])

    def feed(self, chunk: bytes) -> None:
        """Raises ContentFaultError when the cap is passed, or the coding is broken or none that was asked for."""
        decoder = self._decoder
        for piece in decoder.pieces(chunk, piece_bytes=self._cap_bytes + 1):
            self._body += piece[: self._room()]
            if len(self._body) > self._cap_bytes:
                raise ContentFaultError(Fault.TOO_LARGE)
        if decoder.is_coded and decoder.received_bytes > self._cap_bytes + COMPRESSED_SLACK_BYTES:
            raise ContentFaultError(Fault.TOO_LARGE)

    def finish(self) -> None:
        """Raises ContentFaultError where a compressed body lacks its end."""
        self._decoder.finish()

    def _room(self) -> int:
        return self._cap_bytes + 1 - len(self._body)
