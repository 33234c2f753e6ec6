"""What a host said leaves without the credential: whole, cut, in pieces, or in frames while it comes."""

import base64
from dataclasses import replace

import pytest

from broker.contract.reasons import Category, ScrubState
from broker.core.classify.channel import event_of, judged, sent_body_bytes, size_bytes
from broker.core.events import EventName
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Scrubbed
from broker.core.records import remote
from broker.core.resolve import resolve
from broker.core.scrub import scrub
from broker.core.scrub_stream import StreamScrubber
from broker.core.secret import Secret
from broker.core.secret_set import SecretSet, secret_set
from broker.core.spellings import LONGEST_SPELLING_BYTES
from broker.core.ssh.answer import has_stream, ssh_answer, with_stream
from broker.core.ssh.contact import unreachable, unseen_key
from broker.core.ssh.outcome import (
    MarkerState,
    Replaced,
    SshFault,
    SshOutcome,
    Transfer,
)
from broker.core.ssh.secrets import SshPasswordSecret
from tests.fakes import market
from tests.fakes.hosts import LOST, REFUSED, SEEN, TIMED_OUT, command, ended, frozen, get, operation

PASSWORD = "canary-password-0123456789"
SECRETS = secret_set(SshPasswordSecret(password=Secret(PASSWORD)))
SHORT = SecretSet(replaced=[Secret("canary-7")])
STATUS = frozen(operation("status", unit="x"))


def scrubbed(seen: SshOutcome, secrets: SecretSet | None = SECRETS) -> Scrubbed:
    return scrub(judged(STATUS, replace(seen, marker=MarkerState.OFF), now_ms=0, prior_doubt=False), secrets)


def test_both_streams_are_scrubbed_and_the_rest_is_as_it_was() -> None:
    told = scrubbed(ended(0, f"a {PASSWORD} b".encode(), f"{PASSWORD}\xff".encode("latin-1")))
    assert told.ssh is not None

    assert ("a [redacted] b", 0, None) == (told.ssh["stdout"], told.ssh["exit_status"], told.ssh["marker"])
    assert b"[redacted]\xff" == base64.b64decode(str(told.ssh["stderr_b64"]))
    assert (2, True, ScrubState.DONE, None) == (told.hits, told.is_echo, told.report.state, told.report.reason)
    assert (None, None) == (told.answer, told.status)


def test_without_a_credential_nothing_is_looked_for() -> None:
    told = scrubbed(ended(0, PASSWORD.encode()), None)

    assert (ScrubState.NOT_NEEDED, 0, False) == (told.report.state, told.hits, told.is_echo)
    assert told.ssh is not None
    assert PASSWORD == told.ssh["stdout"]


def test_a_short_value_withholds_the_stream() -> None:
    told = scrubbed(ended(0, b"x canary-7", b"fine"), SHORT)
    assert told.ssh is not None

    assert ("fine", False) == (told.ssh["stderr"], has_stream(told.ssh, "stdout"))
    assert (ScrubState.DONE, 1) == (told.report.state, len(told.warnings))


def test_what_was_cut_within_a_value_shows_no_beginning_of_it() -> None:
    kept = f"out {PASSWORD[:12]}".encode()
    told = scrubbed(ended(0, kept, stdout_bytes=5000))
    whole = scrubbed(ended(0, kept))
    assert told.ssh is not None
    assert whole.ssh is not None

    assert ("out ", kept.decode()) == (told.ssh["stdout"], whole.ssh["stdout"])


def test_what_was_cut_within_an_escaped_value_is_withheld() -> None:
    escaped = "".join(f"%{ord(character):02x}" for character in PASSWORD[:12])
    told = scrubbed(ended(0, escaped.encode(), stdout_bytes=5000))
    assert told.ssh is not None

    assert not has_stream(told.ssh, "stdout")


def test_packed_output_is_said_not_to_be_looked_into() -> None:
    told = scrubbed(ended(0, b"\x1f\x8b\x08\x00"))

    assert ScrubState.NOT_POSSIBLE is told.report.state


def test_the_signal_is_others_text_and_what_was_not_opened_says_nothing() -> None:
    told = scrubbed(replace(ended(0), exit_status=None, exit_signal=f"SIG {PASSWORD}"))
    assert told.ssh is not None

    assert "SIG [redacted]" == told.ssh["exit_signal"]
    assert None is scrubbed(REFUSED).ssh


def test_a_stream_is_left_out_or_spelled_by_what_it_holds() -> None:
    answer = ssh_answer(ended(0, b"a", b"\xff"), with_streams=True)

    assert ["stdout", "stderr_b64"] == [name for name in answer if name.startswith("std") and "bytes" not in name]
    assert {"stdout": "b"} == {
        key: value for key, value in with_stream(answer, "stdout", b"b").items() if key == "stdout"
    }
    assert not has_stream(with_stream(answer, "stdout", None), "stdout")
    assert not has_stream(ssh_answer(ended(), with_streams=False), "stderr")


