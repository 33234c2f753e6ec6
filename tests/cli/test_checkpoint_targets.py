"""Keeping a checkpoint in a file, in the system's log and on a web server: real ones, good and bad."""

import base64
import contextlib
import fcntl
import http.server
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from broker.audit.checkpoint import MAX_FILE_BYTES, note_body, origin_of, parse_notes, signature_line
from broker.cli.checkpoint_targets import TargetError, append_to, send_to_syslog, syslog_line
from broker.cli.webhook import check_url, post
from tests.fakes.authority import Authority
from tests.fakes.strangers import KINDS, put

KEY = Ed25519PrivateKey.generate()
LOG_ID = bytes.fromhex("5c1d0badcafe0000")


def note(size: int = 7, *, log_id: bytes = LOG_ID) -> bytes:
    origin = origin_of(log_id)
    body = note_body(origin, size, bytes([size % 256]) * 32)
    return body + b"\n" + signature_line(origin, KEY.public_key().public_bytes_raw(), body, KEY.sign)


class TestFile:
    def test_a_file_is_made_for_its_owner_alone(self, tmp_path: Path) -> None:
        append_to(tmp_path / "kept", note())

        assert note() == (tmp_path / "kept").read_bytes()
        assert 0o600 == (tmp_path / "kept").stat().st_mode & 0o777

    def test_notes_are_added_and_all_of_them_can_be_read(self, tmp_path: Path) -> None:
        for size in (3, 9, 12):
            append_to(tmp_path / "kept", note(size))
        kept = parse_notes((tmp_path / "kept").read_bytes())

        assert kept is not None
        assert [3, 9, 12] == [one.size for one in kept]
        assert [tmp_path / "kept"] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("content", [b"shopping list\n", note() + b"more\n", note(log_id=bytes(8)), b"\xff\xfe\n"])
    def test_a_file_of_something_else_is_left_as_it_is(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "kept").write_bytes(content)

        with pytest.raises(TargetError, match="something else"):
            append_to(tmp_path / "kept", note())
        assert content == (tmp_path / "kept").read_bytes()

    def test_a_full_file_is_left_as_it_is(self, tmp_path: Path) -> None:
        many = b"\n".join([note()] * (MAX_FILE_BYTES // (len(note()) + 1)))
        (tmp_path / "kept").write_bytes(many)

        with pytest.raises(TargetError, match="full"):
            append_to(tmp_path / "kept", note())
        assert many == (tmp_path / "kept").read_bytes()

    def test_what_is_no_plain_file_of_ours_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "directory").mkdir()
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "there").write_bytes(note())
        (tmp_path / "link").symlink_to(tmp_path / "there")
        os.link(tmp_path / "there", tmp_path / "second")
        for name in ("directory", "fifo", "link", "second", "missing/kept", "a\0b"):
            with pytest.raises(TargetError):
                append_to(tmp_path / name, note(8))
        with pytest.raises(TargetError):
            append_to(Path("/dev/zero"), note(8))
        assert note() == (tmp_path / "there").read_bytes()

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_lies_where_a_draft_might_be_is_neither_opened_nor_lost(self, tmp_path: Path, kind: str) -> None:
        """In a directory that others write to, a name that can be guessed is somebody else's."""
        other, there = tmp_path / "other", tmp_path / ".kept.new"
        put(kind, there, other)
        before = there.lstat()
        append_to(tmp_path / "kept", note())
        after = there.lstat()

        assert (note(), b"another's") == ((tmp_path / "kept").read_bytes(), other.read_bytes())
        assert (before.st_ino, before.st_size, before.st_mtime_ns) == (after.st_ino, after.st_size, after.st_mtime_ns)
        assert {"kept", "other", ".kept.new"} == {path.name for path in tmp_path.iterdir()}

    def test_notes_that_are_added_at_once_are_all_kept(self, tmp_path: Path) -> None:
        sizes, ready = range(1, 13), threading.Barrier(12)

        def add(size: int) -> None:
            ready.wait(10)
            append_to(tmp_path / "kept", note(size))

        adding = [threading.Thread(target=add, args=(size,)) for size in sizes]
        for one in adding:
            one.start()
        for one in adding:
            one.join(20)
        kept = parse_notes((tmp_path / "kept").read_bytes())

        assert kept is not None
        assert list(sizes) == sorted(one.size for one in kept)
        assert ["kept"] == [path.name for path in tmp_path.iterdir()]

    def test_a_file_that_somebody_holds_is_not_waited_for_without_end(self, tmp_path: Path) -> None:
        append_to(tmp_path / "kept", note(3))
        with (tmp_path / "kept").open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(TargetError, match="another process holds it"):
                append_to(tmp_path / "kept", note(4), limit_s=0.1)

        assert note(3) == (tmp_path / "kept").read_bytes()

    def test_a_note_that_was_not_taken_leaves_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(TargetError, match="full"):
            append_to(tmp_path / "kept", note() * (MAX_FILE_BYTES // len(note()) + 1))
        (tmp_path / "of somebody").touch()
        with pytest.raises(TargetError, match="full"):
            append_to(tmp_path / "of somebody", note() * (MAX_FILE_BYTES // len(note()) + 1))

        assert ["of somebody"] == [path.name for path in tmp_path.iterdir()]

    def test_a_directory_that_takes_nothing_is_told(self) -> None:
        with pytest.raises(TargetError):
            append_to(Path("/proc/self/kept"), note())


class TestSyslog:
    @contextlib.contextmanager
    def listening(self, path: Path, kind: int) -> Iterator[socket.socket]:
        with contextlib.closing(socket.socket(socket.AF_UNIX, kind)) as log:
            log.settimeout(5)
            log.bind(str(path))
            if kind == socket.SOCK_STREAM:
                log.listen()
            yield log

    def test_the_line_is_clean_and_the_note_can_be_got_back(self, tmp_path: Path) -> None:
        with self.listening(tmp_path / "log", socket.SOCK_DGRAM) as log:
            send_to_syslog(str(tmp_path / "log"), note(), 7)
            line = log.recv(65536)

        found = re.fullmatch(
            rb"<85>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [!-~]+ doorward \d+ audit-checkpoint - "
            rb"size=7 note=([A-Za-z0-9+/=]+)",
            line,
        )
        assert found is not None
        assert note() == base64.b64decode(found[1])
        assert len(line) < 1024  # what the oldest of receivers takes

    def test_a_log_that_takes_streams_is_spoken_to_as_well(self, tmp_path: Path) -> None:
        with self.listening(tmp_path / "log", socket.SOCK_STREAM) as log:
            send_to_syslog(str(tmp_path / "log"), note(), 7)
            with log.accept()[0] as taken:
                assert taken.recv(65536).endswith(b"\n")

    @pytest.mark.parametrize("address", ["/does/not/exist", "/dev/null", "a\0b", "/" + "x" * 200])
    def test_a_log_that_is_not_there_is_told(self, address: str) -> None:
        with pytest.raises(TargetError):
            send_to_syslog(address, note(), 7)

    def test_a_log_that_takes_nothing_does_not_hold_us_up(self, tmp_path: Path) -> None:
        with self.listening(tmp_path / "log", socket.SOCK_DGRAM):
            began = time.monotonic()

            def fill() -> None:
                for _ in range(10_000):
                    send_to_syslog(str(tmp_path / "log"), note(), 7, limit_s=0.2)

            with pytest.raises(TargetError):
                fill()
            assert time.monotonic() - began < 30

    def test_the_machine_may_be_called_anything(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(socket, "gethostname", lambda: 'a "b]\n<c>\u2014')

        assert b'Z a"b]<c> doorward ' in syslog_line(note(), 7)


class _Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        taken: Any = self.server
        taken.got.append((self.path, dict(self.headers), self.rfile.read(int(self.headers["content-length"]))))
        taken.answer(self)

    @override
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(answer: Any, context: ssl.SSLContext | None = None) -> Iterator[Any]:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
    server.daemon_threads = True
    server.got, server.answer = [], answer
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answering(status: int, **headers: str) -> Any:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


class TestWebhook:
    def test_the_note_is_posted_as_text_and_nothing_else_goes_along(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("HOME", "/nowhere")
        with serving(answering(204)) as server:
            post(f"http://127.0.0.1:{server.server_port}/hook?x=1", note())
        [(path, headers, body)] = server.got

        assert ("/hook?x=1", note()) == (path, body)
        assert "text/plain; charset=utf-8" == headers["content-type"]
        assert {"host", "accept-encoding", "content-length", "content-type", "user-agent", "connection"} == {
            name.lower() for name in headers
        }

    @pytest.mark.parametrize("status", [301, 400, 401, 404, 500, 503])
    def test_anything_but_a_yes_is_told(self, status: int) -> None:
        with (
            serving(answering(status, location="http://127.0.0.1:1/")) as server,
            pytest.raises(TargetError, match=str(status)),
        ):
            post(f"http://127.0.0.1:{server.server_port}/", note())
        assert 1 == len(server.got)

    def test_a_server_that_says_nothing_has_a_limit(self) -> None:
        free = threading.Event()
        with serving(lambda _: free.wait(10)) as server:
            began = time.monotonic()
            with pytest.raises(TargetError, match="no answer"):
                post(f"http://127.0.0.1:{server.server_port}/", note(), limit_s=0.3)
            assert time.monotonic() - began < 30
            free.set()

    def test_a_server_that_drips_has_the_same_limit(self) -> None:
        done = threading.Event()

        def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
            with contextlib.suppress(OSError):
                while not done.wait(0.05):
                    handler.wfile.write(b"H")

        with serving(drip) as server:
            began = time.monotonic()
            with pytest.raises(TargetError, match="no answer"):
                post(f"http://127.0.0.1:{server.server_port}/", note(), limit_s=0.5)
            assert time.monotonic() - began < 30
            done.set()

    def test_a_server_that_is_not_there_or_speaks_no_http_is_told(self) -> None:
        with contextlib.closing(socket.socket()) as taken:
            taken.bind(("127.0.0.1", 0))
            with pytest.raises(TargetError):
                post(f"http://127.0.0.1:{taken.getsockname()[1]}/", note())
        with serving(lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n\r\n")) as server, pytest.raises(TargetError):
            post(f"http://127.0.0.1:{server.server_port}/", note())

    def test_tls_holds_the_server_to_its_certificate(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        authority = Authority()
        (tmp_path / "ca").write_text(authority.pem)
        with serving(answering(200), authority.server(addresses=("127.0.0.1",), names=()).context) as server:
            url = f"https://127.0.0.1:{server.server_port}/hook"
            with pytest.raises(TargetError, match="not to be trusted"):
                post(url, note())
            assert [] == server.got
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
            post(url, note())
            assert [note()] == [body for _, _, body in server.got]
            with pytest.raises(TargetError, match="not to be trusted"):
                post(url.replace("127.0.0.1", "localhost"), note())

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "hook",
            "ftp://one.example/",
            "file:///etc/passwd",
            "http://one.example/",
            "http://localhost/",
            "http://127.0.0.1.one.example/",
            "https://user:word@one.example/",
            "https://user@one.example/",
            "https:///path",
            "https://one.example:0/",
            "https://one.example:99999/",
            "https://one.example/a b",
            "https://one.example/a\r\nX: y",
            "https://\u0435xample.org/",
            "https://[::1/",
            "https://one.example/" + "x" * 3000,
        ],
    )
    def test_urls_that_nothing_may_be_posted_to(self, url: str) -> None:
        with pytest.raises(TargetError):
            check_url(url)

    @pytest.mark.parametrize("url", ["https://one.example/h?k=v", "http://127.9.9.9:80/", "http://[::1]:8080/x"])
    def test_urls_that_may_be_posted_to(self, url: str) -> None:
        assert check_url(url).hostname
