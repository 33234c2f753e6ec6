"""A real nginx with a certificate of its own CA, as the upstream of live tests: it checks the token and keeps a log."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_S = 10.0

CONFIGURATION = """
daemon off;
worker_processes 1;
error_log {home}/error.log;
pid {home}/nginx.pid;
events {{ worker_connections 64; }}
http {{
    access_log {home}/access.log;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    default_type application/json;
    server {{
        listen 127.0.0.1:{port} ssl;
        server_name localhost;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        if ($http_authorization != "Bearer {token}") {{ return 401 '{{"error":"unauthorized"}}'; }}
        location = /v1/items {{ return 200 '{{"items":[{{"id":"i-1"}}],"more":false}}'; }}
        location = /v1/echo {{ return 200 '{{"you_sent":"$http_authorization"}}'; }}
        location = /v1/moved {{ return 302 https://localhost:{port}/v1/items; }}
        location = /v1/things {{ return 201 '{{"id":"t-1"}}'; }}
        location ~ ^/v1/things/ {{ return 204; }}
    }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nginx:
    """A running server."""

    port: int
    ca_pem: bytes
    home: Path

    @property
    def origin(self) -> str:
        return f"https://localhost:{self.port}"

    def requests(self) -> list[str]:
        """The lines of its access log."""
        log = self.home / "access.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def program() -> str:
    """Its path; AssertionError names what installs it."""
    found = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    assert found is not None, "nginx is missing; run packaging/setup-test-deps.sh"
    return found


@contextmanager
def running(home: Path, *, certificate: Path, key: Path, ca_pem: bytes, token: str) -> Iterator[Nginx]:
    home.mkdir(mode=0o700)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    text = CONFIGURATION.format(home=home, port=port, certificate=certificate, key=key, token=token)
    configuration = home / "nginx.conf"
    configuration.write_text(text, encoding="utf-8")
    configuration.chmod(0o600)
    command = [program(), "-e", str(home / "error.log"), "-p", str(home), "-c", str(configuration)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port, server)
            yield Nginx(port=port, ca_pem=ca_pem, home=home)
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait(timeout=10)
            configuration.unlink()  # it holds the token, as the upstream has to


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, "nginx did not start; see its error.log"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError("nginx did not listen in time")