def test_the_record_of_an_ending_holds_its_numbers() -> None:
    told = remote(scrubbed(ended(3, b"abc")), sent_body_bytes=0)

    assert (3, 3, "closed", None) == (told["exit_status"], told["stdout_bytes"], told["phase"], told["fault"])


@pytest.mark.parametrize(
    ("seen", "event"),
    [
        (ended(), EventName.REMOTE_ANSWERED),
        (LOST, EventName.TRANSPORT_FAILED),
        (REFUSED, EventName.TRANSPORT_FAILED),
        (TIMED_OUT, EventName.DEADLINE_EXPIRED),
        (market.REFUSED, EventName.TRANSPORT_FAILED),
    ],
)
def test_one_event_follows_the_dispatch(seen: SshOutcome, event: EventName) -> None:
    assert event is event_of(seen)


def test_sizes_by_channel() -> None:
    http = market.answered(200, b"abc", sent=7)

    assert [(0, 5), (7, 3)] == [(sent_body_bytes(one), size_bytes(one)) for one in (ended(0, b"ab", b"cde"), http)]


def test_an_outcome_of_another_channel_is_a_fault_of_ours() -> None:
    request = resolve(market.POLICY, market.READ)
    assert isinstance(request, FrozenRequest)
    for one, other in ((request, ended()), (STATUS, market.LOST)):
        with pytest.raises(TypeError, match="channel"):
            judged(one, other, now_ms=0, prior_doubt=False)


def test_a_look_at_an_upload_gives_the_digest_and_not_the_file() -> None:
    request = replace(frozen(get("/a")), is_look_up=True)
    transfer = Transfer(replaced=Replaced.NO, size=3, complete=True)
    whole = judged(request, ended(0, b"abc", transfer=transfer, marker=MarkerState.OFF), now_ms=0, prior_doubt=False)
    cut = judged(
        request,
        ended(0, b"abc", transfer=replace(transfer, complete=False, cut=True), marker=MarkerState.OFF),
        now_ms=0,
        prior_doubt=False,
    )
    unopened = judged(request, REFUSED, now_ms=0, prior_doubt=False)

    assert whole.ssh is not None
    assert cut.ssh is not None
    assert "ba7816bf" == str(whole.ssh["transfer"]["sha256"])[:8]  # type: ignore[index,call-overload]  # a table
    assert None is cut.ssh["transfer"]["sha256"]  # type: ignore[index,call-overload]  # likewise
    assert not has_stream(whole.ssh, "stdout")
    assert None is unopened.ssh


def test_what_could_not_be_reached_is_told_as_the_attempt_would() -> None:
    told = [
        unreachable(frozen(command("uptime")), fault) for fault in (SshFault.CONNECT_REFUSED, SshFault.HOST_KEY_REVOKED)
    ]
    unseen = unseen_key(frozen(command("uptime", host="web/new-1")), SEEN)

    assert [(Category.LOCAL_FAILURE, "connect_refused"), (Category.LOCAL_FAILURE, "host_key_revoked")] == [
        (one.category, one.code) for one in told
    ]
    assert "host_key_unknown" == unseen.code
    assert SEEN.fingerprint in unseen.message


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_frames_hold_no_value_however_it_was_cut_into_pieces(size: int) -> None:
    text = f"before {PASSWORD} between {PASSWORD[:10]} and {PASSWORD}{PASSWORD} after".encode()
    stream = StreamScrubber(SECRETS)
    out = [stream.feed(text[start : start + size]) for start in range(0, len(text), size)]
    out.append(stream.finish())

    assert b"before [redacted] between canary-pas and [redacted][redacted] after" == b"".join(out)
    assert (3, False) == (stream.hits, stream.withheld)


def test_frames_without_a_credential_are_passed_on() -> None:
    stream = StreamScrubber(None)

    assert (b"abc", b"") == (stream.feed(b"abc"), stream.finish())


def test_a_value_that_can_not_be_cut_out_ends_the_frames() -> None:
    stream = StreamScrubber(SHORT)

    assert [b"fine ", b"", b""] == [stream.feed(b"fine "), stream.feed(b"canary-7"), stream.feed(b"more")]
    assert (b"", True) == (stream.finish(), stream.withheld)


def test_what_may_be_an_escaped_value_is_held_back_up_to_a_bound() -> None:
    escaped = "".join(f"%{ord(character):02x}" for character in PASSWORD[:12]).encode()
    stream = StreamScrubber(SECRETS)

    assert b"x" == stream.feed(b"x" + escaped)
    assert escaped == stream.finish()
    flood = PASSWORD[:12].encode() + b" \\" * LONGEST_SPELLING_BYTES
    assert len(flood) - len(stream.feed(flood)) <= LONGEST_SPELLING_BYTES
