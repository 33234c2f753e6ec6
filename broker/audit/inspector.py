"""`python -I -m broker.audit.inspector`: one inspection of a log, in a process of its own with bounded memory and time.

Reads a request as JSON on standard input; writes lines of progress and, last, one answer. Opens the log and its pin
and nothing else, writes nothing but its answer.
"""

import hashlib
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from broker.audit.faults import AuditError
from broker.audit.inspection import FROM_OUTSIDE, SUSPECT
from broker.audit.ladder import HeldAnchor
from broker.audit.payload import Endorser, unpack_epoch
from broker.audit.pin import Anchor, Pin
from broker.audit.resume import Passed, behind_all, is_unchanged
from broker.audit.segment import SegmentFile, layout_of, number_of, segment_name
from broker.audit.verdict import Rung, Verdict, VerdictName
from broker.audit.verify import Progress, verify
from broker.contract.wire import JsonObject, JsonValue, WireError, dump, parse_object
from broker.core.chain import HASH_BYTES, HEADER_BYTES, RecordType, parse_header
from broker.core.damage import KnownDamage

MAX_MEMORY_BYTES = 1 << 30  # of address space; what is resident stays far below
MAX_REQUEST_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_STRENGTH = list(Rung)
_WHOLE = frozenset({VerdictName.OK, VerdictName.OK_UNANCHORED})


def main() -> int:
    """Never a traceback: what fails is one line that says so."""
    try:
        request = parse_object(sys.stdin.buffer.read(MAX_REQUEST_BYTES), max_bytes=MAX_REQUEST_BYTES)
        _bound(request)
        answer = inspect(request, _Progress())
    except (AuditError, WireError, OSError, ValueError, KeyError, TypeError, MemoryError) as cause:
        answer = {"fault": str(cause) if isinstance(cause, AuditError) else type(cause).__name__}
    _say(answer)
    return 0


def inspect(request: JsonObject, progress: Progress) -> JsonObject:
    """Raises AuditError where pin or an anchor can't be read."""
    directory, pin = Path(str(request["directory"])), Pin.load(Path(str(request["pin"])))
    anchors = _anchors(request["anchors"], Path(str(request["directory"])))
    before = None if request["verified"] is None else Passed.from_json(request["verified"])
    verdict = None if before is None else _cheaply(directory, pin, anchors, before, progress)
    if verdict is None:
        files: list[Passed] = []
        verdict = verify(directory, pin=pin, anchors=anchors, progress=progress, passed=files)
        before = behind_all(files[:-1]) if verdict.verdict in _WHOLE else None  # the last one grows
    given = request["known"]
    known = KnownDamage.from_json(given) if isinstance(given, dict) else None
    answer: dict[str, JsonValue] = {
        "verdict": verdict.to_json(),
        "judged": verdict.to_json(),
        "known": False,
        "damage": None,
        "intact": known is not None and _intact(directory, known),
        "unendorsed": verdict.verdict is VerdictName.FORGED_SIGNATURE and _nobody_endorsed(directory, verdict),
        "verified": None if before is None else before.to_json(),
    }
    if verdict.verdict in SUSPECT:
        answer |= _damaged(directory, pin, anchors, verdict, known)
    return answer


def _damaged(
    directory: Path, pin: Pin, anchors: Sequence[HeldAnchor], verdict: Verdict, known: KnownDamage | None
) -> dict[str, JsonValue]:
    """Whether this is what a human took over, to the byte; and whether the log is whole behind it."""
    if known is None or not _same(directory, verdict, known):
        return {"damage": _damage_of(directory, verdict).to_json()}
    rest = verify(directory, pin=pin, anchors=anchors, first=known.resumed)
    return {"known": True, "judged": rest.to_json(), "damage": known.to_json()}


def _damage_of(directory: Path, verdict: Verdict) -> KnownDamage:
    """As it lies there now, from the first bad file on; all of it where it is knowledge from outside that speaks."""
    named = None if verdict.segment is None or verdict.verdict in FROM_OUTSIDE else number_of(Path(verdict.segment))
    first = named or 1
    sizes = [(number, size) for number, size in _sizes(directory) if number >= first]
    return KnownDamage(
        verdict=verdict.verdict.value,
        segment=verdict.segment,
        offset=verdict.offset,
        seq=verdict.seq,
        files=tuple(sizes),
        sha256=_digest(directory, sizes),
        resumed=sizes[-1][0] if sizes else first,
        at_ms=0,
    )


