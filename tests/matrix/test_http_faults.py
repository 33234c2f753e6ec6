"""The HTTP far sides by raw sockets: each breaks where it is told to, and writes down what came and what it did."""

import json
import socket
import ssl
import struct
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from broker.matrix.http_faults import HttpFaults
from broker.matrix.http_plans import HttpAnswer, HttpFault, HttpPlan

LIMIT_S = 15.0
BODY = b'{"id": "d-1", "state": "ready"}'
ANSWER = HttpAnswer(status=201, headers=(("content-type", "application/json"),), body=BODY)


@pytest.fixture(scope="module")
def far() -> Iterator[HttpFaults]:
    with HttpFaults() as far:
        yield far


def connect(origin: str) -> socket.socket:
    where = urlsplit(origin)
    assert where.hostname is not None
    return socket.create_connection((where.hostname, where.port or 443), timeout=LIMIT_S)


def request(run: str, *, body: bytes = b'{"name": "web"}', more: str = "", method: str = "POST") -> bytes:
    head = f"{method} /{run}/v1/things?a=1 HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def heard(link: socket.socket) -> tuple[bytes, str]:
    """All that comes, and how it ends."""
    told = b""
    try:
        while piece := link.recv(65536):
            told += piece
    except ConnectionResetError:
        return told, "reset"
    except TimeoutError:
        return told, "silence"
    return told, "close"


def broken(far: HttpFaults, point: str, kind: str, *, seconds: float = 0.2, body: bytes = b"{}") -> tuple[bytes, str]:
    run = f"{point}-{kind}"
    fault = HttpFault(point=point, kind=kind, seconds=seconds)
    far.arm(run, HttpPlan(answers=(ANSWER,), fault=fault))
    with connect(far.origin(fault)) as link:
        try:
            link.sendall(request(run, body=body))
        except (BrokenPipeError, ConnectionResetError):
            return b"", "reset"
        return heard(link)


def whats(far: HttpFaults, run: str) -> list[str]:
    return [one.what for one in far.events(run)]


