"""`doorward mcp`: become the MCP server, in this very process, so that the agent that started us stays our parent."""

import os
import sys

from broker.cli.arguments import Parser

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from typing import Never

_ABOUT = """Serve the agent that started this, over its pipes: its client runs this line and needs nothing else.

    claude mcp add doorward -- doorward mcp

Needs the extra mcp: uv tool install '.[mcp]' in a clone of doorward."""


def run(noun: str, arguments: list[str]) -> "Never":
    Parser(f"doorward {noun}", _ABOUT).parse_args(arguments)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-I", "-m", "broker.mcp"])  # noqa: S606 - our own program, no shell
