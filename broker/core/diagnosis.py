"""What a human may want to see of an attempt that was no success: what came, the timings, and what decided.

It is made of scrubbed parts alone: a header or body that had to be withheld from the agent is withheld here too, and
stands as size and digest. Bounded: what was cut is counted. Says nothing about where it is kept.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Protocol

from broker.contract.reasons import Category
from broker.contract.wire import JsonObject, JsonValue
from broker.core.outcome import Classified, RawOutcome
from broker.core.ssh.outcome import SshOutcome

OCTETS_KEPT = 64 << 10  # of a body or a stream
HEADERS_KEPT = 100
HEADERS_KEPT_CHARACTERS = 16_384  # names and values of all of them
TEXT_KEPT_CHARACTERS = 2048


class Cleaner(Protocol):
    """Takes the credential out of what is to be kept, as it was taken out of the answer. None is for: withheld."""

    def text(self, text: str) -> str | None: ...
    def octets(self, octets: bytes, *, whole: bool) -> bytes | None:
        """Where it is not whole, a value may have been cut at its end."""
        ...


def diagnose(classified: Classified, raw: RawOutcome, cleaner: Cleaner) -> JsonObject | None:
    """None for a success, of which the agent has everything. Integers and text only, so that it can be sealed."""
    if classified.verdict.category is Category.SUCCESS:
        return None
    headers = _headers(raw.headers[:HEADERS_KEPT], cleaner)
    return {
        **_in_common(classified, raw.phase, raw.fault, raw.elapsed_ms, raw.phase_ms, cleaner),
        "http": {
            "status": raw.status,
            "sent_body_bytes": raw.sent_bytes,
            "headers": headers,
            "headers_cut": len(raw.headers) - len(headers),
            "body": _octets(raw.body, len(raw.body), cleaner, whole=raw.body_complete),
        },
        "ssh": None,
    }


def diagnose_ssh(classified: Classified, seen: SshOutcome, cleaner: Cleaner) -> JsonObject | None:
    """The same for a command; `said` is the far side's own word on a refusal."""
    if classified.verdict.category is Category.SUCCESS:
        return None
    signal = seen.exit_signal
    whole_out, whole_err = (size == len(kept) for size, kept in _streams(seen))
    return {
        **_in_common(classified, seen.phase, seen.fault, seen.elapsed_ms, seen.phase_ms, cleaner),
        "http": None,
        "ssh": {
            "exit_status": seen.exit_status,
            "exit_signal": None if signal is None else _text(signal, cleaner),
            "marker": seen.marker.value,
            "stdout": _octets(seen.stdout, seen.stdout_bytes, cleaner, whole=seen.output_complete and whole_out),
            "stderr": _octets(seen.stderr, seen.stderr_bytes, cleaner, whole=seen.output_complete and whole_err),
            "said": _octets(seen.said, len(seen.said), cleaner, whole=False),
        },
    }


def _streams(seen: SshOutcome) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    return (seen.stdout_bytes, seen.stdout), (seen.stderr_bytes, seen.stderr)


def _in_common(
    classified: Classified,
    phase: str,
    fault: str | None,
    elapsed_ms: int,
    phase_ms: Mapping[str, int],
    cleaner: Cleaner,
) -> dict[str, JsonValue]:
    verdict = classified.verdict
    return {
        "category": verdict.category.value,
        "code": verdict.code,
        "phase": str(phase),
        "fault": None if fault is None else str(fault),
        "elapsed_ms": elapsed_ms,
        "phase_ms": {str(name): value for name, value in phase_ms.items()},
        "decided_by": {
            name: _text(value, cleaner) if isinstance(value, str) else None
            for name, value in classified.grounds.items()
        },
    }


def _headers(headers: tuple[tuple[str, str], ...], cleaner: Cleaner) -> list[JsonValue]:
    kept: list[JsonValue] = []
    left = HEADERS_KEPT_CHARACTERS
    for name, value in headers:
        clean_name, clean_value = _text(name, cleaner), _text(value, cleaner)
        left -= len(clean_name or "") + len(clean_value or "")
        if left < 0:
            break
        kept.append({"name": clean_name, "value": clean_value, "cut": len(value) > TEXT_KEPT_CHARACTERS})
    return kept


def _octets(octets: bytes, seen_bytes: int, cleaner: Cleaner, *, whole: bool) -> JsonObject:
    """`sha256` is of the bytes as they came and were taken in, so that the same answer is known again."""
    about: dict[str, JsonValue] = {
        "bytes": seen_bytes,
        "complete": whole,
        "sha256": hashlib.sha256(octets).hexdigest(),
        "withheld": False,
        "cut_bytes": 0,
        "text": None,
        "base64": None,
    }
    clean = cleaner.octets(octets, whole=whole)
    if clean is None:
        return {**about, "withheld": True}
    kept = clean[:OCTETS_KEPT]
    if len(kept) < len(clean):
        kept = _whole_characters(kept)
    about["cut_bytes"] = len(clean) - len(kept)
    try:
        about["text"] = kept.decode("utf-8")
    except UnicodeDecodeError:
        about["base64"] = base64.b64encode(kept).decode("ascii")
    return about


def _whole_characters(kept: bytes) -> bytes:
    """Without the beginning of a UTF-8 character that a cut left at the end."""
    for back in range(1, 4):
        octet = kept[-back]
        if octet >= 0xC0:
            length = 2 if octet < 0xE0 else 3 if octet < 0xF0 else 4
            return kept[:-back] if length > back else kept
    return kept


def _text(text: str, cleaner: Cleaner) -> str | None:
    clean = cleaner.text(text)
    return None if clean is None else clean[:TEXT_KEPT_CHARACTERS]
