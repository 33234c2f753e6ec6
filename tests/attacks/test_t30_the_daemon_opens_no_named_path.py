"""T30: whatever path an agent names, and wherever, the daemon opens nothing there; files are read by the client."""

import errno
import os
from pathlib import Path

import pytest

from tests.fakes import upstream as up
from tests.fakes.upstream import Conversation
from tests.live.house import open_house
from tests.live.rough_upstream import misbehaving
from tests.live.test_http_stream import cli

pytestmark = pytest.mark.live

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


async def parrot(talk: Conversation) -> None:
    body = await talk.body()
    await talk.send(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)


def is_open_for_reading(fifo: Path) -> bool:
    """A pipe that nobody reads can't be opened for writing."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as refused:
        return refused.errno != errno.ENXIO
    return True


def test_a_path_in_any_field_stays_text(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    os.mkfifo(trap)
    target = tmp_path / "target"
    with (
        misbehaving(behaviours={"/x": up.respond(body=b"fine"), "/y": parrot}) as upstream,
        open_house(tmp_path / "h", origin=upstream.origin, policy=POLICY) as house,
        house.agent() as agent,
    ):
        for name in (f"{trap}", f"@{trap}", f"file://{trap}"):
            ask = {"service": "shop", "method": "POST", "path": "/x", "body": name, "reason": name}
            for more in (
                {}, {"headers": {"x-file": name}}, {"query": {"file": name}}, {"url": name}, {"service": name},
                {"operation": name}, {"body_b64": name}, {"request_id": name}, {"evidence": [name]}, {"path": name},
                {"output": name}, {"upload": name}, {"body": {"file": name}},
            ):  # fmt: skip
                for route in ("/v1/http", "/v1/http/stream"):
                    agent.ask("POST", route, {**ask, **more})
                    assert not is_open_for_reading(trap)
        for route in ("/v1/ssh/put", "/v1/ssh/get", "/v1/ssh"):
            agent.ask("POST", route, {"host": str(trap), "path": str(trap), "command": f"cat {trap}"})
            assert not is_open_for_reading(trap)

        content = tmp_path / "content"
        content.write_bytes(b"of the client")
        content.chmod(0o600)
        told = cli(house, "http", "POST", "shop", "/y", "--upload", str(content), "--output", str(target))

        assert 0 == told.returncode, told.stderr
        assert (b"of the client", os.getuid()) == (target.read_bytes(), target.stat().st_uid)
