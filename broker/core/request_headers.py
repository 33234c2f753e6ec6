"""Which headers a request carries: the agent's, less what is not the agent's to say, under the service's own.

Header values are plain printable ASCII, names are tokens, each name stands once: nothing in them can end a line,
frame a body, name another host or method, or carry a credential. The credential's own header is the executor's.
"""

import re
from collections.abc import Iterable, Mapping

MAX_HEADERS = 64
MAX_HEADER_CHARACTERS = 16_384

RESERVED = frozenset(
    {
        "accept-encoding", "authorization", "connection", "content-length", "cookie", "cookie2", "expect", "forwarded",
        "host", "http2-settings", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "via",
        "x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-real-ip", "x-rewrite-url",
    }
)  # fmt: skip
RESERVED_PREFIXES = ("proxy-", "x-forwarded-")
DEFAULTS = (("accept", "*/*"), ("user-agent", "doorward"))

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,128}")
_VALUE = re.compile(r"[ -~]*")


class HeaderError(ValueError):
    """A header that can't be sent. `reserved` tells whether its name is not the requester's to set."""

    def __init__(self, message: str, *, reserved: bool = False) -> None:
        super().__init__(message)
        self.reserved = reserved


def checked_headers(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Lower-case names to values, in order. Raises HeaderError; its message holds reserved names and no other text."""
    found: dict[str, str] = {}
    total = 0
    for spelled, value in pairs:
        name = spelled.lower()
        total += len(name) + len(value)
        if total > MAX_HEADER_CHARACTERS or len(found) >= MAX_HEADERS:
            raise HeaderError(f"the headers are over {MAX_HEADERS} in number or {MAX_HEADER_CHARACTERS} characters")
        if not spelled.isascii() or not _TOKEN.fullmatch(name):
            raise HeaderError("a header name holds a character that no name may hold")
        if name in RESERVED or name.startswith(RESERVED_PREFIXES):
            shown = name if name in RESERVED else next(p + "*" for p in RESERVED_PREFIXES if name.startswith(p))
            raise HeaderError(f"the header {shown} is set by the broker alone", reserved=True)
        if name in found:
            raise HeaderError("a header is named twice")
        if not _VALUE.fullmatch(value):
            raise HeaderError("a header value holds a control character or is not ASCII")
        found[name] = value.strip(" ")
    return found


def merged_headers(
    agent: Mapping[str, str], service: Mapping[str, str], *, content_type: str | None
) -> tuple[tuple[str, str], ...]:
    """All headers in sending order: defaults give way to the agent's, and those to the service's."""
    merged = {**dict(DEFAULTS), **agent, **service}
    if content_type is None:
        merged.pop("content-type", None)
    else:
        merged.setdefault("content-type", content_type)
    return tuple(merged.items())
