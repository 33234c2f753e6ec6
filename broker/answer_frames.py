"""An answer of HTTP handed on while it comes: scrubbed before anybody gets it, and no faster than it is taken.

Whoever listens may go away at any time; that is told to who reads the answer, and ends nothing here.
"""

from broker.contract.wire import dump
from broker.core.answer_stream import BODY, HEAD, shown_head, with_stream_scrubbed
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Phase, Scrubbed
from broker.core.scrub_stream import StreamScrubber
from broker.core.secret import Secret
from broker.core.secret_set import SecretSet
from broker.ports import FrameSink


class AnswerFrames:
    """Implements ports.AnswerSink before a FrameSink: nothing of the credential gets through it."""

    def __init__(self, sink: FrameSink, secrets: SecretSet | None, frozen: FrozenRequest) -> None:
        self._sink = sink
        self._secrets = secrets
        self._frozen = frozen
        self._scrubber = StreamScrubber(secrets)
        self._is_heard = True

    async def head(self, status: int, headers: tuple[tuple[str, str], ...], derived: tuple[Secret, ...]) -> bool:
        if self._secrets is not None and derived:
            self._secrets = self._secrets.also(derived)
            self._scrubber = StreamScrubber(self._secrets)
        return await self._hand_on(HEAD, dump(shown_head(self._frozen, status, headers, self._secrets)))

    async def body(self, octets: bytes) -> bool:
        clean = self._scrubber.feed(octets)
        return await self._hand_on(BODY, clean) if clean else self._is_heard

    async def finish(self, scrubbed: Scrubbed) -> Scrubbed:
        """Hand on what was held back, once nothing more comes; the outcome with what was found on the way."""
        rest = self._scrubber.finish(is_whole=scrubbed.phase is Phase.RESPONSE_COMPLETE)
        if rest:
            await self._hand_on(BODY, rest)
        return with_stream_scrubbed(scrubbed, hits=self._scrubber.hits, withheld=self._scrubber.withheld)

    async def _hand_on(self, stream: str, octets: bytes) -> bool:
        if self._is_heard:
            try:
                await self._sink(stream, octets)
            except Exception:  # noqa: BLE001 - whatever befell the listener, what is done is recorded all the same
                self._is_heard = False
        return self._is_heard
