"""Large answers and uploads through the real daemon, as the CLI asks for them: whole, scrubbed, in little memory."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.contract.exits import EXIT_CODES
from tests.fakes import upstream as up
from tests.fakes.upstream import Conversation
from tests.live.far_servers import certificates, free_port, nginx
from tests.live.house import House, open_house
from tests.live.rough_upstream import misbehaving

pytestmark = pytest.mark.live

LARGE_BYTES = 100 << 20
MEMORY_BYTES = 16 << 20
TOKEN = "canary-token-of-the-house"
POLICY = """
version = 1

[[rules]]
id = "free"
approval = "none"

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET", "POST", "PUT"]
"""


def cli(house: House, *words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", *words],
        env=house.environ,
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    house: House
    large: Path


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A daemon, and an nginx over TLS that serves a large file."""
    home = tmp_path_factory.mktemp("shop")
    made = certificates(home / "certificates")
    served = home / "served"
    served.mkdir()
    (served / "large.bin").write_bytes(os.urandom(1 << 20) * (LARGE_BYTES >> 20))
    (served / "small.bin").write_bytes(b"small")
    port = free_port()
    block = (
        f"server {{ listen 127.0.0.1:{port} ssl;"
        f" ssl_certificate {made}/server.pem; ssl_certificate_key {made}/server.key;"
        f" root {served}; client_max_body_size 64m; location /put {{ dav_methods PUT; create_full_put_path on; }} }}"
    )
    origin = f"https://localhost:{port}"
    policy = POLICY.format(origin=origin) + 'tls = { ca = "ca.pem" }\n'
    with nginx(home / "nginx", block), open_house(home / "h") as house:
        house.human.add_bearer("shop", TOKEN, origin)
        ca = house.places.policies / "ca.pem"
        house.places.policies.mkdir(parents=True, exist_ok=True, mode=0o700)
        ca.write_bytes((made / "ca.pem").read_bytes())
        ca.chmod(0o600)
        house.human.write_policy("shop.toml", policy)
        house.human.trust()
        yield Shop(house=house, large=served / "large.bin")


def memory_bytes(house: House, what: str) -> int:
    assert house.process is not None
    status = Path(f"/proc/{house.process.pid}/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0]) * 1024


def test_a_large_download_costs_little_memory(shop: Shop, tmp_path: Path) -> None:
    assert 0 == cli(shop.house, "http", "GET", "shop", "/small.bin", "--output", "-").returncode
    before = memory_bytes(shop.house, "VmHWM")

    told = cli(shop.house, "http", "GET", "shop", "/large.bin", "--output", str(tmp_path / "got"))

    assert (0, b"") == (told.returncode, told.stderr)
    assert digest(shop.large) == digest(tmp_path / "got")
    assert memory_bytes(shop.house, "VmHWM") - before <= MEMORY_BYTES


def test_a_slow_listener_makes_the_upstream_wait(shop: Shop) -> None:
    before = memory_bytes(shop.house, "VmHWM")
    with subprocess.Popen(
        [sys.executable, "-I", "-m", "broker.cli", "http", "GET", "shop", "/large.bin", "--output", "-"],
        env=shop.house.environ,
        stdout=subprocess.PIPE,
    ) as slow:
        assert slow.stdout is not None
        first = slow.stdout.read(1 << 16)
        time.sleep(1.5)  # the listener's slowness, not a wait for anything
        assert memory_bytes(shop.house, "VmHWM") - before <= MEMORY_BYTES
        rest = len(slow.stdout.read())
    assert (LARGE_BYTES, 0) == (len(first) + rest, slow.returncode)


def test_an_upload_goes_out_as_it_is_and_the_daemon_opens_nothing(shop: Shop, tmp_path: Path) -> None:
    content = os.urandom(9 << 20)
    (tmp_path / "up").write_bytes(content)

    told = cli(shop.house, "http", "PUT", "shop", "/put/x", "--upload", str(tmp_path / "up"), "--json")

    envelope = json.loads(told.stdout)
    assert (0, "success", 201) == (told.returncode, envelope["category"], envelope["http"]["status"])
    assert content == (shop.large.parent / "put" / "x").read_bytes()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


CUT = up.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 3000000\r\n\r\n" + b"x" * 1_000_000)


async def echo_over_borders(talk: Conversation) -> None:
    secret = TOKEN.encode()
    body = (b"." * 1000 + secret) * 700
    await talk.send(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode())
    for start in range(0, len(body), 997):
        await talk.send(body[start : start + 997])


def test_what_ends_early_is_not_left_behind_as_a_file(tmp_path: Path) -> None:
    with (
        misbehaving(
            behaviours={"/cut": CUT, "/echo": echo_over_borders, "/no": up.respond(status=404, body=b"none")}
        ) as bad,
        open_house(tmp_path / "h", origin=bad.origin, policy=POLICY) as house,
    ):
        target = tmp_path / "got"
        told = cli(house, "http", "GET", "shop", "/cut", "--output", str(target))
        assert (EXIT_CODES["malformed_response"], False) == (told.returncode, target.exists())
        assert b"truncated" in told.stderr
        assert [] == list(tmp_path.glob("*.part"))

        piped = cli(house, "http", "GET", "shop", "/cut", "--output", "-")
        assert EXIT_CODES["malformed_response"] == piped.returncode

        told = cli(house, "http", "GET", "shop", "/no", "--output", str(target))
        assert (EXIT_CODES["confirmed_failure"], False) == (told.returncode, target.exists())

        told = cli(house, "http", "GET", "shop", "/echo", "--output", str(target))
        got = target.read_bytes()
        assert (0, 700) == (told.returncode, got.count(b"[redacted]"))
        assert (b"." * 1000 + b"[redacted]") * 700 == got


def test_an_event_is_handed_on_when_it_comes(tmp_path: Path) -> None:
    first_was_read = threading.Event()

    async def events(talk: Conversation) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        one, two = b"data: first\n\n", b"data: " + TOKEN.encode() + b"\n\n"
        await talk.send(head + b"%x\r\n%s\r\n" % (len(one), one))
        await asyncio.to_thread(first_was_read.wait, 20)
        await talk.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(two), two))

    with (
        misbehaving(behaviours={"/events": events}) as upstream,
        open_house(tmp_path / "h", origin=upstream.origin, policy=POLICY) as house,
        subprocess.Popen(
            [sys.executable, "-I", "-m", "broker.cli", "http", "GET", "shop", "/events", "--output", "-"],
            env=house.environ,
            stdout=subprocess.PIPE,
        ) as listener,
    ):
        assert listener.stdout is not None
        assert b"data: first\n" == listener.stdout.readline()  # the upstream says no more before this
        first_was_read.set()
        assert b"\ndata: [redacted]\n\n" == listener.stdout.read()
