"""What the agent's verbs share: ask the daemon, show its answer, and say honestly what is known when none came."""

import os
import sys

from broker.cli.envelope_text import show
from broker.client import endings
from broker.client.agent import AgentClient
from broker.client.faults import Broken, NotRunning
from broker.client.places import Places

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.contract.wire import JsonValue

    Answer = dict[str, JsonValue]


def ask(
    question: "Callable[[AgentClient], Answer]",
    *,
    as_json: bool,
    again: str | None,
    text: "Callable[[Answer], tuple[list[str], int]] | None" = None,
    request_id: str | None = None,
    changes: bool = False,
) -> int:
    """Ask once and print. `text` renders an answer that is no envelope; `changes` marks what may act upstream."""
    with AgentClient(Places.find(os.environ)) as client:
        try:
            answer = question(client)
        except NotRunning as fault:
            return show(endings.not_running(str(fault), request_id=request_id), as_json=as_json)
        except Broken as fault:
            return show(_broken(fault, again, request_id, changes=changes), as_json=as_json)
        if text is None or "category" in answer:
            return show(answer, as_json=as_json, spelled=client.spelled)
        rendered, code = text(answer)
        if as_json:
            from broker.contract.neutralise import visible_json  # noqa: PLC0415 - loaded by now

            rendered = [visible_json(client.spelled.decode())]
    sys.stdout.write("\n".join(rendered) + "\n")
    return code


def _broken(fault: Broken, again: str | None, request_id: str | None, *, changes: bool) -> "Answer":
    if not fault.sent:
        return endings.not_running(str(fault), request_id=request_id)
    if changes:
        return endings.lost(str(fault), request_id=request_id, again=again)
    return endings.unanswered(str(fault), command=again or "doorward health")