def told(far: HttpFaults, run: str) -> Any:
    with connect(far.origin(None)) as link:
        link.sendall(f"GET /{run}/_committed HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        link.settimeout(2)
        answer = heard(link)[0]
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def test_an_answer_that_breaks_nowhere_is_whole_and_the_connection_goes_on(far: HttpFaults) -> None:
    far.arm("whole", HttpPlan(answers=(ANSWER,)))
    with connect(far.origin(None)) as link:
        for _ in range(2):
            link.sendall(request("whole", more="authorization: Bearer canary-x\r\n"))
            assert link.recv(65536).endswith(BODY)

    assert ["received", "committed", "answered"] * 2 == whats(far, "whole")
    assert {"POST /whole/v1/things?a=1"} == {one.detail for one in far.events("whole")}
    assert "Bearer canary-x" == far.events("whole")[0].credential
    assert [["v1", "things"]] * 2 == [row["segments"] for row in told(far, "whole")["items"]]


@pytest.mark.parametrize(
    ("point", "kind", "ends", "says", "writes"),
    [
        ("during_headers", "reset", {"reset"}, b"", ["broke"]),
        ("during_headers", "close", {"close", "reset"}, b"", ["broke"]),
        ("during_request_body", "reset", {"reset"}, b"", ["broke"]),
        ("during_request_body", "close", {"close", "reset"}, b"", ["broke"]),
        ("during_request_body", "early_answer", {"close", "reset"}, b"HTTP/1.1 201", ["answered"]),
        ("after_request_sent", "reset", {"reset"}, b"", ["received", "broke"]),
        ("after_request_sent", "close", {"close"}, b"", ["received", "broke"]),
        ("after_request_sent", "silence", {"close"}, b"", ["received", "broke"]),
        ("after_commit", "reset", {"reset"}, b"", ["received", "committed", "broke"]),
        ("after_commit", "delay", {"close"}, BODY, ["received", "committed", "answered"]),
        ("during_status_line", "close", {"close"}, b"HTTP/1.1 20", ["received", "committed", "broke"]),
        ("during_status_line", "garbage", {"close"}, b"NONSENSE", ["received", "committed", "broke"]),
        ("during_response_headers", "close", {"close"}, b"content-type: appl", ["received", "committed", "broke"]),
        ("during_response_headers", "stall", {"close"}, b"content-type: appl", ["received", "committed", "broke"]),
        ("during_response_body", "close", {"close"}, b'{"id": "d-1"', ["received", "committed", "broke"]),
        ("during_response_body", "reset", {"reset"}, b"", ["received", "committed", "broke"]),
        (
            "during_response_body",
            "chunk_cut",
            {"close"},
            b"transfer-encoding: chunked",
            ["received", "committed", "broke"],
        ),
        ("during_response_body", "gzip_cut", {"close"}, b"content-encoding: gzip", ["received", "committed", "broke"]),
    ],
)
def test_it_breaks_where_it_is_told_to(
    far: HttpFaults, point: str, kind: str, ends: set[str], says: bytes, writes: list[str]
) -> None:
    came, ended = broken(far, point, kind)

    assert ended in ends
    assert says in came
    assert writes == whats(far, f"{point}-{kind}")


def test_an_upload_that_is_not_taken_has_to_wait(far: HttpFaults) -> None:
    fault = HttpFault(point="during_request_body", kind="stall", seconds=0.5)
    far.arm("stalled", HttpPlan(answers=(ANSWER,), fault=fault))
    with connect(far.origin(fault)) as link:
        link.settimeout(0)
        sent = link.send(request("stalled", body=b"n" * 10_000_000))

    assert sent < 10_000_000


def test_a_connection_that_is_used_again_breaks_as_the_request_comes(far: HttpFaults) -> None:
    fault = HttpFault(point="on_reused_connection", kind="close")
    far.arm("again", HttpPlan(answers=(ANSWER,), fault=fault))
    with connect(far.origin(fault)) as link:
        link.sendall(request("again"))
        assert link.recv(65536).endswith(BODY)
        link.sendall(request("again"))
        assert (b"", "close") == heard(link)

    assert ["received", "committed", "answered", "received", "broke"] == whats(far, "again")


def test_nobody_listens_or_answers_where_nobody_should(far: HttpFaults) -> None:
    with pytest.raises(ConnectionRefusedError):
        connect(far.origin(HttpFault(point="before_connect", kind="refused")))
    where = urlsplit(far.origin(HttpFault(point="during_connect", kind="timeout")))
    with socket.socket() as link:
        link.settimeout(0.5)
        with pytest.raises(TimeoutError):
            link.connect((where.hostname, where.port))
    with pytest.raises(socket.gaierror):
        connect(far.origin(HttpFault(point="before_connect", kind="dns_failure")))


@pytest.mark.parametrize(
    ("kind", "says"),
    [("bad_certificate", "self-signed|unable to get"), ("wrong_name", "mismatch"), ("expired", "expired")],
)
def test_a_certificate_is_wrong_in_the_way_it_is_told_to(far: HttpFaults, kind: str, says: str) -> None:
    trusting = ssl.create_default_context(cadata=far.ca_pem)
    with connect(far.origin(HttpFault(point="during_tls", kind=kind))) as link, pytest.raises(ssl.SSLError, match=says):
        trusting.wrap_socket(link, server_hostname="127.0.0.1")
    with connect(far.origin(None, tls=True)) as link, trusting.wrap_socket(link, server_hostname="127.0.0.1") as inner:
        assert inner.version() is not None


@pytest.mark.parametrize(("honours", "changes"), [(True, 1), (False, 2)])
def test_a_key_that_came_before_changes_nothing_again_where_keys_are_honoured(
    far: HttpFaults, *, honours: bool, changes: int
) -> None:
    run = f"keys-{changes}"
    far.arm(run, HttpPlan(answers=(ANSWER,), honours_keys=honours))
    with connect(far.origin(None)) as link:
        for _ in range(2):
            link.sendall(request(run, more="idempotency-key: k-1\r\n"))
            link.recv(65536)

    assert changes == sum(what == "committed" for what in whats(far, run))
    assert {"k-1"} == {one.key for one in far.events(run) if one.what == "received"}
    assert changes == told(far, run)["count"]


def test_answers_come_in_order_and_those_for_a_request_go_before(far: HttpFaults) -> None:
    first, last = HttpAnswer(status=500), HttpAnswer(status=202)
    named = HttpAnswer(status=418, when="GET /many")
    far.arm("many", HttpPlan(answers=(first, last, named)))
    statuses = []
    with connect(far.origin(None)) as link:
        for method in ("POST", "GET", "POST", "POST"):
            link.sendall(request("many", method=method))
            statuses.append(int(link.recv(65536).split()[1]))

    assert [500, 418, 202, 202] == statuses
    assert 2 == told(far, "many")["count"]


def test_a_run_that_nobody_armed_is_not_there(far: HttpFaults) -> None:
    with connect(far.origin(None)) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.sendall(request("nobody", body=b""))
        assert b"404" in link.recv(65536)
