import base64
from dataclasses import replace

import pytest

from broker.contract.reasons import IncompleteCode, Retry, ScrubState, WarningCode
from broker.contract.result import Completeness, HttpAnswer, IncompleteReason, ScrubReport
from broker.core.credential import BasicSecret, BearerSecret, HeaderSecret
from broker.core.outcome import Fault, Scrubbed
from broker.core.scrub import scrub
from broker.core.secret import Secret
from broker.core.secret_set import PLACEHOLDER, WINDOW_BYTES, SecretSet, secret_set
from tests.fakes.answers import JSON, READ, answer, classified, cut, lost

TOKEN = "canary-0123456789abcdef"
TOKENS = secret_set(BearerSecret(token=Secret(TOKEN)))
BASIC = secret_set(BasicSecret(username="ada-lovelace", password=Secret("canary-7")))


def scrubbed(body: bytes, *headers: tuple[str, str], secrets: SecretSet | None = TOKENS, status: int = 200) -> Scrubbed:
    return scrub(classified(READ, answer(status, body, *(headers or (JSON,)))), secrets)


def shown(outcome: Scrubbed) -> HttpAnswer:
    assert outcome.answer is not None
    return outcome.answer


def test_without_a_credential_there_is_nothing_to_scrub() -> None:
    outcome = scrubbed(b'{"id": "1"}', secrets=None)

    assert (ScrubReport(), 0, {"id": "1"}) == (outcome.report, outcome.hits, shown(outcome).body_json)
    assert not outcome.is_echo


def test_an_answer_without_the_secret_is_given_as_it_is() -> None:
    outcome = scrubbed(b'{"id": "1"}')

    assert (ScrubReport(state=ScrubState.DONE), 0, ()) == (outcome.report, outcome.hits, outcome.warnings)
    assert classified(READ, answer(200, b'{"id": "1"}')).answer == outcome.answer


def test_the_outcome_of_the_wire_is_kept_beside_it() -> None:
    outcome = scrub(classified(READ, cut(200, Fault.TRUNCATED)), TOKENS)

    assert (Fault.TRUNCATED, 200, 1500) == (outcome.fault, outcome.status, outcome.elapsed_ms)
    assert None is scrub(classified(READ, lost(Fault.CONNECTION_LOST)), TOKENS).answer


def test_an_echo_is_cut_out_before_the_body_is_read_again() -> None:
    outcome = scrubbed(b'{"echo": "Bearer canary-0123456789\\u0061bcdef", "n": 12345678901234567890123}')

    assert {"echo": "Bearer [redacted]", "n": 12345678901234567890123} == shown(outcome).body_json
    assert (1, True, ScrubState.DONE, None) == (
        outcome.hits, outcome.is_echo, outcome.report.state, outcome.report.reason,
    )  # fmt: skip
    assert "hits" not in str(outcome.report.to_json())


@pytest.mark.parametrize("before", [0, 5, WINDOW_BYTES - 30, WINDOW_BYTES - 1, WINDOW_BYTES, 3 * WINDOW_BYTES - 7])
def test_escaped_values_are_found_wherever_they_stand_in_a_long_text(before: int) -> None:
    escaped = TOKEN.replace("a", "%2561").encode()
    filler = b"." * before
    outcome = scrubbed(filler + escaped + filler + escaped, ("content-type", "text/plain"))

    assert (filler + PLACEHOLDER + filler + PLACEHOLDER).decode() == shown(outcome).body
    assert 2 == outcome.hits


def test_text_and_bytes_are_scrubbed_as_well() -> None:
    text = scrubbed(f"a {TOKEN} b".encode(), ("content-type", "text/plain"))
    binary = scrubbed(b"\0" + TOKEN.encode() + b"\xff", ("content-type", "application/octet-stream"))

    assert "a [redacted] b" == shown(text).body
    assert b"\0" + PLACEHOLDER + b"\xff" == base64.b64decode(shown(binary).body_b64 or "")


def test_a_secret_that_was_a_number_leaves_text() -> None:
    secrets = SecretSet(replaced=[Secret("1234567890123456")])

    assert '{"n": [redacted]}' == shown(scrubbed(b'{"n": 1234567890123456}', secrets=secrets)).body


def test_headers_and_their_names_are_scrubbed() -> None:
    outcome = scrubbed(
        b"{}",
        JSON,
        ("x-request-id", TOKEN),
        ("location", f"https://api.example.com/?t={TOKEN}&x=1"),
        (f"x-ratelimit-{TOKEN}", "1"),
        ("etag", "plain"),
    )

    assert {
        "content-type": "application/json",
        "x-request-id": "[redacted]",
        "location": "https://api.example.com/?t=[redacted]&x=1",
        "etag": "plain",
    } == shown(outcome).headers
    assert 3 == outcome.hits


def test_a_media_type_and_a_url_are_scrubbed() -> None:
    raw = classified(READ, answer(200, b"x", ("content-type", f"text/{TOKEN}")))
    assert raw.answer is not None
    marked = replace(raw, answer=replace(raw.answer, final_url=f"https://api.example.com/{TOKEN}"))

    outcome = scrub(marked, TOKENS)
    assert ("text/[redacted]", "https://api.example.com/[redacted]") == (
        shown(outcome).media_type, shown(outcome).final_url
    )  # fmt: skip
    assert "" == shown(scrub(replace(marked, answer=replace(raw.answer, final_url="canary-7")), BASIC)).final_url


