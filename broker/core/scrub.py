"""The scrubber: the only way out for an answer. It takes the credential's values, however spelled, out of the bytes.

Only exact values are replaced. A value under 16 bytes, or a user name, can't be told from ordinary text: where one
is found, the body is withheld instead. The body is scrubbed as received, before it is read again. A compressed or
encrypted body can't be looked into; the report says so.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from typing_extensions import override

from broker.contract.reasons import Retry, ScrubState, WarningCode
from broker.contract.result import Completeness, HttpAnswer, ScrubReport, Warn
from broker.contract.wire import JsonObject
from broker.core.beginnings import Beginnings
from broker.core.classify.answer import has_body, with_scrubbed_body, without_body
from broker.core.credential import BasicSecret, CredentialSecret, scrub_values
from broker.core.diagnosis import Cleaner, diagnose, diagnose_ssh
from broker.core.outcome import Classified, Scrubbed
from broker.core.secret import Secret
from broker.core.spellings import (
    LONGEST_SPELLING_BYTES,
    MIN_FORM_BYTES,
    Escaped,
    Spellings,
    spellings_of,
    undo_escapes,
)
from broker.core.ssh.answer import has_stream, with_stream
from broker.core.ssh.outcome import SshOutcome
from broker.core.traces import Traces

PLACEHOLDER: Final = b"[redacted]"
MIN_REPLACED_BYTES = 16
MAX_ROUNDS = 4
_WITHHELD = "a part was withheld: it held something of the credential that can't be cut out"
BEGINNING_BYTES = 6  # so much of a value, where an answer broke off, is taken for the value
WINDOW_BYTES = 32_768  # no search runs longer without a break, for other threads wait meanwhile

_OPAQUE_BEGINNINGS = (
    b"\x1f\x8b",  # gzip
    b"PK\x03\x04",  # zip
    b"\x28\xb5\x2f\xfd",  # zstd
    b"\xfd7zXZ\x00",
    b"BZh",
    b"7z\xbc\xaf\x27\x1c",
    b"age-encryption.org/",
    b"-----BEGIN PGP MESSAGE-----",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    data: bytes
    hits: int
    withheld: bool
    is_echo: bool = False  # a value was there, and not just a user name


@final
class SecretSet:
    """The values of one credential version and all their spellings. Costly to build: keep it with the version.

    It holds what it needs, so it goes on working for an answer that comes after the vault was locked.
    """

    __slots__ = ("_beginnings", "_names", "_replaced", "_traces", "_withheld")

    def __init__(self, *, replaced: Iterable[Secret], names: Iterable[Secret] = ()) -> None:
        """Where a `names` stands, or a value that is too short to be replaced, the whole is withheld."""
        long: list[bytes] = []
        short: list[bytes] = []
        for value in replaced:
            (long if len(value) >= MIN_REPLACED_BYTES else short).append(value.reveal())
        self._replaced = tuple(spellings_of(value) for value in sorted(set(long), key=len, reverse=True))
        self._withheld = tuple(spellings_of(value) for value in sorted(set(short)) if value)
        self._names = tuple(spellings_of(value.reveal()) for value in names)
        self._beginnings: Beginnings | None = None
        self._traces = Traces((*self._replaced, *self._withheld, *self._names))

    @override
    def __repr__(self) -> str:
        return "<secret set>"

    def may_stand_in(self, data: bytes) -> bool:
        """A quick look: where it says no, there is no spelling of any value."""
        return self._traces.are_in(data)

    def clean(self, data: bytes) -> Cleaned:
        """Replace every spelling; `withheld` tells that what is left may not be given out."""
        if not self._traces.are_in(data):
            return Cleaned(data=data, hits=0, withheld=False)
        hits = 0
        for _ in range(MAX_ROUNDS):  # a replacement may bring two halves together
            undone = tuple(undo_escapes(data))
            data, found = self._replace_once(data, undone)
            hits += found
            if not found:
                echoed = self._holds_unreplaceable(data, undone)
                withheld = echoed or _stand_in(self._names, data, undone)
                return Cleaned(data=data, hits=hits + int(withheld), withheld=withheld, is_echo=echoed or hits > 0)
        return Cleaned(data=data, hits=hits + 1, withheld=True, is_echo=True)

    def also(self, derived: Collection[Secret]) -> "SecretSet":
        """The set with values that were made for one attempt; this set where there are none."""
        if not derived:
            return self
        more = SecretSet(replaced=derived)
        more._replaced += self._replaced
        more._withheld += self._withheld
        more._traces = Traces((*more._replaced, *more._withheld, *self._names))
        more._names = self._names
        return more

    def in_lower_case(self, text: bytes) -> bool:
        """Whether a text that was lower-cased on its way, such as a header's name, holds a value."""
        everything = (*self._replaced, *self._withheld, *self._names)
        return any(literal.form.lower() in text for one in everything for literal in one.literals)

    def unfinished_in(self, data: bytes) -> int:
        """Where a value may have begun that the end of the data cut; the length of the data where none has."""
        if self._beginnings is None:
            self._beginnings = Beginnings((*self._replaced, *self._withheld, *self._names))
        return self._beginnings.first_in(data)

    def before_break(self, data: bytes) -> bytes | None:
        """Data that breaks off, without what may be the beginning of a value; None where it can't be cut out."""
        everything = [one for group in (self._replaced, self._withheld, self._names) for one in group]
        forms = [literal.form for one in everything for literal in one.literals] + [one.hex_lower for one in everything]
        tail_at = max(0, len(data) - LONGEST_SPELLING_BYTES)
        tail = data[tail_at:]
        if any(form[:BEGINNING_BYTES] in text for text in undo_escapes(tail) for form in forms):
            return None
        return data[: tail_at + min((_begins_at(tail, form) for form in forms), default=len(tail))]

    def _replace_once(self, data: bytes, undone: Collection[bytes]) -> tuple[bytes, int]:
        hits = 0
        for spellings in self._replaced:
            for literal in spellings.literals:
                if literal.form in data:
                    data, count = literal.around.subn(PLACEHOLDER, data)
                    hits += count
            if spellings.hex_lower in data.lower():
                data, count = re.subn(re.escape(spellings.hex_lower), PLACEHOLDER, data, flags=re.IGNORECASE)
                hits += count
        for spellings in self._replaced:
            if spellings.are_escaped_in(undone):
                for form in spellings.escaped():
                    data, count = _replaced(form, data)
                    hits += count
        return data, hits

    def _holds_unreplaceable(self, data: bytes, undone: Collection[bytes]) -> bool:
        if _stand_in(self._withheld, data, undone) or any(one.are_escaped_in(undone) for one in self._replaced):
            return True
        joined = data.translate(None, b"\r\n\t ").replace(b"\\n", b"").replace(b"\\r", b"")  # long lines get broken
        return len(joined) != len(data) and any(one.are_in(joined) for one in self._replaced)


