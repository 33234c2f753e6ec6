"""What a human may want to see of an attempt that was no success: status, headers, body, timings, and what decided.

It is made of scrubbed parts alone: a header or body that had to be withheld from the agent is withheld here too, and
stands as size and digest. Bounded: what was cut is counted. Says nothing about where it is kept.
"""

import base64
import hashlib
from typing import Protocol

from broker.contract.reasons import Category
from broker.contract.wire import JsonObject, JsonValue
from broker.core.outcome import Classified, RawOutcome

BODY_KEPT_BYTES = 64 << 10
HEADERS_KEPT = 100
HEADER_KEPT_CHARACTERS = 2048
PREDICATE_KEPT_CHARACTERS = 4096


class Cleaner(Protocol):
    """Takes the credential out of what is to be kept, as it was taken out of the answer."""

    def text(self, text: str) -> str | None:
        """None where it has to be withheld."""
        ...

    def body(self) -> bytes | None:
        """The whole body without the credential; None where it has to be withheld."""
        ...


def diagnose(classified: Classified, raw: RawOutcome, cleaner: Cleaner) -> JsonObject | None:
    """None for a success, of which the agent has everything. Integers and text only, so that it can be sealed."""
    verdict = classified.verdict
    if verdict.category is Category.SUCCESS:
        return None
    headers = raw.headers[:HEADERS_KEPT]
    return {
        "category": verdict.category.value,
        "code": verdict.code,
        "phase": raw.phase.value,
        "fault": None if raw.fault is None else raw.fault.value,
        "status": raw.status,
        "elapsed_ms": raw.elapsed_ms,
        "phase_ms": dict(raw.phase_ms),
        "sent_body_bytes": raw.sent_bytes,
        "headers": [_header(name, value, cleaner) for name, value in headers],
        "headers_cut": len(raw.headers) - len(headers),
        "body": _body(raw, cleaner),
        "decided_by": {name: _shortened(value, cleaner) for name, value in classified.grounds.items()},
    }


def _header(name: str, value: str, cleaner: Cleaner) -> JsonObject:
    clean_name, clean_value = cleaner.text(name), cleaner.text(value)
    kept = None if clean_value is None else clean_value[:HEADER_KEPT_CHARACTERS]
    cut = 0 if clean_value is None or kept is None else len(clean_value) - len(kept)
    return {
        "name": None if clean_name is None else clean_name[:HEADER_KEPT_CHARACTERS],
        "value": kept,
        "cut": cut,
    }


def _body(raw: RawOutcome, cleaner: Cleaner) -> JsonObject:
    """`sha256` is of the bytes as they came, so that the same answer is known again."""
    about: dict[str, JsonValue] = {
        "bytes": len(raw.body),
        "complete": raw.body_complete,
        "sha256": hashlib.sha256(raw.body).hexdigest(),
        "withheld": False,
        "cut_bytes": 0,
        "text": None,
        "base64": None,
    }
    clean = cleaner.body()
    if clean is None:
        return {**about, "withheld": True}
    kept = clean[:BODY_KEPT_BYTES]
    about["cut_bytes"] = len(clean) - len(kept)
    try:
        about["text"] = kept.decode("utf-8")
    except UnicodeDecodeError as fault:
        if about["cut_bytes"] and fault.start >= len(kept) - 3:  # the cut went through a character
            about["cut_bytes"] = len(clean) - fault.start
            about["text"] = kept[: fault.start].decode("utf-8")
        else:
            about["base64"] = base64.b64encode(kept).decode("ascii")
    return about


def _shortened(value: JsonValue, cleaner: Cleaner) -> JsonValue:
    text = cleaner.text(value) if isinstance(value, str) else None
    return None if text is None else text[:PREDICATE_KEPT_CHARACTERS]
