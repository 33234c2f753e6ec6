"""Each fault over a real socket: which fault it is, how far the request got, and that it was sent once."""

import pytest

from broker.core.frozen import Deadlines
from broker.core.outcome import Fault, Phase
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.https_calls import loopback
from tests.fakes.upstream import Upstream

BODY = b"x" * 1000
OK_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"

CHUNKED_HEAD = OK_HEAD + b"transfer-encoding: chunked\r\n\r\n"
LENGTH_100_HEAD = OK_HEAD + b"content-length: 100\r\n\r\n"
UPGRADE = b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n\x01\x02"

WITHOUT_HEAD = {
    "reset after headers": (up.reset_before_body, Fault.CONNECTION_LOST),
    "reset after body": (up.raw(then="reset"), Fault.CONNECTION_LOST),
    "close after body": (up.raw(), Fault.CONNECTION_LOST),
    "silence": (up.silence, Fault.FIRST_BYTE_TIMEOUT),
    "partial status line": (up.raw(b"HTTP/1.1 20"), Fault.CONNECTION_LOST),
    "partial headers": (up.raw(b"HTTP/1.1 200 OK\r\ncontent-le", then="reset"), Fault.CONNECTION_LOST),
    "a head that stalls": (up.raw(b"HTTP/1.1 200 OK\r\n", then="hold"), Fault.FIRST_BYTE_TIMEOUT),
    "interim answers and no more": (up.raw(b"HTTP/1.1 103 Early\r\n\r\n" * 3, then="hold"), Fault.FIRST_BYTE_TIMEOUT),
    "another protocol": (up.raw(b"SSH-2.0-canary\r\n\r\n"), Fault.FRAMING),
    "length and chunks at once": (
        up.raw(OK_HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok"),
        Fault.FRAMING,
    ),
    "two lengths": (up.raw(OK_HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok"), Fault.FRAMING),
    "bad chunk at once": (up.raw(CHUNKED_HEAD + b"ZZ\r\nhello\r\n"), Fault.FRAMING),
    "endless header lines": (up.endless_header_lines, Fault.FRAMING),
    "endless header value": (up.endless_header_value, Fault.FRAMING),
}


@pytest.mark.parametrize("name", WITHOUT_HEAD)
async def test_without_a_usable_head_the_fault_and_phase_are_told(executor: HttpsExecutor, name: str) -> None:
    behaviour, fault = WITHOUT_HEAD[name]
    async with Upstream(behaviour) as server:
        raw = await executor.execute(loopback(server.port, body=BODY))

    assert (fault, Phase.BODY_SENT, None) == (raw.fault, raw.phase, raw.status)
    assert len(server.requests) == 1


WITH_STATUS = {
    "closed short of its length": (up.raw(LENGTH_100_HEAD + b"half"), Fault.TRUNCATED),
    "reset short of its length": (up.raw(LENGTH_100_HEAD + b"half", b"", then="reset"), Fault.TRUNCATED),
    "cut chunk": (up.raw(CHUNKED_HEAD + b"5\r\nhello\r\n"), Fault.TRUNCATED),
    "bad chunk later": (up.raw(CHUNKED_HEAD + b"5\r\nhello\r\n", b"ZZ\r\n"), Fault.FRAMING),
    "cut gzip": (up.gzipped(b'{"a": 1}' * 50, cut=6), Fault.TRUNCATED),
    "no gzip at all": (up.respond(body=b"plain", headers=(("content-encoding", "gzip"),)), Fault.DECODING),
    "garbage after gzip": (up.gzipped(b"{}", tail=b"garbage and more"), Fault.DECODING),
    "a coding nobody asked for": (up.respond(headers=(("content-encoding", "br"),)), Fault.DECODING),
    "a second coding in a header of its own": (
        up.respond(headers=(("content-encoding", "identity"), ("content-encoding", "br"))),
        Fault.DECODING,
    ),
    "compressed twice": (up.respond(headers=(("content-encoding", "gzip, gzip"),)), Fault.DECODING),
    "a transfer coding nobody asked for": (up.raw(OK_HEAD + b"transfer-encoding: gzip\r\n\r\n{}"), Fault.FRAMING),
    "a transfer coding under the chunks": (
        up.raw(OK_HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
        Fault.FRAMING,
    ),
    "gzip bomb": (up.gzipped(b"\0" * 30_000_000), Fault.TOO_LARGE),
    "flood": (up.flood, Fault.TOO_LARGE),
    "switching protocols": (up.raw(UPGRADE, then="hold"), Fault.FRAMING),
    "slow drip": (up.drip, Fault.TOTAL_TIMEOUT),
    "stall within the body": (up.raw(LENGTH_100_HEAD + b"half", then="hold"), Fault.TOTAL_TIMEOUT),
}
BRIEF = Deadlines(connect_s=0.4, write_s=0.4, first_byte_s=0.4, total_s=0.5)


@pytest.mark.parametrize("name", WITH_STATUS)
async def test_a_status_that_was_seen_is_kept_when_the_body_fails(executor: HttpsExecutor, name: str) -> None:
    behaviour, fault = WITH_STATUS[name]
    async with Upstream(behaviour) as server:
        raw = await executor.execute(loopback(server.port, body=BODY, deadlines=BRIEF))

    assert (fault, Phase.RESPONSE_STARTED, False) == (raw.fault, raw.phase, raw.body_complete)
    assert raw.status in {200, 101}
    assert len(raw.body) <= 262_144
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", [*WITHOUT_HEAD, *WITH_STATUS])
async def test_a_connection_that_saw_a_fault_is_never_used_again(executor: HttpsExecutor, name: str) -> None:
    behaviour, _ = (WITHOUT_HEAD | WITH_STATUS)[name]
    async with Upstream(paths={"/things": behaviour}) as server:
        await executor.execute(loopback(server.port, body=BODY, deadlines=BRIEF))
        raw = await executor.execute(loopback(server.port, path="/good"))

    assert (None, 200, b"{}") == (raw.fault, raw.status, raw.body)
    assert [1, 2] == [seen.connection for seen in server.requests]