def _begins_at(tail: bytes, form: bytes) -> int:
    """Where a form begins that the end of the data may have cut; the length of the tail where none does."""
    return min(_first(text, form) for text in (tail, tail.lower()))


def _first(text: bytes, form: bytes) -> int:
    found = text.find(form[:BEGINNING_BYTES]) if len(form) > BEGINNING_BYTES else -1
    if found >= 0:
        return found
    lengths = range(min(BEGINNING_BYTES, len(form) - 1, len(text)), 0, -1)
    return next((len(text) - length for length in lengths if text.endswith(form[:length])), len(text))


def _replaced(form: Escaped, data: bytes) -> tuple[bytes, int]:
    """The data without the form, looked at window by window."""
    parts: list[bytes] = []
    done = start = 0
    while start < len(data):
        found = form.find(data, start, start + WINDOW_BYTES + LONGEST_SPELLING_BYTES)
        if found is None:
            start += WINDOW_BYTES
            continue
        parts += [data[done : found[0]], PLACEHOLDER]
        done = start = found[1]
    return b"".join([*parts, data[done:]]), len(parts) // 2


def _stand_in(values: Iterable[Spellings], data: bytes, undone: Collection[bytes]) -> bool:
    return any(one.are_in(data) or one.are_escaped_in(undone) for one in values)


def secret_set(secret: CredentialSecret) -> SecretSet:
    """The set for a credential. A Basic user name is withheld, unless it is so short that it is in any text."""
    names = []
    if isinstance(secret, BasicSecret) and len(secret.username.encode()) >= MIN_FORM_BYTES:
        names.append(Secret(secret.username))
    return SecretSet(replaced=scrub_values(secret), names=names)


