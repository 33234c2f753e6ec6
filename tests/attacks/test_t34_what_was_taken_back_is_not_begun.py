"""T34: a call that an agent cancelled before it was begun is not sent later, when it counts on that."""

import threading
from pathlib import Path
from typing import Any

import anyio

from broker.client.agent import AgentClient
from broker.client.places import Places
from broker.mcp.calls import CALLS_AT_ONCE, Calls
from broker.mcp.tools import Tool
from tests.fakes.unix_daemon import UnixDaemon

LIMIT_S = 30.0


class Far:
    """What is asked of the daemon: kept, and held up until it is let go."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()

    def ask(self, client: AgentClient, arguments: Any) -> dict[str, Any]:  # noqa: ARG002 - as tools are called
        self.asked.append(arguments["number"])
        self.begun.release()
        assert self.let_go.wait(LIMIT_S)
        return {"category": "success", "correlation_id": None}


async def silent(_: float, __: float, ___: str) -> None:
    """Progress is nobody's business here."""


async def test_a_call_that_waited_for_others_and_was_cancelled_is_not_sent(tmp_path: Path) -> None:
    places = Places({"DOORWARD_HOME": str(tmp_path)})
    far = Far()
    tool = Tool(name="buy", title="", description="", schema={}, ask=far.ask, acts=True)
    with UnixDaemon(Path(places.agent_socket)) as daemon:
        daemon.replies["POST /v1/session"] = (200, {"session": {"id": "se_1"}})
        async with anyio.create_task_group() as tasks:
            calls = Calls(places, agent_pid=1, tasks=tasks)
            for number in range(CALLS_AT_ONCE):
                tasks.start_soon(calls.perform, tool, {"number": number}, silent)
            for _ in range(CALLS_AT_ONCE):
                assert await anyio.to_thread.run_sync(lambda: far.begun.acquire(timeout=LIMIT_S))
            with anyio.move_on_after(0.05):
                await calls.perform(tool, {"number": -1}, silent)
            far.let_go.set()

    assert sorted(range(CALLS_AT_ONCE)) == sorted(far.asked)
    assert [] == calls.notes()
