"""What the agent's verbs share: ask the daemon, show its answer, and say honestly what is known when none came.

A request that still waits for a human when its time is over is taken back where nobody could fetch its result: a
process that `doorward run` did not start is a session of its own, and ends here.
"""

import os
import signal
import sys

from broker.cli.envelope_text import show
from broker.client import endings
from broker.client.agent import ACTION_S, AgentClient
from broker.client.faults import Broken, NotRunning
from broker.client.places import Places

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.contract.wire import JsonValue

    Answer = dict[str, JsonValue]

SILENT_S = 2.0
_SENT_MEANWHILE = frozenset({"waiting", "still_running"})


def ask(
    question: "Callable[[AgentClient], Answer]",
    *,
    as_json: bool,
    again: str | None,
    text: "Callable[[Answer], tuple[list[str], int]] | None" = None,
    request_id: str | None = None,
    changes: bool = False,
    ending: "Callable[[Answer], int] | None" = None,
) -> int:
    """Ask once and print. `text` renders an answer that is no envelope; `changes` marks what may act upstream.

    `ending` prints an envelope in another way, and gives the exit code.
    """

    def shown(answer: "Answer") -> int:
        return show(answer, as_json=as_json) if ending is None or as_json else ending(answer)

    with AgentClient(Places(os.environ), one_shot=True) as client:
        try:
            answer = _patiently(client, question) if changes else question(client)
        except NotRunning as fault:
            return shown(endings.not_running(str(fault), request_id=request_id))
        except Broken as fault:
            return shown(_broken(fault, again, request_id, changes=changes))
        if ending is not None and not as_json:
            return ending(answer)
        if text is None or "category" in answer:
            return show(answer, as_json=as_json, spelled=client.spelled)
        rendered, code = text(answer)
        if as_json:
            from broker.contract.neutralise import visible_json  # noqa: PLC0415 - loaded by now

            rendered = [visible_json(client.spelled.decode())]
    sys.stdout.write("\n".join(rendered) + "\n")
    return code


def _patiently(client: AgentClient, question: "Callable[[AgentClient], Answer]") -> "Answer":
    """Ask for what a human may have to allow. On a terminal a long silence is explained."""
    explains = sys.stderr.isatty()
    if explains:
        signal.signal(signal.SIGALRM, _explain_silence)
        signal.setitimer(signal.ITIMER_REAL, SILENT_S)
    try:
        answer = question(client)
    finally:
        if explains:
            signal.setitimer(signal.ITIMER_REAL, 0)
    if answer.get("category") != "approval_pending":
        return answer
    spelled = client.spelled
    try:
        settled = _taken_back(client, answer)
    except (NotRunning, Broken):
        settled = answer  # what the daemon said before it went
    if settled is answer:
        client.spelled = spelled
    return settled


def _taken_back(client: AgentClient, waiting: "Answer") -> "Answer":
    """What became of a request that waits: itself under `doorward run`, else its end, for nobody could ask later."""
    if client.session().get("span") != "connection":
        return waiting
    name = str(waiting.get("correlation_id"))
    answer = client.withdraw(name)
    if answer.get("code") in _SENT_MEANWHILE:
        return client.result(name, wait_s=ACTION_S)
    if answer.get("category") == "approval_timeout":
        print("doorward: nobody answered in time; under `doorward run` it would still wait", file=sys.stderr)
    return answer


def _explain_silence(*_: object) -> None:
    print("doorward: no answer yet; a human may have to allow it: doorward ui", file=sys.stderr, flush=True)


def _broken(fault: Broken, again: str | None, request_id: str | None, *, changes: bool) -> "Answer":
    if not fault.sent:
        return endings.not_running(str(fault), request_id=request_id)
    if changes:
        return endings.lost(str(fault), request_id=request_id, again=again)
    return endings.unanswered(str(fault), command=again or "doorward health")