@pytest.mark.parametrize(
    "body", [b'{"me": "ada-lovelace"}', b'{"p": "canary-7"}', b'{"b": "Y2FuYXJ5LTc="}', b'{"p": "canary%2d7"}']
)
def test_short_values_and_user_names_withhold_the_body(body: bytes) -> None:
    outcome = scrubbed(body, secrets=BASIC)

    assert (None, False, None, None) == (
        shown(outcome).body, shown(outcome).has_json, shown(outcome).body_json, shown(outcome).body_b64
    )  # fmt: skip
    assert ScrubState.DONE is outcome.report.state
    assert "withheld" in str(outcome.report.reason)
    assert [WarningCode.SCRUB_NOT_POSSIBLE] == [warning.code for warning in outcome.warnings]
    assert outcome.hits > 0
    assert (b"ada" not in body) is outcome.is_echo, "a user name is in many a list, and no guess"
    assert b"canary" not in repr(outcome).encode()


def test_the_pair_of_basic_is_long_enough_to_be_cut_out() -> None:
    pair = base64.b64encode(b"ada-lovelace:canary-7").decode()

    assert {"h": "Basic [redacted]"} == shown(scrubbed(f'{{"h": "Basic {pair}"}}'.encode(), secrets=BASIC)).body_json


def test_a_short_value_in_a_header_takes_the_header_with_it() -> None:
    outcome = scrubbed(b"{}", JSON, ("etag", "canary-7"), secrets=BASIC)

    assert {"content-type": "application/json"} == shown(outcome).headers
    assert {} == shown(outcome).body_json
    assert "withheld" in str(outcome.report.reason)


def test_a_body_that_is_not_given_needs_no_withholding() -> None:
    outcome = scrub(classified(READ, answer(200, b'{"p": "canary-7", ')), BASIC)

    assert (ScrubState.DONE, None) == (outcome.report.state, outcome.report.reason)


def test_a_user_name_that_is_in_any_text_is_not_looked_for() -> None:
    secrets = secret_set(BasicSecret(username="x", password=Secret(TOKEN)))

    assert {"x": 1} == shown(scrubbed(b'{"x": 1}', secrets=secrets)).body_json


def test_a_header_credential_is_scrubbed_by_its_value_alone() -> None:
    secrets = secret_set(HeaderSecret(header="X-Api-Key", template="key {value}", value=Secret(TOKEN)))

    assert {"a": "key [redacted]"} == shown(scrubbed(f'{{"a": "key {TOKEN}"}}'.encode(), secrets=secrets)).body_json


@pytest.mark.parametrize("beginning", [b"\x1f\x8b\x08", b"PK\x03\x04", b"-----BEGIN PGP MESSAGE-----"])
def test_what_can_not_be_looked_into_is_given_and_said_so(beginning: bytes) -> None:
    outcome = scrubbed(beginning + b"\0\xff", ("content-type", "application/octet-stream"))

    assert ScrubState.NOT_POSSIBLE is outcome.report.state
    assert "compressed or encrypted" in str(outcome.report.reason)
    assert [WarningCode.SCRUB_NOT_POSSIBLE] == [warning.code for warning in outcome.warnings]
    assert shown(outcome).body_b64 or shown(outcome).body


def test_a_cursor_that_holds_the_secret_is_dropped() -> None:
    link = ("link", f'<https://api.example.com/things?page=2&t={TOKEN}>; rel="next"')
    clean = ("link", '<https://api.example.com/things?page=2>; rel="next"')

    without, with_cursor = scrubbed(b"[1]", JSON, link), scrubbed(b"[1]", JSON, clean)
    dropped, kept = without.completeness, with_cursor.completeness
    assert dropped is not None
    assert kept is not None
    assert (None, {"kind": "none"}) == (dropped.next_cursor, dropped.continuation)
    assert "https://api.example.com/things?page=2" == kept.next_cursor
    assert (Retry.NEVER, Retry.BOUNDED) == (without.verdict.retry, with_cursor.verdict.retry)  # nowhere to go on to


def test_completeness_without_a_cursor_is_kept() -> None:
    reason = IncompleteReason(code=IncompleteCode.IN_PROGRESS, message="m", by="provider")
    completeness = Completeness(complete=False, reasons=(reason,))

    assert completeness == scrub(replace(classified(READ, answer()), completeness=completeness), TOKENS).completeness


def test_a_set_shows_nothing_and_an_empty_value_is_none() -> None:
    assert "<secret set>" == repr(TOKENS)
    assert not SecretSet(replaced=[Secret("")]).clean(b"anything").withheld


def test_values_that_hold_the_placeholder_can_not_grow_for_ever() -> None:
    secrets = SecretSet(replaced=[Secret("[redacted]canary-0123"), Secret(TOKEN)])

    cleaned = secrets.clean(f"{TOKEN}canary-0123".encode())
    assert b"canary" not in cleaned.data
    assert SecretSet(replaced=[Secret("a[redacted]a0123456")]).clean(b"x").data == b"x"
    endless = SecretSet(replaced=[Secret("x[redacted]xxxxxxx")])
    assert endless.clean(b"x" + b"[redacted]" + b"x" * 7).data == PLACEHOLDER


def test_a_value_that_the_placeholder_brings_back_withholds() -> None:
    """[redacted] within a value: what is left of one replacement is the beginning of the next, without end."""
    secrets = SecretSet(replaced=[Secret("[redacted]aaaaaaaa")])

    assert secrets.clean(b"[redacted]" + b"a" * 8 * 9).withheld
