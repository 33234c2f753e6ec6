"""`python -I -m broker.mcp` (`doorward mcp`): serve the agent that started this process, over its pipes."""

import os
import sys

from broker.client.places import Places

NOT_INSTALLED = 1


def main() -> int:
    """Serve until the agent closes our input; the exit code."""
    try:
        import anyio  # noqa: PLC0415 - whether it is installed is what has to be found out

        from broker.mcp.serving import serve  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as missing:
        sys.stderr.write(
            f"doorward: {missing.name} is not installed; it comes with the extra mcp: "
            "uv tool install '.[mcp]' in a clone of doorward\n"
        )
        return NOT_INSTALLED
    anyio.run(serve, Places(dict(os.environ)), os.getppid())
    return 0


if __name__ == "__main__":
    sys.exit(main())
