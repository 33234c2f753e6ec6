import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.client.faults import Broken, NotRunning
from broker.client.transport import LONGEST_PATH_BYTES, Connection, check_place
from tests.fakes.unix_daemon import RawServer, UnixDaemon

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "agent.sock"


def test_a_request_goes_out_whole_and_the_answer_comes_back_whole(path: Path) -> None:
    with UnixDaemon(path) as daemon, Connection(str(path)) as connection:
        daemon.replies["POST /v1/http"] = (200, {"n": 1})

        answer = connection.request("POST", "/v1/http?x=1", b'{"a":2}')

        assert (200, b'{"n": 1}') == (answer.status, answer.body)
        assert "application/json" == answer.headers["content-type"]
        assert [{"a": 2}] == daemon.bodies("POST /v1/http")


def test_one_connection_serves_many_requests(path: Path) -> None:
    with UnixDaemon(path) as daemon, Connection(str(path)) as connection:
        daemon.replies["GET /a"] = (200, {"x": "y" * 200_000})
        sizes = [len(connection.request("GET", "/a").body) for _ in range(3)]

        assert [200_009] * 3 == sizes
        assert connection.alive()


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (
            b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
            b"abc0123456789",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200\r\nContent-Length: 1\n\nx", b"x"),
    ],
)
def test_lawful_framings_are_read(path: Path, answer: bytes, body: bytes) -> None:
    with RawServer(path, answer), Connection(str(path)) as connection:
        assert body == connection.request("GET", "/").body


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 2,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"h%d: b\r\n" % n for n in range(200)) + b"\r\n",
        b"x" * 200_000,
    ],
)
def test_a_broken_answer_is_typed_says_that_bytes_went_out_and_ends_the_connection(path: Path, answer: bytes) -> None:
    with RawServer(path, answer), Connection(str(path)) as connection:
        with pytest.raises(Broken) as fault:
            connection.request("GET", "/", max_bytes=1000)

        assert fault.value.sent
        assert not connection.alive()
        with pytest.raises(Broken, match="closed"):
            connection.request("GET", "/")


def test_silence_ends_at_the_limit(path: Path) -> None:
    with RawServer(path, b"", hold=True), Connection(str(path)) as connection:
        started = time.monotonic()
        with pytest.raises(Broken, match="in time"):
            connection.request("GET", "/", answer_s=0.1)

        assert time.monotonic() - started < 5


def test_a_drip_does_not_stretch_the_limit(path: Path) -> None:
    server = RawServer(path, b"HTTP/1.1 200 OK\r\n", hold=True)
    with server, Connection(str(path)) as connection, pytest.raises(Broken, match="in time"):
        connection.request("GET", "/", answer_s=0.1)


def test_a_daemon_that_hung_up_is_noticed_before_anything_is_sent(path: Path) -> None:
    with RawServer(path, OK) as server, Connection(str(path)) as connection:
        connection.request("GET", "/")
        deadline = time.monotonic() + 60
        while connection.alive() and time.monotonic() < deadline:
            pass

        assert not connection.alive()
        assert 1 == len(server.received)


def test_an_answer_that_ends_the_connection_is_believed(path: Path) -> None:
    with (
        RawServer(path, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", hold=True),
        Connection(str(path)) as connection,
    ):
        connection.request("GET", "/")

        assert not connection.alive()


@pytest.mark.parametrize("target", ["/a b\r\nx: y", "/a\x00", "/ä"])
def test_a_target_cannot_carry_a_header(path: Path, target: str) -> None:
    with RawServer(path, OK) as server, Connection(str(path)) as connection:
        with pytest.raises(Broken):
            connection.request("GET", target)

        assert [] == server.received


def test_events_are_read_with_ids_and_signs_of_life(path: Path) -> None:
    stream_of_events = b': hi\n\nid: 7\nevent: approval\ndata: {"id":\ndata: 1}\n\ndata:x\nretry: 5\n\n'
    halves = (stream_of_events[:20], stream_of_events[20:])
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(half), half) for half in halves)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    with RawServer(path, head + chunks, hold=True) as server, Connection(str(path)) as connection:
        events = iter(connection.events("/v1/events", last_id="6"))

        assert next(events) is None
        first = next(events)
        second = next(events)
        assert first is not None
        assert ("approval", '{"id":\n1}', "7") == (first.name, first.data, first.id)
        assert second is not None
        assert ("message", "x", "7") == (second.name, second.data, second.id)
        assert b"\r\nLast-Event-ID: 6\r\n" in server.received[0]


