"""Output that is handed on while a command runs, and files once they are read: scrubbed before anybody gets it.

Whoever listens may go away at any time; the action goes on to its end all the same.
"""

import base64
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from broker.answer_frames import AnswerFrames
from broker.core.channels import Frozen
from broker.core.outcome import Scrubbed
from broker.core.scrub_stream import StreamScrubber
from broker.core.secret_set import SecretSet
from broker.core.ssh.answer import STREAMS, with_stream
from broker.core.ssh.frozen import FrozenSsh, Get
from broker.core.ssh.outcome import SshPhase
from broker.core.ssh.streamed import with_output_scrubbed
from broker.ports import FrameSink

PIECE_BYTES = 65_536


class ScrubbedFrames:
    """A FrameSink before another one: nothing of the credential gets through it."""

    def __init__(self, sink: FrameSink, secrets: SecretSet | None) -> None:
        self._sink = sink
        self._streams = {stream: StreamScrubber(secrets) for stream in STREAMS}

    async def __call__(self, stream: str, octets: bytes) -> None:
        clean = self._streams[stream].feed(octets)
        if clean:
            await self._sink(stream, clean)

    @property
    def hits(self) -> int:
        return sum(scrubber.hits for scrubber in self._streams.values())

    @property
    def withheld(self) -> bool:
        """Whether a stream was ended for what could not be cut out of it."""
        return any(scrubber.withheld for scrubber in self._streams.values())

    async def finish(self, *, is_whole: bool) -> None:
        """Hand on what was held back, once nothing more comes; of streams that were cut not even that."""
        for stream, scrubber in self._streams.items():
            rest = scrubber.finish(is_whole=is_whole)
            if rest:
                await self._sink(stream, rest)

    async def whole(self, stream: str, clean: bytes) -> None:
        """Hand on what was scrubbed as a whole."""
        for start in range(0, len(clean), PIECE_BYTES):
            await self._sink(stream, clean[start : start + PIECE_BYTES])


Frames: TypeAlias = ScrubbedFrames | AnswerFrames


async def delivered(frozen: Frozen, scrubbed: Scrubbed, frames: Frames | None) -> Scrubbed:
    """The outcome without the file that the listener was handed; any other outcome as it is."""
    if frames is None:
        return scrubbed
    if isinstance(frames, AnswerFrames):
        return await frames.finish(scrubbed)
    is_file = isinstance(frozen, FrozenSsh) and isinstance(frozen.action, Get)
    with suppress(Exception):  # whatever befell the listener, what was done is on record
        await frames.finish(is_whole=scrubbed.phase is SshPhase.CLOSED)
        if is_file and scrubbed.ssh is not None:
            await frames.whole("stdout", _octets(scrubbed))
    if not is_file or scrubbed.ssh is None:
        return with_output_scrubbed(scrubbed, hits=frames.hits, withheld=frames.withheld)
    return replace(scrubbed, ssh=with_stream(scrubbed.ssh, "stdout", None))


def _octets(scrubbed: Scrubbed) -> bytes:
    ssh = scrubbed.ssh or {}
    if "stdout_b64" in ssh:
        return base64.b64decode(str(ssh["stdout_b64"]))
    return str(ssh.get("stdout", "")).encode("utf-8", "surrogatepass")
