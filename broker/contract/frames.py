"""Frames of the streaming routes: one byte of kind, four of length, then the payload.

`H` is a JSON head, `D` data, `E` the final envelope as JSON. Data of SSH begins with one byte that tells the stream.
An answer that has no `E` at its end is no whole one. Plain functions, so that the thin client can use them at no cost.
"""

import struct

MEDIA = "application/x-doorward-frames"
HEAD, DATA, END = b"H", b"D", b"E"
PREFIX_BYTES = 5
MAX_FRAME_BYTES = 16 << 20
MAX_DATA_BYTES = 1 << 20
STREAM_BYTES = {"stdout": b"\x01", "stderr": b"\x02"}
STREAM_OF = {1: "stdout", 2: "stderr"}
_PREFIX = struct.Struct(">cI")


class FrameError(ValueError):
    """Bytes that are no frame, or one that is too long."""


def pack(kind: bytes, payload: bytes) -> bytes:
    return _PREFIX.pack(kind, len(payload)) + payload


def data(stream: str, octets: bytes) -> bytes:
    """A piece of one stream of a command."""
    return pack(DATA, STREAM_BYTES[stream] + octets)


def unpack_prefix(prefix: bytes) -> tuple[bytes, int]:
    """Kind and length of the frame that begins with these bytes. Raises FrameError."""
    kind, length = _PREFIX.unpack(prefix)
    if kind not in {HEAD, DATA, END} or length > MAX_FRAME_BYTES:
        raise FrameError("not a frame")
    return kind, length


def split_data(payload: bytes) -> tuple[str, bytes]:
    """The stream and its piece. Raises FrameError."""
    stream = STREAM_OF.get(payload[0]) if payload else None
    if stream is None:
        raise FrameError("data of no stream")
    return stream, payload[1:]
