"""What is kept of an attempt for a human: all of it scrubbed, bounded, and with what was cut told."""

import base64
import hashlib
from dataclasses import replace
from typing import Any

import pytest

from broker.contract.wire import canonical
from broker.core.credential import BasicSecret, BearerSecret
from broker.core.diagnosis import HEADERS_KEPT, HEADERS_KEPT_CHARACTERS, OCTETS_KEPT, TEXT_KEPT_CHARACTERS
from broker.core.outcome import Classified, Fault, RawOutcome
from broker.core.scrub import scrub
from broker.core.secret import Secret
from broker.core.secret_set import SecretSet, secret_set
from broker.core.ssh.outcome import MarkerState, SshFault, SshOutcome, SshPhase
from tests.fakes.answers import JSON, READ, answer, classified, cut, lost

TOKEN = "canary-0123456789abcdef"
TOKENS = secret_set(BearerSecret(token=Secret(TOKEN)))
PIN = secret_set(BasicSecret(username="ada-lovelace", password=Secret("canary-7")))
TEXT = ("content-type", "text/plain")


def diagnosis(raw: RawOutcome, secrets: SecretSet | None = TOKENS) -> Any:
    found = scrub(classified(READ, raw), secrets).diagnosis
    assert found is not None
    canonical(found)  # it has to be sealable
    return found


def body(raw: RawOutcome, secrets: SecretSet | None = TOKENS) -> Any:
    return diagnosis(raw, secrets)["http"]["body"]


@pytest.mark.parametrize("secrets", [None, TOKENS])
def test_of_a_success_nothing_is_kept(secrets: SecretSet | None) -> None:
    assert None is scrub(classified(READ, answer()), secrets).diagnosis


def test_what_came_and_how_long_it_took_is_kept() -> None:
    raw = replace(answer(503, b"try later", TEXT), phase_ms={"connected": 3, "response_started": 9})
    kept = diagnosis(raw)

    assert ("confirmed_failure", "remote_error", "response_complete", None) == (
        kept["category"], kept["code"], kept["phase"], kept["fault"],
    )  # fmt: skip
    assert ({"connected": 3, "response_started": 9}, 1500) == (kept["phase_ms"], kept["elapsed_ms"])
    assert (503, [{"name": "content-type", "value": "text/plain", "cut": False}], 0) == (
        kept["http"]["status"], kept["http"]["headers"], kept["http"]["headers_cut"],
    )  # fmt: skip
    assert {
        "bytes": 9,
        "complete": True,
        "sha256": hashlib.sha256(b"try later").hexdigest(),
        "withheld": False,
        "cut_bytes": 0,
        "text": "try later",
        "base64": None,
    } == kept["http"]["body"]


def test_of_an_attempt_without_an_answer_the_fault_is_kept() -> None:
    kept = diagnosis(lost(Fault.CONNECTION_LOST))

    assert ("connection_lost", "body_sent", None, 0) == (
        kept["fault"], kept["phase"], kept["http"]["status"], kept["http"]["body"]["bytes"],
    )  # fmt: skip


def test_a_partial_answer_is_kept_too() -> None:
    assert "accepted" == diagnosis(answer(202))["code"]


def test_headers_that_no_agent_sees_are_kept_without_the_credential() -> None:
    kept = diagnosis(answer(500, b"", TEXT, ("x-echo", f"Bearer {TOKEN}"), ("set-cookie", "a=1")))

    assert [("x-echo", "Bearer [redacted]"), ("set-cookie", "a=1")] == [
        (header["name"], header["value"]) for header in kept["http"]["headers"][1:]
    ]


def test_a_header_whose_name_is_the_credential_in_lower_case_is_withheld() -> None:
    secrets = secret_set(BearerSecret(token=Secret("Canary-0123456789-ABCDEF")))
    kept = diagnosis(answer(500, b"", ("x-canary-0123456789-abcdef", "1")), secrets)

    assert (None, "1") == (kept["http"]["headers"][0]["name"], kept["http"]["headers"][0]["value"])


