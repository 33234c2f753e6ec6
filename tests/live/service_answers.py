"""Answers of real services, good, odd and broken, as the rough upstream gives them, and what is to be made of each.

Where a behaviour was seen in the wild, a line above tells where.
"""

import gzip
import json
import os
import socket
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.fakes import upstream as up

Gist: TypeAlias = tuple[str, str, str, str]  # category, code, retry, remote effect

JSON = ("content-type", "application/json")
TEXT = ("content-type", "text/plain")
HTML = ("content-type", "text/html")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CREATED = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"

READ_OK: Gist = ("success", "ok", "never", "none")
WRITE_OK: Gist = ("success", "ok", "never", "applied")
RETRY_READ: Gist = ("confirmed_failure", "remote_error", "bounded", "none")


def unknown(code: str = "server_error") -> Gist:
    """What nothing settles, where nothing is declared that could."""
    return "outcome_unknown", code, "after_human", "unknown"


def lost(code: str) -> Gist:
    return "outcome_unknown", code, "bounded", "none"


def failed(code: str, retry: str = "never") -> Gist:
    return "confirmed_failure", code, retry, "none"


def broken(code: str, retry: str = "never", effect: str = "none") -> Gist:
    return "malformed_response", code, retry, effect


def broken_write(code: str, effect: str = "unknown") -> Gist:
    return broken(code, "after_human", effect)


def doubtful(code: str, effect: str = "unknown") -> Gist:
    """A broken answer to a write that can be read back."""
    return broken(code, "reconcile_first", effect)


def limited(retry: str = "after_delay") -> Gist:
    return "rate_limited", "too_many", retry, "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer, and what is to be made of it. `shown` is the form in which the agent gets the body."""

    name: str
    answer: up.Behaviour
    read: Gist | None = None
    write: Gist | None = None
    head: Gist | None = None
    status: int | None = 200
    shown: str | None = None
    wait_s: int | None = None
    complete: bool | None = None
    incomplete: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()
    event: str = "remote.answered"
    deadline: dict[str, float] | None = None
    body: str = '{"name": "n-1"}'


def status(code: int, name: str, *, read: Gist | None = None, write: Gist | None = None, **more: Any) -> Case:
    """An answer with an empty JSON object."""
    headers = more.pop("headers", ())
    more.setdefault("shown", "body_json")
    answer = up.respond(code, b"{}", headers=(JSON, *headers))
    return Case(name=name, answer=answer, read=read, write=write, status=code, **more)


def for_both(gist: Gist) -> dict[str, Gist]:
    return {"read": gist, "write": gist}


STATUSES = [
    status(401, "a rejected credential", **for_both(("authentication_failed", "rejected", "never", "none"))),
    status(403, "a known caller who may not", **for_both(("authorization_denied", "forbidden", "never", "none"))),
    status(404, "nothing there", **for_both(failed("not_found"))),
    status(408, "a request that did not come in time", **for_both(failed("client_error", "bounded"))),
    status(409, "a conflict", **for_both(failed("conflict"))),
    status(412, "a precondition that fails", **for_both(failed("precondition"))),
    status(417, "an expectation that nobody had", **for_both(failed("client_error"))),
    status(422, "content that is refused", **for_both(failed("client_error"))),
    status(425, "a request that came too early", **for_both(failed("client_error", "bounded"))),
    status(429, "a limit", **for_both(limited()), wait_s=60),
    status(500, "a server that failed", read=RETRY_READ, write=unknown()),
    status(502, "a gateway without an answer", read=RETRY_READ, write=unknown()),
    status(503, "a server that is away", read=RETRY_READ, write=unknown()),
    status(504, "a gateway that gave up", read=RETRY_READ, write=unknown()),
    status(407, "a proxy on the way", **for_both(("local_failure", "proxy_auth", "after_human", "none"))),
    status(511, "a network with a sign-in", **for_both(("local_failure", "captive_portal", "after_human", "none"))),
    status(301, "a thing that moved", **for_both(failed("redirect_not_followed")), headers=(("location", "/away"),)),
    status(302, "a thing elsewhere", **for_both(failed("redirect_not_followed")), headers=(("location", "/away"),)),
    status(
        303,
        "an answer to be looked at elsewhere",
        read=failed("redirect_not_followed"),
        write=("confirmed_failure", "redirect_not_followed", "never", "unknown"),
        headers=(("location", "/away"),),
    ),
    status(307, "a detour", **for_both(failed("redirect_not_followed")), headers=(("location", "http://127.0.0.1:9/"),)),
    status(
        202,
        "work that goes on",
        read=("partial", "accepted", "after_delay", "none"),
        write=("partial", "accepted", "after_delay", "unknown"),
        wait_s=10,
        incomplete=("IN_PROGRESS",),
    ),
    # An edge before the origin says what HTTP does not know:
    # https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/
    status(520, "an origin that made no sense to its edge", read=RETRY_READ, write=unknown()),
    status(999, "a status of the server's own", read=RETRY_READ, write=unknown()),
    Case(
        name="no content",
        answer=up.respond(204, b"", headers=()),
        read=READ_OK,
        write=WRITE_OK,
        status=204,
    ),
    Case(
        name="nothing new",
        answer=up.respond(304, b"", headers=()),
        read=READ_OK,
        write=failed("redirect_not_followed"),
        status=304,
    ),
]  # fmt: skip