def test_events_without_chunks_are_read_too(path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: reset\ndata: {}\n\n"
    with RawServer(path, answer, hold=True), Connection(str(path)) as connection:
        event = next(iter(connection.events("/v1/events")))

        assert event is not None
        assert "reset" == event.name


@pytest.mark.parametrize(
    "chunks",
    [b"0\r\n\r\n", b"200000\r\n", b"".join(b"ffff\r\n" + b"x" * 65535 + b"\r\n" for _ in range(20))],
)
def test_an_ended_or_endless_stream_is_a_fault(path: Path, chunks: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    with RawServer(path, head + chunks, hold=True), Connection(str(path)) as connection, pytest.raises(Broken):
        next(iter(connection.events("/v1/events")))


def test_many_short_lines_are_no_way_to_an_endless_event(path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    server = RawServer(path, head + b"data: 0123456789\n" * 100_000, hold=True)
    with server, Connection(str(path)) as connection, pytest.raises(Broken, match="no end"):
        next(iter(connection.events("/v1/events")))


def test_a_silent_stream_is_a_fault_and_another_thread_can_end_it(path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    with RawServer(path, head, hold=True):
        with Connection(str(path)) as connection, pytest.raises(Broken, match="in time"):
            next(iter(connection.events("/v1/events", silence_s=0.1)))
        with Connection(str(path)) as connection:
            stream = connection.events("/v1/events")
            threading.Timer(0.05, stream.close).start()
            with pytest.raises(Broken, match="closed the connection"):
                next(iter(stream))
            stream.close()


def test_what_is_no_stream_is_not_read_as_one(path: Path) -> None:
    with RawServer(path, OK), Connection(str(path)) as connection, pytest.raises(Broken, match="not a stream"):
        connection.events("/v1/events")


def test_nobody_there_is_said_as_such(path: Path) -> None:
    with pytest.raises(NotRunning, match="doorward up"):
        Connection(str(path))
    path.parent.mkdir(mode=0o700)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    path.chmod(0o600)

    with pytest.raises(NotRunning, match="nobody listens"):
        Connection(str(path))


def test_a_path_too_long_for_the_kernel_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(Broken, match="DOORWARD_HOME"):
        check_place(str(tmp_path / ("x" * LONGEST_PATH_BYTES)))


def test_a_full_backlog_is_not_waited_for_forever(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(0)
    with listener:
        queued = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for link in queued:
            link.settimeout(0)
            link.connect_ex(str(path))
        try:
            with pytest.raises(Broken, match="overloaded"):
                Connection(str(path), connect_s=0.1)
        finally:
            for link in queued:
                link.close()


def test_a_full_backlog_that_empties_in_time_is_waited_for(path: Path) -> None:
    """T33: a flood of others must not make a human's command fail at once."""
    path.parent.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(0)
    with listener, socket.socket(socket.AF_UNIX) as queued, ThreadPoolExecutor(1) as threads:
        queued.connect(str(path))
        waiting = threads.submit(Connection, str(path), connect_s=10.0)
        accepted = [listener.accept()[0] for _ in range(2)]
        with waiting.result(10) as connection:
            assert connection.usable
        for link in accepted:
            link.close()


def test_a_peer_of_this_user_is_accepted(path: Path) -> None:
    with UnixDaemon(path), Connection(str(path)) as connection:
        assert os.getuid() == path.stat().st_uid
        assert connection.alive()