def test_a_value_that_can_not_be_cut_out_of_a_header_withholds_it() -> None:
    kept = diagnosis(answer(500, b"", ("x-user", "ada-lovelace"), ("x-pin", "canary-7")), PIN)

    assert [None, None] == [header["value"] for header in kept["http"]["headers"]]


def test_where_the_body_is_withheld_size_and_digest_stay() -> None:
    raw = answer(500, b"hello ada-lovelace", TEXT)

    assert {
        "bytes": 18,
        "complete": True,
        "sha256": hashlib.sha256(raw.body).hexdigest(),
        "withheld": True,
        "cut_bytes": 0,
        "text": None,
        "base64": None,
    } == body(raw, PIN)


@pytest.mark.parametrize(
    "echo",
    [
        TOKEN,
        base64.b64encode(TOKEN.encode()).decode(),
        base64.urlsafe_b64encode(b"x" + TOKEN.encode()).decode(),
        TOKEN.encode().hex(),
        TOKEN.encode().hex().upper(),
        TOKEN.replace("-", "%2D"),
        TOKEN.replace("-", "%252D"),
        TOKEN.replace("c", "\\u0063"),
    ],
)
@pytest.mark.parametrize("place", ["body", "header"])
def test_no_spelling_of_the_credential_is_in_it(echo: str, place: str) -> None:
    raw = answer(500, f"<{echo}>".encode() if place == "body" else b"", TEXT, ("x-echo", echo))
    kept = canonical(diagnosis(raw))

    assert echo.encode() not in kept
    assert b"redacted" in kept


def test_what_is_not_text_is_kept_as_bytes() -> None:
    kept = body(answer(500, b"\0" + TOKEN.encode() + b"\xff", ("content-type", "application/octet-stream")))

    assert (None, b"\0[redacted]\xff") == (kept["text"], base64.b64decode(kept["base64"]))


