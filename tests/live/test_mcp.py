"""The MCP server as an agent's client runs it: over pipes, before a real daemon and a human who answers cards."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters

from tests.live.house import House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

SERVER = ("-I", "-m", "broker.mcp")
# The agent is a process of its own, which the human's is not: it starts the server and hands its pipes on.
AGENT = ("-I", "-c", f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, *{SERVER!r}]))")
POLICY = """
version = 1
[[rules]]
id = "reads"
effects = ["read"]
approval = "none"
[[rules]]
id = "writes"
effects = ["write"]
approval = "per_call"
[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET"]
[services.shop.operations."orders.list"]
request = {{ method = "GET", path = "/orders", query = ["state"] }}
effect = "read"
response = {{ media = "json" }}
mcp = {{ description = "The shop's orders." }}
[services.shop.operations."orders.create"]
request = {{ method = "POST", path = "/orders", body = ["name"], required = ["name"] }}
effect = "write"
success = {{ statuses = [201] }}
mcp = {{ name = "new_order" }}
[services.shop.operations."orders.refund"]
request = {{ method = "POST", path = "/refunds", body = ["name"] }}
effect = "write"
mcp = {{}}
[services.shop.operations."orders.hidden"]
request = {{ method = "GET", path = "/hidden" }}
effect = "read"
mcp = {{ expose = false }}
"""
VERBS = [
    "http", "call", "collect", "ssh", "reconcile", "result", "services", "explain", "request_credential",
]  # fmt: skip
VERSIONS = ["2024-11-05", "2025-06-18", "2025-11-25"]


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("h"), origin=upstream.origin, policy=POLICY) as house:
        yield house


@asynccontextmanager
async def client_of(house: House, mode: Any = "auto") -> AsyncIterator[Client]:
    server = StdioServerParameters(command=sys.executable, args=list(AGENT), env=dict(house.environ))
    async with Client(server, mode=mode) as client:
        yield client


def text_of(told: Any) -> str:
    return "\n".join(part.text for part in told.content)


class Lines:
    """The server's process and its lines, written and read by hand."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *AGENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=30)

    def say(self, line: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        self.process.stdin.flush()

    def hear(self, name: object) -> dict[str, Any]:
        """The answer of this id; what comes before it is passed over."""
        assert self.process.stdout is not None
        while True:
            told: dict[str, Any] = json.loads(self.process.stdout.readline())
            if "method" not in told and told["id"] == name:
                return told

    def greet(self, version: str) -> dict[str, Any]:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "by-hand", "version": "1"}}
        self.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        told = self.hear(0)
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return told

    def call(self, number: int, name: str, **arguments: Any) -> dict[str, Any]:
        self.say(
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        )
        result: dict[str, Any] = self.hear(number)["result"]
        return result


async def test_the_newest_client_finds_every_verb_and_what_the_policy_lists(house: House) -> None:
    async with client_of(house) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}

        assert "2026-07-28" == client.protocol_version
    assert [*VERBS, "new_order", "shop_orders_list", "shop_orders_refund"] == list(listed)
    assert "The shop's orders." == listed["shop_orders_list"].description
    assert ["name"] == listed["new_order"].input_schema["required"]
    reads, writes = listed["shop_orders_list"].annotations, listed["new_order"].annotations
    assert reads is not None
    assert writes is not None
    assert (True, False) == (reads.read_only_hint, writes.read_only_hint)


@pytest.mark.parametrize("version", VERSIONS)
def test_older_clients_are_served_by_hand_written_lines(house: House, upstream: Upstream, version: str) -> None:
    with Lines(dict(house.environ)) as lines:
        assert version == lines.greet(version)["result"]["protocolVersion"]
        seen = len(upstream.requests)
        told = lines.call(1, "call", service="shop", operation="orders.list", args={"state": "open"})

        assert ["GET /orders?state=open"] == upstream.requests[seen:]
    assert not told.get("isError")
    first = told["content"][0]["text"].splitlines()[0]
    assert first.startswith("! COMPLETENESS_UNVERIFIED")  # a list that does not say when it is whole
    if version != "2024-11-05":  # which knows no structured content
        assert ("partial", False) == (
            told["structuredContent"]["status"], told["structuredContent"]["completeness"]["complete"],
        )  # fmt: skip


def test_lines_that_are_no_json_and_no_message_are_told_apart(house: House) -> None:
    with Lines(dict(house.environ)) as lines:
        lines.say(b"{not json")
        parse = lines.hear(None)
        lines.say(b'{"jsonrpc":"2.0","id":7}')
        shape = lines.hear(7)
        lines.say(b'{"jsonrpc":"2.0","id":8,"id":9,"method":"ping"}')
        twice = lines.hear(None)
        lines.say(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"a" * (5 << 20) + b'"}}')
        large = lines.hear(None)
        lines.greet("2025-11-25")
        lines.say({"jsonrpc": "2.0", "id": 11, "method": "no/such"})
        unknown = lines.hear(11)
        lines.say({"jsonrpc": "2.0", "id": 12, "method": "tools/call", "params": {"name": "no such", "arguments": {}}})
        tool = lines.hear(12)

    assert [-32700, -32600, -32700, -32700, -32601, -32602] == [
        told["error"]["code"] for told in (parse, shape, twice, large, unknown, tool)
    ]
    assert "Traceback" not in json.dumps([parse, shape, twice, large, unknown, tool])


