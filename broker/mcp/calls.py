"""Calls to the daemon, each in a thread: patience for a human with a sign of life, and honesty about cancelled ones.

What was asked of the daemon goes on when the agent loses interest: it is taken back where it still waits, and where it
does not, its end is kept and said with the next answer. Calls at once and kept notes are bounded.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc
import anyio.to_thread

from broker.client import endings
from broker.client.agent import ACTION_S, AgentClient
from broker.client.faults import Broken, NotRunning
from broker.client.places import Places
from broker.mcp.answers import finished_all_the_same
from broker.mcp.tools import DEFAULT_WAIT_S, Answer, ArgumentError, Arguments, Tool, wait_of

CALLS_AT_ONCE = 16
NOTES_MOST = 16
BEAT_S = 5.0  # between two signs of life while a human is waited for

Progress = Callable[[float, float, str], Awaitable[None]]
_GONE_ON = frozenset({"waiting", "still_running"})


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One call while it is under way."""

    tool: Tool
    arguments: Arguments
    ended: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None
    waiting_for: str | None = None  # the id of a request that waits for a human
    unwanted: bool = False

    def ask(self, client: AgentClient, arguments: Arguments) -> Answer:
        """What was cancelled while others were before it is not begun."""
        if self.unwanted:
            return endings.not_running("It was cancelled before it was sent.")
        return self.tool.ask(client, arguments)


class Calls:
    """Of one agent, over connections whose session is its own. Needs a task group that outlives each call."""

    def __init__(self, places: Places, *, agent_pid: int, tasks: anyio.abc.TaskGroup) -> None:
        self._places = places
        self._agent_pid = agent_pid
        self._tasks = tasks
        self._threads = anyio.CapacityLimiter(CALLS_AT_ONCE)
        self._notes: deque[str] = deque(maxlen=NOTES_MOST)
        self.label = "mcp"

    async def perform(self, tool: Tool, arguments: Arguments, progress: Progress) -> Answer:
        """The daemon's answer; an envelope also where none came. Cancelling it cancels no more than the waiting."""
        job = Job(tool=tool, arguments=arguments)
        self._tasks.start_soon(self._do, job)
        began = anyio.current_time()
        try:
            patience_s = wait_of(arguments, DEFAULT_WAIT_S)
        except ArgumentError:
            patience_s = DEFAULT_WAIT_S
        try:
            while not job.ended.is_set():
                with anyio.move_on_after(BEAT_S):
                    await job.ended.wait()
                if not job.ended.is_set():
                    words = "a human is asked: doorward ui" if job.waiting_for else "under way"
                    await progress(round(anyio.current_time() - began, 1), patience_s, words)
        except anyio.get_cancelled_exc_class():
            job.unwanted = True
            raise
        if job.answer is None:
            return endings.lost("the call ended without an answer")
        return job.answer

    def notes(self) -> list[str]:
        """What became of cancelled calls since the last time it was asked for."""
        said = list(self._notes)
        self._notes.clear()
        return said

    async def _do(self, job: Job) -> None:
        try:
            job.answer = await (self._waited_for(job) if job.tool.acts else self._once(job.tool.ask, job.arguments))
            if job.unwanted and job.tool.acts and job.answer.get("correlation_id"):
                self._notes.append(finished_all_the_same(job.answer))
        finally:
            job.ended.set()

    async def _waited_for(self, job: Job) -> Answer:
        """Ask without waiting, then wait for the human in short turns, so that it can be taken back meanwhile."""
        try:
            patience_s = wait_of(job.arguments, DEFAULT_WAIT_S)
        except ArgumentError as fault:
            return endings.misspelled(str(fault))
        answer = await self._once(job.ask, {**job.arguments, "wait_s": 0})
        ends = anyio.current_time() + patience_s
        while answer.get("category") == "approval_pending":
            job.waiting_for = str(answer.get("correlation_id"))
            left_s = ends - anyio.current_time()
            if job.unwanted:
                return await self._taken_back(job.waiting_for)
            if left_s <= 0:
                break
            answer = await self._again(job.waiting_for, min(BEAT_S / 2, left_s))
        return answer

    async def _taken_back(self, correlation_id: str) -> Answer:
        answer = await self._once(lambda client, _: client.withdraw(correlation_id), {})
        if answer.get("code") in _GONE_ON:
            return await self._again(correlation_id, ACTION_S)
        return answer

    async def _again(self, correlation_id: str, wait_s: float) -> Answer:
        return await self._once(lambda client, _: client.result(correlation_id, wait_s=wait_s), {})

    async def _once(self, ask: Callable[[AgentClient, Arguments], Answer], arguments: Arguments) -> Answer:
        return await anyio.to_thread.run_sync(
            self._asked, ask, arguments, limiter=self._threads, abandon_on_cancel=True
        )

    def _asked(self, ask: Callable[[AgentClient, Arguments], Answer], arguments: Arguments) -> Answer:
        """In a thread: ask on a connection of the agent's session; what goes wrong becomes an envelope."""
        request_id = arguments.get("request_id")
        known = request_id if isinstance(request_id, str) else None
        with AgentClient(self._places) as client:
            try:
                client.session(label=self.label, ancestor_pid=self._agent_pid, start=True)
            except (NotRunning, Broken) as fault:
                return endings.not_running(str(fault), request_id=known)
            try:
                return ask(client, arguments)
            except ArgumentError as fault:
                return endings.misspelled(str(fault))
            except ValueError:  # an id that is none never leaves this process
                return endings.misspelled("correlation_id: expected an id such as op_0193a1b2c3d4...")
            except NotRunning as fault:
                return endings.not_running(str(fault), request_id=known)
            except Broken as fault:
                return (endings.lost if fault.sent else endings.not_running)(str(fault), request_id=known)