@pytest.mark.parametrize(("character", "kept_bytes"), [("é", OCTETS_KEPT), ("x", OCTETS_KEPT), ("€", OCTETS_KEPT - 1)])
def test_a_long_body_is_cut_between_characters_and_the_rest_counted(character: str, kept_bytes: int) -> None:
    long = character * (OCTETS_KEPT // len(character.encode()) + 100)
    kept = body(answer(500, long.encode(), TEXT))

    assert kept_bytes == len(kept["text"].encode())
    assert len(long.encode()) == kept["bytes"] == kept_bytes + kept["cut_bytes"]


def test_a_long_body_that_is_not_text_is_cut_as_well() -> None:
    long = bytes(range(128, 192)) * (OCTETS_KEPT // 64 + 1)
    kept = body(answer(500, long, ("content-type", "application/octet-stream")))

    assert (OCTETS_KEPT, 64) == (len(base64.b64decode(kept["base64"])), kept["cut_bytes"])


def test_the_credential_is_taken_out_before_the_cut() -> None:
    filler = "x" * (OCTETS_KEPT - 10)
    kept = body(answer(500, f"{filler}{TOKEN}".encode(), TEXT))

    assert filler + "[redacted]" == kept["text"]


def test_many_headers_are_cut_and_counted() -> None:
    many = tuple((f"x-{number}", "v") for number in range(HEADERS_KEPT + 7))
    long = tuple((f"x-{number}", "v" * (TEXT_KEPT_CHARACTERS + 1)) for number in range(20))
    kept, kept_long = (diagnosis(answer(500, b"", *headers))["http"] for headers in (many, long))

    assert (HEADERS_KEPT, 7) == (len(kept["headers"]), kept["headers_cut"])
    assert all(header["cut"] for header in kept_long["headers"])
    assert HEADERS_KEPT_CHARACTERS // TEXT_KEPT_CHARACTERS - 1 == len(kept_long["headers"])
    assert 20 == len(kept_long["headers"]) + kept_long["headers_cut"]


def test_half_a_surrogate_pair_can_be_kept() -> None:
    for secrets in (None, TOKENS):
        (header,) = diagnosis(answer(500, b"", ("x", "caf\udce9")), secrets)["http"]["headers"]
        assert "caf\\xed\\xb3\\xa9" == header["value"]


# Where the answer broke off, the end may hold the beginning of a value.


@pytest.mark.parametrize("seen", range(1, len(TOKEN)))
def test_a_value_that_an_answer_broke_off_in_is_not_kept_in_part(seen: int) -> None:
    kept = body(cut(200, Fault.TRUNCATED, TEXT, body=b"echo: " + TOKEN[:seen].encode()))

    assert "echo: " == kept["text"]
    assert not kept["complete"]


@pytest.mark.parametrize(
    "spelled", [base64.b64encode(TOKEN.encode()).decode(), TOKEN.encode().hex(), TOKEN.encode().hex().upper()]
)
def test_nor_is_an_encoded_one(spelled: str) -> None:
    kept = body(cut(200, Fault.TRUNCATED, TEXT, body=b"echo: " + spelled[:20].encode()))

    assert "echo: " == kept["text"]


def test_an_escaped_beginning_withholds_the_body() -> None:
    kept = body(cut(200, Fault.TRUNCATED, TEXT, body=b"echo: canary%2D01234%35"))

    assert (True, None) == (kept["withheld"], kept["text"])


def test_a_broken_off_body_without_a_beginning_is_kept() -> None:
    assert '{"id"' == body(cut(200, Fault.TRUNCATED, JSON))["text"]


def test_without_a_credential_nothing_is_missing_from_a_broken_off_body() -> None:
    assert '{"id"' == body(cut(200, Fault.TRUNCATED, JSON), None)["text"]


def test_a_set_without_values_cuts_nothing() -> None:
    assert b"abc" == SecretSet(replaced=[]).before_break(b"abc")


@pytest.mark.parametrize("value", ["abcd", "canary"])
def test_the_beginning_of_a_short_value_is_cut_where_it_ends_the_answer(value: str) -> None:
    secrets = SecretSet(replaced=[Secret(value)])

    assert b"so: " == secrets.before_break(b"so: " + value[:3].encode())


# Commands.


def command(**more: Any) -> SshOutcome:
    return SshOutcome(phase=SshPhase.OUTPUT, **more)


def of_command(seen: SshOutcome, secrets: SecretSet | None = TOKENS, *, success: bool = False) -> Any:
    verdict = classified(READ, answer() if success else answer(500)).verdict
    found = scrub(Classified(verdict=verdict, raw=seen), secrets).diagnosis
    if found is not None:
        canonical(found)
    return found


def test_a_command_is_kept_with_its_streams_and_what_was_said() -> None:
    seen = command(
        fault=next(iter(SshFault)),
        exit_status=2,
        exit_signal="TERM",
        stdout=f"out {TOKEN}".encode(),
        stdout_bytes=4 + len(TOKEN),
        stderr=b"\xff",
        stderr_bytes=100,
        output_complete=True,
        said=f"no {TOKEN[:9]}".encode(),
        phase_ms={"connected": 1},
    )
    kept = of_command(seen)["ssh"]

    assert (2, "TERM", MarkerState.OFF.value) == (kept["exit_status"], kept["exit_signal"], kept["marker"])
    assert ("out [redacted]", True) == (kept["stdout"]["text"], kept["stdout"]["complete"])
    assert (100, False, "/w==") == (kept["stderr"]["bytes"], kept["stderr"]["complete"], kept["stderr"]["base64"])
    assert "no " == kept["said"]["text"]


def test_a_command_without_a_credential_or_signal_is_kept_as_it_came() -> None:
    kept = of_command(command(stdout=b"x", stdout_bytes=1), None)

    assert (None, "x", None) == (kept["ssh"]["exit_signal"], kept["ssh"]["stdout"]["text"], kept["http"])


def test_of_a_command_that_succeeded_nothing_is_kept() -> None:
    assert None is of_command(command(exit_status=0), success=True)
