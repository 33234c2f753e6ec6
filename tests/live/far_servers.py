"""Servers that nobody here wrote, each as a process of its own until the end of the block."""

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.live.house import ROOT
from tests.live.nginx import program as nginx_program

START_S = 30.0
CERTIFICATES = ROOT / "packaging/demo/certificates.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def program(name: str) -> str:
    """Its path; AssertionError names what installs it."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    assert found is not None, f"{name} is missing; run packaging/setup-test-deps.sh"
    return found


def certificates(directory: Path) -> Path:
    """A CA and a server's certificate for localhost, made there."""
    directory.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-I", str(CERTIFICATES), str(directory)], check=True)
    return directory


@contextmanager
def started(
    command: Sequence[str],
    *,
    port: int,
    home: Path,
    environ: Mapping[str, str] | None = None,
    stop: int = signal.SIGTERM,
) -> Iterator[int]:
    """A server that listens on the port; its log lies in its directory."""
    with (
        (home / "server.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=home, env={**os.environ, **(environ or {})}) as server,
    ):
        try:
            _wait_for(port, server, home)
            yield port
        finally:
            server.send_signal(stop)
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()


@contextmanager
def nginx(home: Path, servers: str) -> Iterator[None]:
    """An nginx with these server blocks, the first of which listens on the port in its `listen` line."""
    home.mkdir(mode=0o700, exist_ok=True)
    paths = "".join(f"{name}_temp_path {home}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    own = "user root;" if os.geteuid() == 0 else ""  # what is served lies where others may not look
    configuration = home / "nginx.conf"
    configuration.write_text(
        f"daemon off; {own} worker_processes 1; error_log {home}/error.log; pid {home}/nginx.pid;"
        f"events {{ worker_connections 512; }} http {{ access_log off; {paths} sendfile on; {servers} }}",
        encoding="utf-8",
    )
    port = int(servers.partition("listen 127.0.0.1:")[2].partition(" ")[0])
    command = [nginx_program(), "-e", str(home / "error.log"), "-p", str(home), "-c", str(configuration)]
    with started(command, port=port, home=home, stop=signal.SIGQUIT):
        yield


@contextmanager
def prometheus(home: Path, *, users: Mapping[str, str]) -> Iterator[str]:
    """A Prometheus for these users (names to bcrypt hashes) alone; its origin."""
    home.mkdir(mode=0o700)
    port = free_port()
    (home / "prometheus.yml").write_text("global: {scrape_interval: 10s}\n", encoding="utf-8")
    (home / "web.yml").write_text(json.dumps({"basic_auth_users": dict(users)}), encoding="utf-8")
    command = [
        program("prometheus"),
        f"--config.file={home}/prometheus.yml",
        f"--storage.tsdb.path={home}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--web.config.file={home}/web.yml",
    ]
    with started(command, port=port, home=home):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def etcd(home: Path) -> Iterator[str]:
    """An etcd of one member; the origin of its JSON gateway."""
    home.mkdir(mode=0o700)
    port, peer = free_port(), free_port()
    urls = (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}")
    command = [
        program("etcd"), "--name", "one", "--data-dir", str(home / "data"),
        "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
        "--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1],
        "--initial-cluster", f"one={urls[1]}",
    ]  # fmt: skip
    with started(command, port=port, home=home):
        yield urls[0]
    shutil.rmtree(home)  # it knows its users' passwords and logs a token that it refuses; that is not ours to keep


@contextmanager
def moto(home: Path) -> Iterator[str]:
    """AWS as moto plays it, which checks signatures from the fourth request on; its origin."""
    home.mkdir(mode=0o700)
    port = free_port()
    code = "from moto.server import main; main()"
    command = [sys.executable, "-c", code, "-H", "127.0.0.1", "-p", str(port)]
    environ = {"INITIAL_NO_AUTH_ACTION_COUNT": "4", "AWS_DEFAULT_REGION": "eu-west-3"}
    with started(command, port=port, home=home, environ=environ):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def git(home: Path, repositories: Path, made: Path, *, user: str, password: str) -> Iterator[str]:
    """Git's own HTTP backend behind nginx, over TLS, for who knows the password; its origin."""
    home.mkdir(mode=0o700)
    digest = base64.b64encode(hashlib.sha1(password.encode(), usedforsecurity=False).digest()).decode()
    (home / "users").write_text(f"{user}:{{SHA}}{digest}\n", encoding="utf-8")
    exec_path = subprocess.run([program("git"), "--exec-path"], check=True, capture_output=True, text=True)
    port, socket_path = free_port(), home / "fcgi.sock"
    block = f"""server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {made}/server.pem; ssl_certificate_key {made}/server.key;
        auth_basic "git"; auth_basic_user_file {home}/users; client_max_body_size 64m;
        location / {{
            fastcgi_pass unix:{socket_path};
            fastcgi_param SCRIPT_FILENAME {exec_path.stdout.strip()}/git-http-backend;
            fastcgi_param GIT_PROJECT_ROOT {repositories};
            fastcgi_param GIT_HTTP_EXPORT_ALL "";
            fastcgi_param PATH_INFO $uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param REMOTE_USER $remote_user;
        }}
    }}"""
    command = [program("fcgiwrap"), "-s", f"unix:{socket_path}"]
    environ = {**os.environ, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    with subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL) as wrapper:
        try:
            with nginx(home, block):
                yield f"https://localhost:{port}"
        finally:
            wrapper.terminate()


def _wait_for(port: int, server: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, (home / "server.log").read_text(errors="replace")[-2000:]
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server did not listen in time")
