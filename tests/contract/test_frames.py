"""Frames of the streaming routes."""

import pytest

from broker.contract.frames import (
    DATA,
    END,
    HEAD,
    MAX_FRAME_BYTES,
    PREFIX_BYTES,
    FrameError,
    data,
    pack,
    split_data,
    unpack_prefix,
)


@pytest.mark.parametrize("kind", [HEAD, DATA, END])
@pytest.mark.parametrize("payload", [b"", b"{}", b"\x00" * 70_000])
def test_what_is_packed_is_told_again(kind: bytes, payload: bytes) -> None:
    frame = pack(kind, payload)

    assert (kind, len(payload)) == unpack_prefix(frame[:PREFIX_BYTES])
    assert payload == frame[PREFIX_BYTES:]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_data_says_of_which_stream_it_is(stream: str) -> None:
    assert (stream, b"a\n") == split_data(data(stream, b"a\n")[PREFIX_BYTES:])


@pytest.mark.parametrize("prefix", [b"X\0\0\0\1", HEAD + (MAX_FRAME_BYTES + 1).to_bytes(4, "big")])
def test_what_is_no_frame_is_refused(prefix: bytes) -> None:
    with pytest.raises(FrameError):
        unpack_prefix(prefix)


@pytest.mark.parametrize("payload", [b"", b"\x00a", b"\x03a"])
def test_data_of_no_stream_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError):
        split_data(payload)
