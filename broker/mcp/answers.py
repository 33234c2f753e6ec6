"""What a tool gives back: the envelope as structured content, and its text with what matters first.

Nothing is left out of the structured form. A partial result is no error, and its text begins with what is missing.
"""

import json

from mcp import types

from broker.client.envelope_lines import head, lines, missing
from broker.contract.neutralise import visible
from broker.contract.wire import JsonValue
from broker.mcp.tools import Answer


def told(answer: Answer, notes: list[str]) -> types.CallToolResult:
    """The result for an envelope, or for an answer that is none. `notes` are said after it."""
    text = _of_envelope(answer) if "category" in answer else _of_answer(answer)
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    content += [types.TextContent(type="text", text=note) for note in notes]
    return types.CallToolResult(content=content, structured_content=answer, is_error=answer.get("status") == "failure")


def finished_all_the_same(answer: Answer) -> str:
    """What is said of a call that was cancelled when nothing could be taken back any more."""
    return (
        f"A call that you cancelled could not be undone. {head(answer)}; id: {visible(str(answer['correlation_id']))}"
    )


def _of_envelope(answer: Answer) -> str:
    drawn = lines(answer, terminal=True)
    if answer.get("status") != "partial":
        return "\n".join(drawn)
    first = missing(answer)
    return "\n".join([*first, *(line for line in drawn if line not in first)])


def _of_answer(answer: dict[str, JsonValue]) -> str:
    return visible(json.dumps(answer, ensure_ascii=False, indent=2), multiline=True)