def test_the_session_is_the_client_s_own(house: House) -> None:
    with Lines(dict(house.environ)) as lines:
        lines.greet("2025-11-25")
        lines.call(1, "http", service="shop", method="GET", path="/orders")
        sessions = {row["pid"]: row for row in house.human.client.sessions()}

        assert "mcp: by-hand" == sessions[lines.process.pid]["label"]


async def test_progress_is_told_while_a_card_waits_and_a_yes_ends_it(house: House, upstream: Upstream) -> None:
    beats: list[tuple[float, str | None]] = []
    heard = anyio.Event()

    async def told_of(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - as the client calls it
        beats.append((progress, message))
        heard.set()

    results: list[Any] = []
    async with client_of(house) as client, anyio.create_task_group() as tasks:

        async def order() -> None:
            results.append(await client.call_tool("new_order", {"name": "a"}, progress_callback=told_of))

        tasks.start_soon(order)
        card = await anyio.to_thread.run_sync(house.human.wait_for_card)
        with anyio.fail_after(60):
            await heard.wait()
        orders = len(upstream.orders)
        await anyio.to_thread.run_sync(house.human.approve, card)
    assert "a human is asked: doorward ui" in {message for _, message in beats}
    assert orders + 1 == len(upstream.orders)
    (told,) = results
    assert ("success", False) == (told.structured_content["category"], told.is_error)


async def test_a_denial_is_an_error_with_the_humans_reason(house: House, upstream: Upstream) -> None:
    orders, results = len(upstream.orders), []
    async with client_of(house) as client, anyio.create_task_group() as tasks:

        async def order() -> None:
            results.append(await client.call_tool("shop_orders_refund", {"name": "no"}))

        tasks.start_soon(order)
        card = await anyio.to_thread.run_sync(house.human.wait_for_card)
        house.human.deny(card, "Wrong shop.")
    (told,) = results
    assert told.is_error
    assert "call_denied" == told.structured_content["category"]
    assert "Wrong shop." in text_of(told)
    assert orders == len(upstream.orders)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_waits_when_it_is_cancelled_is_taken_back(house: House, upstream: Upstream, mode: str) -> None:
    orders = len(upstream.orders)
    async with client_of(house, mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "new_order", {"name": f"never {mode}"})
            await anyio.to_thread.run_sync(house.human.wait_for_card)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(lambda: until(lambda: not house.human.cards()))
    assert orders == len(upstream.orders)


async def test_what_was_sent_when_it_is_cancelled_is_said_to_go_on(house: House, upstream: Upstream) -> None:
    async with client_of(house) as client:
        upstream.answers.clear()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "new_order", {"name": "too late"})
                card = await anyio.to_thread.run_sync(house.human.wait_for_card)
                while upstream.arrived.acquire(blocking=False):
                    pass
                await anyio.to_thread.run_sync(house.human.approve, card)
                await anyio.to_thread.run_sync(upstream.wait_for_request)
                tasks.cancel_scope.cancel()
        finally:
            upstream.answers.set()
        texts: list[str] = []
        with anyio.fail_after(60):
            while not any("could not be undone" in text for text in texts):
                told = await client.call_tool("services", {})
                texts = [part.text for part in told.content if part.type == "text"]
                await anyio.sleep(0.05)
        said = next(text for text in texts if "could not be undone" in text)
    assert "success" in said
    assert "op_" in said


async def test_without_a_daemon_every_call_says_so_and_nothing_breaks(tmp_path: Path) -> None:
    environ = {**os.environ, "DOORWARD_HOME": str(tmp_path)}
    server = StdioServerParameters(command=sys.executable, args=list(AGENT), env=environ)
    async with Client(server) as client:
        assert VERBS == [tool.name for tool in (await client.list_tools()).tools]
        told = await client.call_tool("http", {"service": "shop", "method": "GET", "path": "/"})
        with pytest.raises(MCPError):
            await client.call_tool("nothing", {})
    assert told.is_error
    assert ("broker_unavailable", "none") == (
        told.structured_content["category"], told.structured_content["remote_effect"],
    )  # fmt: skip


async def test_arguments_that_are_wrong_are_told_one_by_one(house: House) -> None:
    async with client_of(house) as client:
        wrong = await client.call_tool("http", {"method": "get it", "service": 5})
        outside = await client.call_tool("result", {"correlation_id": "../x"})
        endless = await client.call_tool("new_order", {"name": "x", "wait_s": 1e9})

    for told in (wrong, outside, endless):
        assert ("invalid_request", True) == (told.structured_content["category"], told.is_error)
    assert "wait_s" in text_of(endless)


def test_nothing_is_left_running_when_the_client_goes(house: House) -> None:
    lines = Lines(dict(house.environ))
    lines.greet("2025-11-25")
    waits = threading.Thread(target=lines.process.wait, daemon=True)
    waits.start()
    lines.process.communicate(timeout=30)

    assert 0 == lines.process.returncode
