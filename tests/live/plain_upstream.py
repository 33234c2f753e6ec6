"""A plain upstream on loopback for live tests: keeps orders and requests, and can keep who asks waiting."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override


class Upstream:
    """What it saw, and whether it answers."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.authorizations: list[str | None] = []
        self.orders: list[dict[str, object]] = []
        self.answers = threading.Event()  # cleared: it takes requests and answers none
        self.answers.set()
        self.arrived = threading.Semaphore(0)
        self.port = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for_request(self, limit_s: float = 60.0) -> None:
        assert self.arrived.acquire(timeout=limit_s), "no request reached the upstream"


@contextmanager
def serving() -> Iterator[Upstream]:
    upstream = Upstream()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

        def _answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            upstream.requests.append(f"{self.command} {self.path}")
            upstream.authorizations.append(self.headers.get("authorization"))
            if self.command == "POST":
                upstream.orders.append(json.loads(body or b"{}"))
            upstream.arrived.release()
            if not upstream.answers.wait(60):
                return
            value: object = {"orders": upstream.orders, "more": False} if self.command == "GET" else {"id": "o-1"}
            told = json.dumps(value).encode()
            self.send_response(201 if self.command == "POST" else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = _answer  # noqa: N815 - the names that the library calls
        do_POST = _answer  # noqa: N815
        do_DELETE = _answer  # noqa: N815

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 1024

        @override
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hung up is what some tests are about."""

        @override
        def server_bind(self) -> None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            super().server_bind()

    server = Server(("127.0.0.1", 0), Handler)
    upstream.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.answers.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
