"""The scrubber: the only way out for an answer. It takes the credential's values, however spelled, out of the bytes.

The body is scrubbed as received, before it is read again; what can't be cut out of it withholds it. A compressed or
encrypted body can't be looked into; the report says so.
"""

from collections.abc import Mapping
from dataclasses import replace

from broker.contract.reasons import Retry, ScrubState, WarningCode
from broker.contract.result import Completeness, HttpAnswer, ScrubReport, Warn
from broker.contract.wire import JsonObject
from broker.core.classify.answer import has_body, with_scrubbed_body, without_body
from broker.core.diagnosis import Cleaner, diagnose, diagnose_ssh
from broker.core.outcome import Classified, Scrubbed
from broker.core.secret_set import Cleaned, SecretSet
from broker.core.ssh.answer import has_stream, with_stream
from broker.core.ssh.outcome import SshOutcome

_WITHHELD = "a part was withheld: it held something of the credential that can't be cut out"

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


def scrub(classified: Classified, secrets: SecretSet | None) -> Scrubbed:
    """The outcome as it may leave. `secrets` is None where no credential took part."""
    raw = classified.raw
    if isinstance(raw, SshOutcome):
        return _scrub_ssh(classified, raw, secrets)
    if secrets is None:
        report, diagnosis = ScrubReport(), diagnose(classified, raw, _Untouched())
        answer, completeness = classified.answer, classified.completeness
        return _scrubbed(classified, answer, completeness, (), report, hits=0, is_echo=False, diagnosis=diagnosis)
    secrets = secrets.also(raw.derived)
    work = _Work(secrets)
    answer = classified.answer
    if answer is not None:
        answer = work.answer(answer, raw.body, is_handed_on=raw.handed_on_bytes is not None and not has_body(answer))
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
    return _scrubbed(
        classified,
        answer,
        completeness,
        warnings,
        report,
        hits=work.hits,
        is_echo=work.is_echo,
        diagnosis=diagnose(classified, raw, _ForDiagnosis(secrets, work.known)),
    )


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
    cleaner: Cleaner = _Untouched() if secrets is None or work is None else _ForDiagnosis(secrets, work.known)
    return _scrubbed(
        classified,
        None,
        classified.completeness,
        () if report.reason is None else (_not_possible(report.reason),),
        report,
        hits=work.hits if work is not None else 0,
        is_echo=work is not None and work.is_echo,
        ssh=ssh,
        diagnosis=diagnose_ssh(classified, seen, cleaner),
    )


class _Work:
    """One scrubbing: counts as it goes."""

    def __init__(self, secrets: SecretSet) -> None:
        self._secrets = secrets
        self.hits = 0
        self.withheld = False
        self.is_echo = False
        self.cut_cursor = False
        self.known: dict[bytes, Cleaned] = {}

    def answer(self, answer: HttpAnswer, body: bytes, *, is_handed_on: bool) -> HttpAnswer:
        if is_handed_on:  # what scrubbed it on its way tells of it
            return self._about(answer)
        cleaned = self.known[body] = self._clean(body)
        if cleaned.withheld:
            self.withheld = self.withheld or has_body(answer)
            answer = without_body(answer)
        elif cleaned.hits:
            answer = with_scrubbed_body(answer, cleaned.data)
        return self._about(answer)

    def _about(self, answer: HttpAnswer) -> HttpAnswer:
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
    diagnosis: JsonObject | None,
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
        diagnosis=diagnosis,
    )


def _not_possible(reason: str) -> Warn:
    return Warn(code=WarningCode.SCRUB_NOT_POSSIBLE, message=f"The answer could not be scrubbed as usual: {reason}.")