def waits(value: str, wait_s: int | None, *, warns: bool = False, code: int = 429, **more: Any) -> Case:
    return status(
        code,
        f"{code} and Retry-After {value!r}",
        headers=(("retry-after", value),),
        wait_s=wait_s,
        warns=("UNTRUSTED_RETRY_AFTER",) if warns else (),
        **more,
    )


DATED = (("date", "Sun, 29 Nov 2026 12:00:00 GMT"),)
WAITS = [
    waits("7", 7, write=limited()),
    waits("0", 1, write=limited()),
    # A fraction, seen in the wild: https://github.com/teng-lin/notebooklm-py/issues/1275
    waits("0.503", 1, read=limited()),
    # Half a number, and what many read as a year: https://github.com/mastra-ai/mastra/issues/23778
    waits("-3", 60, warns=True, read=limited()),
    waits("120junk", 60, warns=True, write=limited()),
    waits("1e3", 60, warns=True, read=limited()),
    waits("", 60, warns=True, read=limited()),
    waits("Wed, 21 Oct 2015 07:28:00 GMT", 1, write=limited()),
    waits("Fri, 31 Dec 9999 23:59:59 GMT", None, write=limited("after_human")),
    waits("999999", None, read=limited("after_human")),
    waits("300", 300, code=503, read=("confirmed_failure", "remote_error", "after_delay", "none")),
    waits("999999", None, code=503, read=("confirmed_failure", "remote_error", "after_human", "none")),
    waits("300", None, code=503, write=unknown()),  # that it asks to wait is no proof that it did nothing
    waits("3", 3, code=202, write=("partial", "accepted", "after_delay", "unknown"), incomplete=("IN_PROGRESS",)),
    *(
        status(
            429,
            f"a date as {form}, against the answer's own clock",
            headers=(("retry-after", value), *DATED),
            wait_s=120,
            write=limited(),
        )
        for form, value in {
            "it is written": "Sun, 29 Nov 2026 12:02:00 GMT",
            "it was written": "Sunday, 29-Nov-26 12:02:00 GMT",
            "C writes it": "Sun Nov 29 12:02:00 2026",
        }.items()
    ),
    status(
        429,
        "two waits at once",
        headers=(("retry-after", "5"), ("retry-after", "9")),
        wait_s=60,
        warns=("UNTRUSTED_RETRY_AFTER",),
        read=limited(),
    ),
]  # fmt: skip


def document(name: str, octets: bytes, code: int = 200, *headers: tuple[str, str], **more: Any) -> Case:
    return Case(name=name, answer=up.respond(code, octets, headers=(JSON, *headers)), status=code, **more)


def wire(name: str, *pieces: bytes, then: str = "close", **more: Any) -> Case:
    return Case(name=name, answer=up.raw(*pieces, then=then), **more)