def scrub(classified: Classified, secrets: SecretSet | None) -> Scrubbed:
    """The outcome as it may leave. `secrets` is None where no credential took part."""
    raw = classified.raw
    if isinstance(raw, SshOutcome):
        return _scrub_ssh(classified, raw, secrets)
    if secrets is None:
        report, diagnosis = ScrubReport(), diagnose(classified, raw, _Untouched())
        done = _scrubbed(classified, classified.answer, classified.completeness, (), report, hits=0, is_echo=False)
        return replace(done, diagnosis=diagnosis)
    secrets = secrets.also(raw.derived)
    work = _Work(secrets)
    answer = None if classified.answer is None else work.answer(classified.answer, raw.body)
    completeness = None if classified.completeness is None else work.completeness(classified.completeness)
    if work.cut_cursor:
        classified = replace(classified, verdict=replace(classified.verdict, retry=Retry.NEVER))
    if work.withheld:
        state, reason = ScrubState.DONE, _WITHHELD
    elif answer is not None and has_body(answer) and raw.body.startswith(_OPAQUE_BEGINNINGS):
        state, reason = ScrubState.NOT_POSSIBLE, "the body is compressed or encrypted and was not looked into"
    else:
        state, reason = ScrubState.DONE, None
    warnings = () if reason is None else (_not_possible(reason),)
    report = ScrubReport(state=state, reason=reason)
    done = _scrubbed(classified, answer, completeness, warnings, report, hits=work.hits, is_echo=work.is_echo)
    return replace(done, diagnosis=diagnose(classified, raw, _ForDiagnosis(secrets, work.known)))


def _scrub_ssh(classified: Classified, seen: SshOutcome, secrets: SecretSet | None) -> Scrubbed:
    """The same for what a host said: both streams as they came, and every other text."""
    work = _Work(secrets) if secrets is not None else None
    ssh = classified.ssh if classified.ssh is None or work is None else work.ssh(classified.ssh, seen)
    opaque = ssh is not None and has_stream(ssh, "stdout") and seen.stdout.startswith(_OPAQUE_BEGINNINGS)
    if work is None:
        report = ScrubReport()
    elif work.withheld:
        report = ScrubReport(state=ScrubState.DONE, reason=_WITHHELD)
    elif opaque:
        report = ScrubReport(state=ScrubState.NOT_POSSIBLE, reason="the output is compressed or encrypted")
    else:
        report = ScrubReport(state=ScrubState.DONE)
    done = _scrubbed(
        classified,
        None,
        classified.completeness,
        () if report.reason is None else (_not_possible(report.reason),),
        report,
        hits=work.hits if work is not None else 0,
        is_echo=work is not None and work.is_echo,
        ssh=ssh,
    )
    cleaner: Cleaner = _Untouched() if secrets is None or work is None else _ForDiagnosis(secrets, work.known)
    return replace(done, diagnosis=diagnose_ssh(classified, seen, cleaner))


