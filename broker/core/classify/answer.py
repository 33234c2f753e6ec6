"""The part of an answer that an agent may read: its status, allowed headers, and a body that is usable.

A malformed body is never in it. It is built twice, from the bytes as received and from the scrubbed ones, by the
same rules, so that nothing hides in the structure of JSON.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace

from broker.contract.reasons import Category
from broker.contract.result import HttpAnswer
from broker.core.classify.case import Case
from broker.core.classify.reading import Reading, read_bytes
from broker.core.outcome import Verdict

SHOWN_HEADERS = frozenset(
    {
        "content-type", "content-length", "content-language", "date", "etag", "last-modified", "link", "location",
        "retry-after", "x-request-id", "deprecation", "sunset",
    }
)  # fmt: skip
SHOWN_PREFIXES = ("ratelimit-", "x-ratelimit-")
_SHOWN_EXACTLY = frozenset({"ratelimit", "x-ratelimit"})
_USABLE_ON_FAILURE = ("text/plain",)


def build_answer(case: Case, verdict: Verdict) -> HttpAnswer | None:
    """None where no head of an answer was seen."""
    raw = case.raw
    if raw.status is None:
        return None
    declared = () if case.declared is None else case.declared.response_headers
    answer = HttpAnswer(
        status=raw.status,
        headers=shown_headers(raw.headers, declared),
        media_type=case.reading.media,
        body_bytes=raw.body_bytes,
        final_url=case.frozen.url,
    )
    if raw.handed_on_bytes is not None or not _usable(case, verdict):
        return answer
    return _filled(answer, case.reading, raw.body)


def shown_headers(headers: Iterable[tuple[str, str]], declared: Iterable[str]) -> Mapping[str, str]:
    """The allowed ones; a repeated header is joined as HTTP allows."""
    allowed = SHOWN_HEADERS | _SHOWN_EXACTLY | {name.lower() for name in declared}
    shown: dict[str, str] = {}
    for name, value in headers:
        if name in allowed or name.startswith(SHOWN_PREFIXES):
            shown[name] = f"{shown[name]}, {value}" if name in shown else value
    return shown


def with_scrubbed_body(answer: HttpAnswer, body: bytes) -> HttpAnswer:
    """The same answer around scrubbed bytes. JSON that a replacement broke is given as text."""
    if not has_body(answer):
        return answer
    reading = read_bytes(body, media=answer.media_type)
    if not answer.has_json:
        reading = replace(reading, has_json=False)
    return _filled(without_body(answer), reading, body)


def without_body(answer: HttpAnswer) -> HttpAnswer:
    return replace(answer, body=None, body_json=None, has_json=False, body_b64=None)


def has_body(answer: HttpAnswer) -> bool:
    return answer.has_json or answer.body is not None or answer.body_b64 is not None


def _filled(answer: HttpAnswer, reading: Reading, body: bytes) -> HttpAnswer:
    if reading.has_json:
        return replace(answer, body_json=reading.json, has_json=True)
    if reading.text is not None:
        return replace(answer, body=reading.text)
    return replace(answer, body_b64=base64.b64encode(body).decode("ascii"))


def _usable(case: Case, verdict: Verdict) -> bool:
    """Of a failure only JSON and plain text are worth reading; a gateway's HTML page is not."""
    if verdict.category is Category.MALFORMED_RESPONSE or not case.reading.is_whole:
        return False
    if verdict.category in {Category.SUCCESS, Category.PARTIAL}:
        return True
    return case.reading.has_json or case.reading.media in _USABLE_ON_FAILURE