TWICE = gzip.compress(gzip.compress(b"{}"))
UNUSABLE = [
    document("bytes that are no UTF-8", b'{"id": "\xff"}', read=broken("decoding"), write=broken_write("decoding")),
    document("NaN", b'{"id": NaN}', read=broken("decoding")),
    document("a number beyond all bounds", b'{"id": 1e999}', read=broken("decoding")),
    document("a name that stands twice", b'{"id": "a", "id": "b"}', 201, write=broken_write("decoding", "applied")),
    document("half a surrogate pair", b'{"id": "\\ud800"}', read=broken("decoding")),
    document("two documents", b'{"id": 1} {"id": 2}', read=broken("decoding")),
    document("a script's prefix", b")]}',\n{}", read=broken("decoding")),
    document("UTF-16", '{"id": "x"}'.encode("utf-16"), 201, write=broken_write("decoding", "applied")),
    document("nesting without end", b"[" * 70 + b"]" * 70, read=broken("decoding"), incomplete=()),
    document("more than is looked at", b'"' + b"x" * 300_000 + b'"',
             read=broken("too_large"), write=broken_write("too_large")),
    document("compressed twice under one name", TWICE, 200, ("content-encoding", "gzip"),
             write=broken_write("decoding"), read=broken("decoding")),
    # A proxy that compresses what is compressed: https://github.com/yhirose/cpp-httplib/issues/993
    document("compressed twice and said so", TWICE, 200, ("content-encoding", "gzip, gzip"),
             write=broken_write("decoding")),
    # A charset in the wrong header: https://github.com/apache/httpcomponents-client/pull/698
    document("a charset for a coding", b"{}", 201, ("content-encoding", "utf-8"),
             write=broken_write("decoding", "applied")),
    Case(name="a gzip body that lacks its end", answer=up.gzipped(b'{"id": "abcdef"}', cut=4),
         read=broken("truncated", "bounded"), write=broken_write("truncated")),
    wire("less than its length", CREATED + b'content-length: 100\r\n\r\n{"id"', status=201,
         read=broken("truncated", "bounded"), write=broken_write("truncated", "applied")),
    wire("chunks that end early", HEAD + CHUNKED + b'5\r\n{"id"\r\n',
         read=broken("truncated", "bounded"), write=broken_write("truncated")),
    wire("chunks without the last line", HEAD + CHUNKED + b"2\r\n{}\r\n0\r\n", write=broken_write("truncated")),
    wire("trailers that are cut", HEAD + CHUNKED + b"2\r\n{}\r\n0\r\nx-sum: 1", write=broken_write("truncated")),
    wire("an error whose page is cut", b"HTTP/1.1 404 NF\r\ncontent-length: 100\r\n\r\n<h1>", status=404,
         read=broken("truncated", "bounded"), write=broken_write("truncated")),
    wire("a closed connection in the midst of JSON", HEAD.replace(b"1.1", b"1.0") + b'\r\n{"id":',
         write=broken_write("decoding"), read=broken("decoding")),
    # Reject or mend, says the RFC; no two parsers agree: https://github.com/nodejs/http-parser/issues/435
    wire("the same length twice", HEAD + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}", then="keep", status=None,
         event="transport.failed", read=broken("framing", "bounded"), write=broken_write("framing")),
    wire("two lengths", HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}", status=None,
         event="transport.failed", write=broken_write("framing")),
    wire("a length and chunks", HEAD + b"content-length: 2\r\n" + CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", status=None,
         event="transport.failed", write=broken_write("framing")),
    wire("a length that is no number", HEAD + b"content-length: +2\r\n\r\n{}", status=None,
         event="transport.failed", write=broken_write("framing")),
    # What was coded would pass for what was meant: https://github.com/apache/trafficserver/pull/7694
    wire("a transfer coding that nobody asked for",
         PLAIN + b"transfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
         read=broken("framing", "bounded"), write=broken_write("framing")),
    wire("a switch to another protocol", b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n\x01",
         then="hold", status=101, write=broken_write("framing")),
    wire("another protocol altogether", b"SSH-2.0-OpenSSH_9.6\r\n\r\n", status=None, event="transport.failed",
         read=broken("framing", "bounded"), write=broken_write("framing")),
    wire("a body under HEAD", HEAD + b"content-length: 2\r\n\r\n{}", then="keep", status=None,
         event="transport.failed", head=broken("framing", "bounded")),
    # What follows a 204 belongs to nobody: https://github.com/encode/httpx/issues/1474
    wire("a body under no content", b"HTTP/1.1 204 NC\r\ncontent-length: 2\r\n\r\n{}", then="keep", status=None,
         event="transport.failed", write=broken_write("framing")),
]  # fmt: skip

