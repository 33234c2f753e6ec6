"""One agent served over its pipes: the list of tools, and each call as the daemon answers it.

The daemon is asked anew for what the policy lists, each time the agent asks for tools. Whatever fails in here is
answered in our own words: an exception's text might hold what the agent must not see.
"""

import logging
from importlib.metadata import version
from typing import Any

import anyio
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from broker.client.places import Places
from broker.mcp.answers import told
from broker.mcp.calls import Calls
from broker.mcp.pipes import pipes
from broker.mcp.tools import Arguments, Tool, declared, verbs

LOG = logging.getLogger("doorward.mcp")
LONGEST_LABEL = 80
INSTRUCTIONS = (
    "doorward performs HTTP and SSH actions with credentials that you never see, and asks a human where the policy says"
    " so. Decide by the fields of each answer: category says what is proven, retry what you may do, remote_effect what"
    " is known of the far side. After outcome_unknown or reconcile_required call reconcile, and never send the same"
    " change again. Only completeness.complete = true lets you conclude that something does not exist."
)

Context = ServerRequestContext[Any, Any]


async def serve(places: Places, agent_pid: int) -> None:
    """Serve the agent that started this process until it closes our input."""
    async with anyio.create_task_group() as tasks:
        agent = Agent(Calls(places, agent_pid=agent_pid, tasks=tasks))
        server: Server[Any] = Server(
            "doorward",
            version=version("doorward"),
            title="doorward",
            instructions=INSTRUCTIONS,
            on_list_tools=agent.tools,
            on_call_tool=agent.call,
        )
        async with pipes() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


class Agent:
    """What the one agent behind the pipes can ask for."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._verbs = {tool.name: tool for tool in verbs()}
        self._declared: dict[str, Tool] = {}

    async def tools(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self._named(context)
        await self._look_again(context)
        return types.ListToolsResult(tools=[_shown(tool) for tool in (*self._verbs.values(), *self._declared.values())])

    async def call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self._named(context)
        arguments: Arguments = params.arguments or {}
        tool = self._verbs.get(params.name) or self._declared.get(params.name)
        if tool is None:
            await self._look_again(context)
            tool = self._declared.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, "There is no such tool; tools/list names those that there are.")
        return told(await self._calls.perform(tool, arguments, context.session.report_progress), self._calls.notes())

    async def _look_again(self, context: Context) -> None:
        """What the policy lists now; without a daemon, or while it is locked, nothing is listed."""
        answer = await self._calls.perform(self._verbs["services"], {}, context.session.report_progress)
        self._declared = {tool.name: tool for tool in declared(answer, self._verbs)}

    def _named(self, context: Context) -> None:
        """What the agent calls itself is the session's label: shown to the human as what it says."""
        params = context.session.client_params
        if params is not None and params.client_info.name:
            self._calls.label = f"mcp: {params.client_info.name}"[:LONGEST_LABEL]


def _shown(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.schema),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=True,
        ),
    )
