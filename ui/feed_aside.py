"""Tasks that may wait for a human: a read for a doubt or a check can raise a card of its own, to be answered here.

Each runs in a thread with a connection of its own, so that no answer on a card waits behind it; a few at a time.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from broker.client.control import ControlClient
from broker.client.faults import ClientError, Refused
from broker.client.places import Places
from broker.contract.wire import JsonValue
from ui import served
from ui.list_messages import CheckCredential, CheckedNews
from ui.messages import Done, News, NotDone, ReadBack

AT_ONCE = 4


class Aside:
    def __init__(self, places: Places, tell: Callable[[News], object]) -> None:
        self._places = places
        self._tell = tell
        self._room = threading.BoundedSemaphore(AT_ONCE)

    def do(self, task: ReadBack | CheckCredential) -> None:
        """What comes of it is told as news."""
        if not self._room.acquire(blocking=False):
            self._tell(NotDone(task=task, code="", problem="that many reads are under way; look at what they wait for"))
            return
        threading.Thread(target=self._run, args=(task,), name="doorward-aside", daemon=True).start()

    def _run(self, task: ReadBack | CheckCredential) -> None:
        try:
            with ControlClient(self._places) as client:
                self._tell(Done(task=task, words=self._asked(client, task)))
        except Refused as refused:
            self._tell(NotDone(task=task, code=refused.code, problem=str(refused)))
        except ClientError as cause:
            self._tell(NotDone(task=task, code="", problem=str(cause)))
        finally:
            with suppress(ValueError):
                self._room.release()

    def _asked(self, client: ControlClient, task: ReadBack | CheckCredential) -> str:
        match task:
            case ReadBack(correlation_id=correlation_id):
                return _read_back_words(client.reconcile(correlation_id))
            case CheckCredential(name=name):
                answer = served.Fields(client.check_credential(name))
                verdict, message = answer.text("verdict") or "unknown", answer.text("message")
                at_ms = time.time_ns() // 1_000_000
                self._tell(CheckedNews(name=name, at_ms=at_ms, verdict=verdict, message=message))
                return f"checked: {verdict}. {message}"


def _read_back_words(envelope: dict[str, JsonValue]) -> str:
    result = served.Fields(envelope)
    category, code = result.text("category"), result.text("code")
    return f"read back: {category} / {code}" if code else f"read back: {category or 'no answer'}"