BRIEF = {"first_byte_s": 0.2}
UNANSWERED = [
    Case(name="a reset before the body is read", answer=up.reset_before_body, status=None, event="transport.failed",
         read=lost("connection_lost"), write=unknown("connection_lost")),
    wire("a reset after the request", then="reset", status=None, event="transport.failed",
         read=lost("connection_lost"), write=unknown("connection_lost")),
    # A server that restarts closes what it has begun: https://github.com/nahi/httpclient/issues/142
    wire("a close after the request", status=None, event="transport.failed",
         read=lost("connection_lost"), write=unknown("connection_lost")),
    wire("half a status line", b"HTTP/1.1 20", status=None, event="transport.failed",
         read=lost("connection_lost"), write=unknown("connection_lost")),
    wire("hints and then nothing", b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n", status=None,
         event="transport.failed", write=unknown("connection_lost")),
    Case(name="silence", answer=up.silence, status=None, event="deadline.expired", deadline=BRIEF,
         read=lost("first_byte_timeout"), write=unknown("first_byte_timeout")),
    wire("a head that stalls", b"HTTP/1.1 200 OK\r\n", then="hold", status=None, event="deadline.expired",
         deadline=BRIEF, write=unknown("first_byte_timeout")),
    Case(name="a body that never ends", answer=up.drip, event="deadline.expired", deadline={"total_s": 0.3},
         read=lost("total_timeout"), write=unknown("total_timeout")),
]  # fmt: skip

