"""A request for an action as it came in: its document, and what it asks for, or why it asks for nothing."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from broker.contract.wire import JsonObject
from broker.core import refusals
from broker.core.asks import Asked
from broker.core.identity import Caller
from broker.core.refusals import Refusal
from broker.ports import FrameSink
from broker.server.shapes import ShapeError, UnreadableError, read_body

BODY_MAX = 1 << 20

Reader: TypeAlias = Callable[[JsonObject], Asked]
"""A checked document as a value. Raises ShapeError."""


def digest_of(raw: bytes) -> str:
    """Of a body as it was received."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """`ask` is a refusal where the bytes can't be read; `weight` is how many bytes are kept of it."""

    document: JsonObject
    ask: Asked | Refusal
    body_digest: str
    weight: int
    frames: FrameSink | None = None
    caller: Caller | None = None  # where nothing was waited for since the look at it

    @classmethod
    def of(
        cls, raw: bytes, schema: str, read: Reader, *, content: bytes = b"", caller: Caller | None = None
    ) -> "Incoming":
        """`content` is what came beside the document; with a `caller` it begins at once, without another look."""
        document: JsonObject = {}
        ask: Asked | Refusal
        try:
            document = read_body(raw, schema, max_bytes=BODY_MAX)
            ask = read(document)
        except UnreadableError as cause:
            ask = refusals.unreadable(str(cause))
        except ShapeError as cause:
            ask = refusals.misshapen(str(cause))
        return cls(
            document=document,
            ask=ask,
            body_digest=digest_of(raw + content),
            weight=len(raw) + len(content),
            caller=caller,
        )

    @property
    def is_refused(self) -> bool:
        return isinstance(self.ask, Refusal)

    def heard_by(self, frames: FrameSink) -> "Incoming":
        return replace(self, frames=frames)

    def refused(self, refusal: Refusal) -> "Incoming":
        return replace(self, ask=refusal)
