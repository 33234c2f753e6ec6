"""T33: floods of connections, half requests, pending calls and odd bodies: bounded, told so, and others are served."""

import base64
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.live.house import House, until
from tests.live.plain_upstream import Upstream

pytestmark = pytest.mark.live

TIP = {"service": "open", "method": "POST", "path": "/tips", "body": {"cents": 5}}
CONNECTIONS = 1500
PENDING = 1000


def resident_kib(house: House) -> int:
    assert house.process is not None
    status = Path(f"/proc/{house.process.pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def descriptors(house: House) -> int:
    assert house.process is not None
    return len(list(Path(f"/proc/{house.process.pid}/fd").iterdir()))


def served(house: House) -> bool:
    """Whether an agent is served and a human is, meanwhile."""
    with house.agent() as agent:
        return bool(agent.act(**TIP)["category"] == "success" and house.human.ask("GET", "/v1/status")[0] == 200)


def flooded(house: House, path: str, first: bytes, count: int = CONNECTIONS) -> None:
    """Open so many connections that each send this and nothing more; see that others are served; let go."""
    before = resident_kib(house)
    with ExitStack() as held:
        for _ in range(count):
            link = held.enter_context(socket.socket(socket.AF_UNIX))
            link.settimeout(20)
            link.connect(path)
            if first:
                try:
                    link.sendall(first)
                except OSError:
                    continue  # turned away already
        assert served(house)
        assert resident_kib(house) - before < 120_000
    assert served(house)


@pytest.mark.parametrize(
    "first",
    [b"", b"POST /v1/http HTT", b"POST /v1/http HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{"],
    ids=["nothing", "half a line", "half a body"],
)
@pytest.mark.parametrize("face", ["agent", "control"])
def test_half_open_connections_keep_nobody_out(house: House, first: bytes, face: str) -> None:
    path = house.places.agent_socket if face == "agent" else house.places.control_socket
    before = descriptors(house)
    flooded(house, path, first)

    for _ in range(100):
        if descriptors(house) <= before + 8:
            break
        threading.Event().wait(0.1)
    assert descriptors(house) <= before + 8, "and nothing of it is left"


def test_a_thousand_pending_calls_of_one_agent_are_bounded_and_told(house: House) -> None:
    """They all wait for a human at once, each over a connection of its own."""
    before = resident_kib(house)
    with house.agent() as greedy:
        asking = [
            greedy.begin_act(
                service="shop", operation="orders.create", args={"name": f"n{number}"}, wait_s=0, reason="x" * 200
            )
            for number in range(PENDING)
        ]
        codes: Counter[str] = Counter()
        for number in asking:
            told = greedy.end(number)
            codes[told["value"]["code"] if "value" in told else told["fault"]] += 1
        assert served(house)
        cards = house.human.cards()

    assert {"waiting", "muted"} <= set(codes)
    assert codes["waiting"] == len(cards) <= 30
    assert set(codes) <= {"waiting", "muted", "local_limit", "overloaded"}
    assert PENDING == sum(codes.values())
    assert resident_kib(house) - before < 120_000


def test_calls_that_hang_upstream_leave_others_served(house: House, upstream: Upstream) -> None:
    upstream.answers.clear()
    with house.agent() as greedy:
        asking = [greedy.begin_act(**{**TIP, "path": f"/hang/{number}"}) for number in range(600)]
        early = until(lambda: [number for number in asking if greedy.answered(number)])
        codes = {greedy.end(number)["value"]["code"] for number in early}
        assert house.human.ask("GET", "/v1/status")[0] == 200
        with house.agent() as other:
            assert 200 == other.ask("GET", "/v1/session")["status"]
        upstream.answers.set()

    assert {"local_limit"} == codes, "who has as many under way as it may have is told at once"


ODD: dict[str, Callable[[], bytes]] = {
    "deep": lambda: b'{"args":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    "wide": lambda: json.dumps({"args": {str(number): 1 for number in range(60_000)}}).encode(),
    "brackets": lambda: b"[" * 1_000_000,
    "digits": lambda: b'{"args":{"a":' + b"9" * 900_000 + b"}}",
    "text": lambda: b'{"path":"' + b"a" * 1_000_000 + b'"}',
    "escapes": lambda: b'{"path":"' + b"\\u0041" * 160_000 + b'"}',
    "quotes": lambda: b'"' * 1_000_000,
    "too much": lambda: b" " * 5_000_000,
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_bodies_are_refused_in_time_and_typed(house: House, kind: str) -> None:

    body = ODD[kind]()
    with house.agent() as agent:
        for path, where in (("/v1/http", None), ("/v1/unlock", house.places.control_socket)):
            more: dict[str, Any] = {} if where is None else {"socket": where}
            told = agent.ask("POST", path, raw=base64.b64encode(body).decode(), **more)
            if where is None:
                assert told["status"] in {400, 413, 422}, told
                assert "invalid_request" == told["value"]["category"]
            else:
                assert told["status"] in {400, 403, 413, 422}, told
                assert told["value"]["error"]["code"] in {"unreadable", "schema", "limit", "agent_session"}
        assert "success" == agent.act(**TIP)["category"]