def _same(directory: Path, verdict: Verdict, known: KnownDamage) -> bool:
    """The verdict, its place, and every byte that was there."""
    place = (verdict.verdict.value, verdict.segment, verdict.offset, verdict.seq)
    return place == (known.verdict, known.segment, known.offset, known.seq) and _intact(directory, known)


def _intact(directory: Path, known: KnownDamage) -> bool:
    """Every byte that was there is; only the last file has grown, or others have followed."""
    first = known.files[0][0] if known.files else 1
    here = {number: size for number, size in _sizes(directory) if number >= first}
    for number, size in known.files[:-1]:
        if here.get(number) != size:
            return False
    numbers = [number for number, _ in known.files]
    added = [number for number in here if number not in numbers and number < max(numbers, default=0)]
    return not added and _digest(directory, known.files) == known.sha256


def _nobody_endorsed(directory: Path, verdict: Verdict) -> bool:
    """Whether the place that the verdict names is an EPOCH that says of itself that nobody endorsed it."""
    with suppress(OSError), SegmentFile(directory / str(verdict.segment)) as file:
        header = parse_header(file.read(verdict.offset or 0, HEADER_BYTES))
        if header is not None and header.kind is RecordType.EPOCH:
            payload_bytes = header.record_bytes - HEADER_BYTES - HASH_BYTES
            entry = unpack_epoch(file.read((verdict.offset or 0) + HEADER_BYTES, payload_bytes))
            return entry is not None and entry.endorser is Endorser.NOBODY and not any(entry.signature)
    return False


def _sizes(directory: Path) -> list[tuple[int, int]]:
    with suppress(OSError):
        return [(number_of(path) or 0, path.lstat().st_size) for path in layout_of(directory).segments]
    return []


def _digest(directory: Path, files: Sequence[tuple[int, int]]) -> str:
    digest = hashlib.sha256()
    for number, size in files:
        digest.update(f"{number}:{size}\n".encode())
        try:
            with SegmentFile(directory / segment_name(number)) as file:
                for offset in range(0, size, _READ_BYTES):
                    digest.update(file.read(offset, min(_READ_BYTES, size - offset)))
        except OSError:
            digest.update(b"unreadable")
    return digest.hexdigest()


def _cheaply(
    directory: Path, pin: Pin, anchors: Sequence[HeldAnchor], before: Passed, progress: Progress
) -> Verdict | None:
    """The verdict from what follows the files that passed before, where they are as they were; None for any doubt."""
    try:
        paths = layout_of(directory).segments
    except OSError:
        return None
    if not is_unchanged(paths, before, [(held.anchor.seq, held.anchor.head) for held in anchors]):
        return None
    newer = [held for held in anchors if held.anchor.seq >= before.seq]
    verdict = verify(directory, pin=pin, anchors=newer, progress=progress, start=before)
    if verdict.verdict not in _WHOLE:
        return None
    older = [held.rung for held in anchors if held.anchor.seq < before.seq]
    rung = max([verdict.rung, *older], key=_STRENGTH.index)
    if rung is verdict.rung:
        return verdict
    return replace(verdict, verdict=VerdictName.OK, rung=rung)


def _anchors(value: JsonValue, source: Path) -> list[HeldAnchor]:
    listed = value if isinstance(value, list) else []
    return [
        HeldAnchor(rung=Rung(str(item["rung"])), anchor=Anchor.parse(str(item["line"]).encode(), source=source))
        for item in listed
        if isinstance(item, dict)
    ]


def _bound(request: JsonObject) -> None:
    limit_s = request["limit_s"]
    if not isinstance(limit_s, int) or limit_s < 1:
        raise ValueError("limit_s")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    signal.alarm(limit_s)  # also where the parent is gone


class _Progress:
    """Says each whole percent once."""

    def __init__(self) -> None:
        self._said = 0

    def __call__(self, done: int, whole: int) -> None:
        percent = done * 100 // max(whole, 1)
        if percent > self._said:
            self._said = percent
            _say({"percent": percent})


def _say(line: JsonObject) -> None:
    sys.stdout.buffer.write(dump(line) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