class _Work:
    """One scrubbing: counts as it goes."""

    def __init__(self, secrets: SecretSet) -> None:
        self._secrets = secrets
        self.hits = 0
        self.withheld = False
        self.is_echo = False
        self.cut_cursor = False
        self.known: dict[bytes, Cleaned] = {}

    def answer(self, answer: HttpAnswer, body: bytes) -> HttpAnswer:
        cleaned = self.known[body] = self._clean(body)
        if cleaned.withheld:
            self.withheld = self.withheld or has_body(answer)
            answer = without_body(answer)
        elif cleaned.hits:
            answer = with_scrubbed_body(answer, cleaned.data)
        return replace(
            answer,
            headers=self._headers(answer.headers),
            media_type=None if answer.media_type is None else self._text(answer.media_type),
            final_url=self._text(answer.final_url) or "",
        )

    def completeness(self, completeness: Completeness) -> Completeness:
        cursor = None if completeness.next_cursor is None else self._text(completeness.next_cursor)
        continuation = completeness.continuation
        if cursor != completeness.next_cursor:  # a cut cursor leads nowhere
            self.cut_cursor = True
            cursor, continuation = None, {"kind": "none"}
        snapshot = None if completeness.snapshot is None else self._text(completeness.snapshot)
        return replace(completeness, next_cursor=cursor, continuation=continuation, snapshot=snapshot)

    def ssh(self, answer: JsonObject, seen: SshOutcome) -> JsonObject:
        for stream, octets, seen_bytes in (
            ("stdout", seen.stdout, seen.stdout_bytes),
            ("stderr", seen.stderr, seen.stderr_bytes),
        ):
            if has_stream(answer, stream):
                answer = with_stream(answer, stream, self._stream(octets, is_cut=seen_bytes > len(octets)))
        signal = answer.get("exit_signal")
        return {**answer, "exit_signal": self._text(signal)} if isinstance(signal, str) else answer

    def _stream(self, octets: bytes, *, is_cut: bool) -> bytes | None:
        """The bytes as they may leave; None where they may not. Where they were cut, a value may have been, too."""
        cleaned = self.known[octets] = self._clean(octets)
        if cleaned.withheld:
            self.withheld = True
            return None
        whole = self._secrets.before_break(cleaned.data) if is_cut else cleaned.data
        self.withheld = self.withheld or whole is None
        return whole

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        texts = "\0".join((*headers, *headers.values()))  # one look at all of them, which mostly is enough
        if not self._secrets.may_stand_in(texts.encode("utf-8", "surrogatepass")):
            return dict(headers)
        kept = {}
        for name, value in headers.items():
            if self._secrets.in_lower_case(name.encode("utf-8", "surrogatepass")):
                self.hits, self.is_echo = self.hits + 1, True
                continue
            text = self._text(value)
            if text is not None:
                kept[name] = text
        return kept

    def _text(self, text: str) -> str | None:
        """The scrubbed text, None where it has to be withheld."""
        cleaned = self._clean(text.encode("utf-8", "surrogatepass"))
        if cleaned.withheld:
            self.withheld = True
            return None
        return cleaned.data.decode("utf-8", "surrogatepass") if cleaned.hits else text

    def _clean(self, data: bytes) -> Cleaned:
        cleaned = self._secrets.clean(data)
        self.hits += cleaned.hits
        self.is_echo = self.is_echo or cleaned.is_echo
        return cleaned


class _Untouched:
    """Where no credential took part: a diagnosis.Cleaner that has nothing to do."""

    def text(self, text: str) -> str:
        return _spelled(text.encode("utf-8", "surrogatepass"))

    def octets(self, octets: bytes, *, whole: bool) -> bytes:  # noqa: ARG002 - nothing can have been cut
        return octets


class _ForDiagnosis:
    """A diagnosis.Cleaner with the values of the credential. What it finds is no part of the scrub report."""

    def __init__(self, secrets: SecretSet, known: Mapping[bytes, Cleaned] | None = None) -> None:
        """`known` is what was cleaned already."""
        self._secrets = secrets
        self._known = known or {}

    def text(self, text: str) -> str | None:
        octets = text.encode("utf-8", "surrogatepass")
        cleaned = self._secrets.clean(octets)
        lowered = not cleaned.hits and self._secrets.in_lower_case(octets.lower())
        return None if cleaned.withheld or lowered else _spelled(cleaned.data)

    def octets(self, octets: bytes, *, whole: bool) -> bytes | None:
        cleaned = self._known.get(octets) or self._secrets.clean(octets)
        if cleaned.withheld:
            return None
        return cleaned.data if whole else self._secrets.before_break(cleaned.data)


def _spelled(octets: bytes) -> str:
    return octets.decode("utf-8", "backslashreplace")


def _scrubbed(
    classified: Classified,
    answer: HttpAnswer | None,
    completeness: Completeness | None,
    warnings: tuple[Warn, ...],
    report: ScrubReport,
    *,
    hits: int,
    is_echo: bool,
    ssh: JsonObject | None = None,
) -> Scrubbed:
    raw = classified.raw
    return Scrubbed(
        verdict=classified.verdict,
        answer=answer,
        ssh=ssh,
        completeness=completeness,
        warnings=(*classified.warnings, *warnings),
        report=report,
        hits=hits,
        is_echo=is_echo,
        phase=raw.phase,
        status=None if isinstance(raw, SshOutcome) else raw.status,
        fault=raw.fault,
        elapsed_ms=raw.elapsed_ms,
    )


def _not_possible(reason: str) -> Warn:
    return Warn(code=WarningCode.SCRUB_NOT_POSSIBLE, message=f"The answer could not be scrubbed as usual: {reason}.")