ODD = [
    document("a byte-order mark", b'\xef\xbb\xbf{"id": "x"}', 201, write=WRITE_OK, shown="body_json",
             warns=("NORMALIZED_BODY",)),
    document("an integer of any size", b'{"id": 12345678901234567890123}', read=READ_OK, shown="body_json"),
    document("no coding, and said so", b"{}", 201, ("content-encoding", "identity"), write=WRITE_OK, shown="body_json"),
    # https://github.com/urllib3/urllib3/pull/5189
    document("a coding beside none", gzip.compress(b"{}"), 201, ("content-encoding", "gzip, identity"),
             write=WRITE_OK, shown="body_json"),
    Case(name="a charset that JSON does not have", answer=up.respond(200, '{"a": "é"}'.encode(), headers=(
         ("content-type", "application/json; charset=iso-8859-1"),)), read=READ_OK, shown="body_json"),
    Case(name="a charset that can not be read", answer=up.respond(200, b"caf\xe9", headers=(
         ("content-type", "text/plain; charset=windows-1252"),)), read=READ_OK, shown="body_b64"),
    Case(name="a media type in two headers", answer=up.respond(200, b"{}", headers=(JSON, JSON)), read=READ_OK,
         shown="body"),
    document("a part of something under 200", b'{"id": 1}', 200, ("content-range", "bytes 0-8/100"), read=READ_OK,
             shown="body_json"),
    document("a part of something", b'{"id": 1}', 206, ("content-range", "bytes 0-8/100"),
             read=("partial", "incomplete", "never", "none"), incomplete=("OUTPUT_TRUNCATED",), shown="body_json"),
    wire("trailers", HEAD + CHUNKED + b"2\r\n{}\r\n0\r\nx-sum: 1\r\n\r\n", then="keep", write=WRITE_OK,
         shown="body_json"),
    wire("chunks with extensions", HEAD + CHUNKED + b'2;name=value;q="a"\r\n{}\r\n0;last\r\n\r\n', then="keep",
         write=WRITE_OK, shown="body_json"),
    # Clients have taken a hint for the answer: https://github.com/snoyberg/http-client/issues/521
    wire("hints before a failure", b"HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=next\r\n\r\n",
         b"HTTP/1.1 500 E\r\ncontent-length: 0\r\n\r\n", then="keep", status=500, read=RETRY_READ, write=unknown()),
    wire("go on, and then no", b"HTTP/1.1 100 Continue\r\n\r\n",
         b"HTTP/1.1 417 Expectation Failed\r\ncontent-length: 0\r\n\r\n", then="keep", status=417,
         write=failed("client_error")),
    wire("a content that is reset, with a body", b"HTTP/1.1 205 Reset\r\ncontent-length: 2\r\n\r\n{}", then="keep",
         status=205, write=WRITE_OK),
    wire("no content, with a coding", b"HTTP/1.1 204 NC\r\ncontent-encoding: br\r\n\r\n", then="keep", status=204,
         write=WRITE_OK),
    # https://github.com/google/ngx_brotli/issues/108
    wire("the coding of a body that HEAD does not get",
         b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 99\r\n\r\n", then="keep", head=READ_OK),
    wire("HTTP/1.0 with a length", b"HTTP/1.0 201 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
         status=201, write=WRITE_OK, shown="body_json"),
    wire("HTTP/1.0 with an end alone, and whole JSON",
         b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{}", read=READ_OK, shown="body_json"),
    wire("HTTP/1.0 with an end alone, and text", b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nis this all",
         read=("partial", "incomplete", "never", "none"), incomplete=("COMPLETENESS_UNVERIFIED",), shown="body"),
    # https://github.com/golang/go/issues/49194
    wire("no transfer coding, and said so", PLAIN + b"transfer-encoding: identity\r\n\r\nis this all",
         read=("partial", "incomplete", "never", "none"), incomplete=("COMPLETENESS_UNVERIFIED",), shown="body"),
    Case(name="a page under a failure", answer=up.respond(502, b"<h1>Bad Gateway</h1>", headers=(HTML,)), status=502,
         read=RETRY_READ, write=unknown()),
    document("a clock that is years off", b"{}", 401, ("date", "Wed, 21 Oct 2015 07:28:00 GMT"), shown="body_json",
             write=("authentication_failed", "rejected", "never", "none"), warns=("CLOCK_SKEW_SUSPECTED",)),
    document("a next page, of what nobody knows the end", b"[1]", 200, ("link", '</rough/more>; rel="next"'),
             read=("partial", "incomplete", "bounded", "none"), shown="body_json",
             incomplete=("MORE_PAGES_AVAILABLE", "COMPLETENESS_UNVERIFIED")),
]  # fmt: skip


def early(head: bytes) -> up.Behaviour:
    """Answer after the first of the body, and read no more: the kernel takes more the more is read."""

    async def behave(talk: up.Conversation) -> None:
        await talk.body(1000)
        await talk.send(head + b"content-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        await talk.stop_reading()

    return behave


def half_sent(name: str, **more: Any) -> Case:
    return Case(name=name, body=json.dumps({"name": "n" * 250_000}), **more)


EARLY = [
    # Servers refuse a body before they have it: https://github.com/psf/requests/issues/2422
    half_sent("a limit, with half of the body sent", answer=early(b"HTTP/1.1 429 Slow\r\nretry-after: 3\r\n"),
         status=429, write=limited(), wait_s=3, shown="body_json"),
    half_sent("too large, with half of the body sent", answer=early(b"HTTP/1.1 413 Large\r\n"), status=413,
         write=failed("client_error"), shown="body_json"),
    half_sent("a success, with half of the body sent", answer=early(b"HTTP/1.1 200 OK\r\n"),
         write=broken_write("framing")),
    half_sent("created, with half of the body sent", answer=early(b"HTTP/1.1 201 OK\r\n"), status=201,
         write=broken_write("framing")),
    half_sent("a failure, with half of the body sent", answer=early(b"HTTP/1.1 500 E\r\n"), status=500,
         write=unknown(), shown="body_json"),
    # A time-out of the idle connection that crosses the request answers nothing.
    half_sent("a time-out, with half of the body sent", answer=early(b"HTTP/1.1 408 T\r\nconnection: close\r\n"),
         status=408, write=unknown("connection_lost"), shown="body_json"),
    half_sent("a server that stops reading", answer=up.never_read, status=None, event="deadline.expired",
         deadline={"write_s": 0.3}, write=unknown("write_timeout")),
    half_sent("a reset in the midst of the body", answer=up.reset_within_body, status=None, event="transport.failed",
         write=unknown("connection_lost")),
]  # fmt: skip


async def cut(talk: up.Conversation) -> None:
    """End the stream as TCP does and TLS must not: without a word."""
    with socket.socket(fileno=os.dup(talk._writer.get_extra_info("socket").fileno())) as peer:
        peer.shutdown(socket.SHUT_WR)
    await talk.hold()


def sealed(head: bytes) -> up.Behaviour:
    async def behave(talk: up.Conversation) -> None:
        await talk.body()
        if head:
            await talk.send(head)
        await cut(talk)

    return behave


# No close_notify, so whoever can inject a FIN decides where it ends: https://github.com/rustls/rustls/issues/1406
SEALED = [
    Case(name="TLS that is cut, with the length known", answer=sealed(CREATED + b"content-length: 2\r\n\r\n{}"),
         status=201, write=WRITE_OK, shown="body_json"),
    Case(name="TLS that is cut short of the length", answer=sealed(HEAD + b"content-length: 9\r\n\r\n{}"),
         read=broken("truncated", "bounded"), write=broken_write("truncated")),
    Case(name="TLS that is cut where nothing tells the end", answer=sealed(PLAIN + b"\r\nis this all"),
         read=("partial", "incomplete", "never", "none"), incomplete=("COMPLETENESS_UNVERIFIED",), shown="body"),
    Case(name="TLS that is cut before an answer", answer=sealed(b""), status=None, event="transport.failed",
         read=lost("connection_lost"), write=unknown("connection_lost")),
]  # fmt: skip

DECLARED = [
    document("the thing with its id", b'{"id": "t-1"}', 201, write=WRITE_OK, shown="body_json"),
    document("a thing without an id", b'{"name": "n-1"}', 201,
             read=broken("identity"), write=doubtful("identity", "applied")),
    document("a thing whose id is null", b'{"id": null}', 201, write=doubtful("identity", "applied")),
    document("a thing whose id is a number", b'{"id": 7}', 201, write=doubtful("identity", "applied")),
    document("a thing whose id is an object", b'{"id": {"v": "t-1"}}',
             read=broken("identity"), write=doubtful("identity", "applied")),
    document("a thing whose id is empty", b'{"id": ""}', write=doubtful("identity", "applied")),
    document("nothing where a thing is due", b"", write=doubtful("empty"), read=broken("empty")),
    Case(name="no content where a thing is due", answer=up.respond(204, b"", headers=()), status=204,
         write=doubtful("empty", "applied")),
    Case(name="a page where a thing is due", answer=up.respond(200, b"<title>Sign in</title>", headers=(HTML,)),
         read=broken("media_type"), write=doubtful("media_type", "applied")),
    document("a success that is none of the declared", b'{"id": "t-1"}', 203, write=doubtful("schema")),
    document("more than the operation takes", b'{"id": "' + b"x" * 2000 + b'"}', 201, read=broken("too_large"),
             write=doubtful("too_large", "applied")),
]  # fmt: skip

PART: Gist = ("partial", "incomplete", "never", "none")
LISTED = [
    document("all there is", b'[{"name": "n-2"}]', read=READ_OK, shown="body_json", complete=True),
    document("something else than a list", b'{"items": []}', read=PART, shown="body_json",
             incomplete=("COMPLETENESS_UNVERIFIED",)),
    document("a list that goes on", b"[]", 200, ("link", '</told/more>; rel="next", </told/1>; rel="first"'),
             read=("partial", "incomplete", "bounded", "none"), shown="body_json",
             incomplete=("MORE_PAGES_AVAILABLE",)),
    document("a list that goes on elsewhere", b"[]", 200, ("link", '<http://127.0.0.1:9/more>; rel="next"'),
             read=PART, shown="body_json", incomplete=("MORE_PAGES_AVAILABLE",)),
    document("half a list", b"[1,", read=broken("decoding"), incomplete=("SOURCE_UNAVAILABLE",)),
    wire("a list that is cut", HEAD + b"content-length: 9\r\n\r\n[1,2]", read=broken("truncated", "bounded"),
         incomplete=("OUTPUT_TRUNCATED",)),
    Case(name="no list in time", answer=up.silence, status=None, event="deadline.expired", deadline=BRIEF,
         read=lost("first_byte_timeout"), incomplete=("TIME_BUDGET_EXCEEDED",)),
    status(503, "a source that is away", read=RETRY_READ, incomplete=("SOURCE_UNAVAILABLE",)),
    status(403, "a list that may not be seen", read=("authorization_denied", "forbidden", "never", "none")),
]  # fmt: skip
