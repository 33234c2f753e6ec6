"""Bytes of a body to a value, strictly: what they are, never what they were probably meant to be.

UTF-8 alone, a byte-order mark noted and left out, JSON without NaN, infinities or duplicate names, big integers kept.
Whatever can't be read so has no value; whether that matters is for the steps to say.
"""

import re
from dataclasses import dataclass, replace

from broker.contract.wire import JsonValue, WireError, parse_json
from broker.core.outcome import RawOutcome
from broker.core.policy.model import Operation
from broker.core.xml_tree import XmlError, tree_of

BOM = b"\xef\xbb\xbf"
VALUES_MAX = 200_000  # the parser makes them in one go, and everybody waits for that
BODILESS_STATUSES = frozenset({204, 205, 304})

_MEDIA = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}")
_JSON = re.compile(r"(?:application|text)/(?:json|x-amz-json-1\.[01])|.+\+json")
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([A-Za-z0-9._:-]+)', re.IGNORECASE)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_UTF8_NAMES = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A body as it was read. `broken` says why a body that claims to be JSON is none."""

    media: str | None = None
    json: JsonValue = None
    has_json: bool = False
    text: str | None = None
    had_bom: bool = False
    broken: str | None = None
    has_body: bool = False
    xml: JsonValue = None  # the tree of it; see core/xml_tree.py

    @property
    def is_whole(self) -> bool:
        return self.has_body and self.broken is None


def read_body(raw: RawOutcome, *, method: str) -> Reading:
    """Read what came in whole; a body that was cut or can't be decoded has a media type and nothing else."""
    media, charset = media_of(raw)
    if raw.is_body_gone:
        return Reading(media=media, has_body=raw.body_complete)
    if method == "HEAD" or raw.status in BODILESS_STATUSES or not raw.body or not raw.body_complete:
        return Reading(media=media)
    return read_bytes(raw.body, media=media, charset=charset)


def read_bytes(body: bytes, *, media: str | None, charset: str = "") -> Reading:
    plain = body.removeprefix(BOM)
    had_bom = len(plain) != len(body)
    text = _text_of(plain, charset)
    if media is None or not is_json(media):
        return Reading(media=media, text=text, had_bom=had_bom, has_body=True)
    try:
        value = parse_json(plain, max_values=VALUES_MAX)
    except WireError as cause:
        return Reading(media=media, text=text, had_bom=had_bom, broken=str(cause), has_body=True)
    return Reading(media=media, json=value, has_json=True, text=text, had_bom=had_bom, has_body=True)


def media_of(raw: RawOutcome) -> tuple[str | None, str]:
    """The media type in lower case without parameters (None where it is missing or odd), and the charset named."""
    values = [value for name, value in raw.headers if name == "content-type"]
    if len(values) != 1:
        return None, ""
    media = values[0].partition(";")[0].strip().lower()
    if not _MEDIA.fullmatch(media):
        return None, ""
    charset = _CHARSET.search(values[0])
    return media, "" if charset is None else charset[1].lower()


def as_declared(reading: Reading, raw: RawOutcome, declared: Operation | None) -> Reading:
    """The same body, looked at further where an operation declares what it is."""
    if declared is None or not reading.has_body or reading.media is None or reading.text is None:
        return reading
    if declared.lenient_media and not is_json(reading.media):
        again = read_bytes(raw.body, media="application/json")
        return replace(reading, json=again.json, has_json=True) if again.has_json else reading
    if not is_xml(reading.media):
        return reading
    try:
        return replace(reading, xml=tree_of(reading.text))
    except XmlError as cause:
        promised = any(media in {"xml", "+xml"} or media.endswith("xml") for media in declared.media)
        return replace(reading, broken=str(cause)) if promised else reading


def is_xml(media: str) -> bool:
    return media in {"application/xml", "text/xml"} or media.endswith("+xml")


def is_json(media: str) -> bool:
    return _JSON.fullmatch(media) is not None


def _text_of(body: bytes, charset: str) -> str | None:
    if charset not in _UTF8_NAMES and not body.isascii():
        return None
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if _UNPRINTABLE.search(text) else text
