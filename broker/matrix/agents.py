"""Agents that act by the contract: deterministic scripts in a process of their own, over the client library.

They look at typed fields alone. None sends a change again whose outcome is unknown, none acts on a list that is not
complete, but the hasty one, which is there to be refused. `python -I -m broker.matrix.agents` reads one order on
standard input and writes one step a line.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from broker.client.agent import AgentClient
from broker.client.faults import Broken, NotRunning
from broker.client.places import Places
from broker.contract.wire import JsonObject, JsonValue, dump, parse_object
from broker.matrix.transcript import NO_ANSWER, Step, decide

LONGEST_WALK = 20
WALKS = "cur_"  # how the cursors of /v1/collect begin
LONGEST_WAIT_S = 2
DAEMON_BACK_S = 40.0
LOOKED_UP = {"success": "found", "confirmed_failure": "absent"}
ORDER_BYTES = 8 << 20


class Actor:
    """Asks, and keeps what came of it."""

    def __init__(self, client: AgentClient, order: JsonObject, out: TextIO) -> None:
        uses = order["uses"]
        self.main: JsonObject = _object(order["main"])
        self.uses: Mapping[str, JsonValue] = uses if isinstance(uses, Mapping) else {}
        self._client = client
        self.number = int(str(order["process"]))
        self._out = out

    def role(self, role: str) -> JsonObject | None:
        told = self.uses.get(role)
        return told if isinstance(told, Mapping) else None

    def do(self, deed: str, ask: JsonObject, **more: JsonValue) -> Step:
        """One request; the step that came of it."""
        verb, fields = str(ask["verb"]), {**_object(ask["fields"]), **more}
        return self._keep(deed, verb, fields, lambda: self._asked(verb, fields))

    def look_up(self, deed: str, about: Step) -> Step:
        """What became of a change: its declared read-back."""
        of = about.told("previous_correlation_id") if about.outcome == "reconcile_required" else about.correlation_id
        fields: JsonObject = {"correlation_id": of}
        return self._keep(deed, "reconcile", fields, lambda: self._client.reconcile(str(of)))

    def once_more(self, deed: str, ask: JsonObject) -> Step:
        """The same under another request id, for under its own the recorded answer would come."""
        own = _object(ask["fields"]).get("request_id")
        return self.do(deed, ask, **({} if own is None else {"request_id": f"{own}-again"}))

    def asked_again(self, ask: JsonObject) -> Step:
        """After the daemon was gone: the very same under its request id, once it is back."""
        deadline = time.monotonic() + DAEMON_BACK_S
        while True:
            self._client.close()
            try:
                if self._client.health().get("vault") == "ready":  # until then there is no answer but that one
                    break
            except (NotRunning, Broken, OSError):
                pass
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        return self.do("ask_again_by_request_id", ask)

    def _asked(self, verb: str, fields: JsonObject) -> JsonObject:
        match verb:
            case "collect":
                return self._client.collect(fields)
            case "ssh":
                return self._client.ssh(fields)
            case _:
                return self._client.http(fields)

    def _keep(self, deed: str, verb: str, fields: JsonObject, ask: Callable[[], JsonObject]) -> Step:
        try:
            envelope: JsonObject | None = ask()
        except (Broken, NotRunning, OSError):
            envelope = None
        category = NO_ANSWER if envelope is None else str(envelope.get("category"))
        if verb == "reconcile" and category != NO_ANSWER:
            category = LOOKED_UP.get(category, "unknown")
        step = Step(
            deed=deed,
            outcome=category,
            process=self.number,
            verb=verb,
            request=fields,
            envelope=envelope,
            decision=decide(envelope),
        )
        self._out.write(dump(step.to_json()).decode() + "\n")
        self._out.flush()
        return step


def act(actor: Actor) -> None:
    """The request, and the one step that its answer leads to."""
    step = actor.do("act", actor.main)
    if step.outcome == NO_ANSWER:
        step = actor.asked_again(actor.main)
    match step.decision:
        case "retry":
            actor.once_more("act", actor.main)
        case "wait" if _seconds(step) <= LONGEST_WAIT_S:
            time.sleep(_seconds(step))
            actor.once_more("act", actor.main)
        case "reconcile":
            actor.look_up("lookup_by_request_id", step)
        case "continue_search":
            _walk(actor, actor.main, step)
        case _:
            pass


def create_read_annotate(actor: Actor) -> None:
    """Make something, read it, leave a note at it; where it is not known to be there, look it up first."""
    step = actor.do("create", actor.main)
    if step.outcome == NO_ANSWER:
        step = actor.asked_again(actor.main)
    is_there = step.decision == "proceed"
    if step.decision == "reconcile":
        is_there = actor.look_up("lookup_by_request_id", step).outcome == "found"
    elif step.decision == "retry":
        is_there = actor.once_more("create", actor.main).decision == "proceed"
    elif is_there and (read := actor.role("read")) is not None:
        is_there = actor.do("read", read).decision == "proceed"
    note = actor.role("annotate")
    if is_there and note is not None:
        actor.do("attach_note", note)


def delete_by_inventory(actor: Actor) -> None:
    """Delete only what a whole list says is there to be deleted."""
    step = _walk(actor, actor.main, actor.do("search", actor.main))
    delete = actor.role("delete")
    if delete is not None and _is_whole(step):
        actor.do("delete", delete, **_evidence(step))


def delete_by_inventory_hasty(actor: Actor) -> None:
    """Take the first page for the whole; somebody has to stop it."""
    step = actor.do("search", actor.main)
    delete = actor.role("delete")
    if delete is not None:
        actor.do("delete", delete, **_evidence(step))


def restart_and_verify(actor: Actor) -> None:
    """Restart once, then look whether it came up; never restart again because nobody answered."""
    step = actor.do("restart", actor.main)
    if step.outcome == NO_ANSWER:
        step = actor.asked_again(actor.main)
    is_done = step.decision == "proceed"
    if step.decision in {"reconcile", "wait"}:
        found = actor.look_up("inspect", step)
        for _ in range(LONGEST_WALK):
            if found.decision != "wait":
                break
            time.sleep(min(_seconds(found), LONGEST_WAIT_S))
            found = actor.look_up("inspect", step)
        is_done = found.outcome == "found"
    verify = actor.role("verify")
    if is_done and verify is not None:
        actor.do("verify", verify)


def approved_denied_after_exit(actor: Actor) -> None:
    """One call and another in the first process; in the next one the first call again, which nobody has approved."""
    if actor.number:
        actor.do("ask_after_exit", actor.main)
        return
    actor.do("ask", actor.main)
    other = actor.role("other")
    if other is not None:
        actor.do("ask_other", other)


def in_turn(actor: Actor) -> None:
    """The request, and after it that of every role in turn, whatever comes of them; a later process does so again."""
    actor.do("ask_after_exit" if actor.number else "act", actor.main)
    for role in actor.uses:
        ask = actor.role(role)
        if ask is not None and role != "warm_up":
            actor.do(role, ask)


SCRIPTS: Mapping[str, Callable[[Actor], None]] = {
    "act": act,
    "create_read_annotate": create_read_annotate,
    "create_then_read": create_read_annotate,
    "delete_by_inventory": delete_by_inventory,
    "delete_by_inventory_hasty": delete_by_inventory_hasty,
    "restart_and_verify": restart_and_verify,
    "approved_denied_after_exit": approved_denied_after_exit,
    "in_turn": in_turn,
}


def main() -> int:
    order = parse_object(sys.stdin.buffer.read(ORDER_BYTES), max_bytes=ORDER_BYTES)
    script = SCRIPTS[str(order["script"])]
    with AgentClient(Places(dict(os.environ))) as client:
        actor = Actor(client, order, sys.stdout)
        if (warm_up := actor.role("warm_up")) is not None:
            actor.do("warm_up", warm_up)
        script(actor)
    return 0


def _walk(actor: Actor, ask: JsonObject, step: Step) -> Step:
    """Go on where the list says that it goes on; the last step."""
    fields = {key: told for key, told in _object(ask["fields"]).items() if key != "deadline"}
    for _ in range(LONGEST_WALK):
        cursor = _completeness(step).get("next_cursor")
        if step.decision != "continue_search" or cursor is None:
            break
        step = actor.do("continue_search", {"verb": "collect", "fields": fields}, **_further(cursor))
    return step


def _further(cursor: JsonValue) -> dict[str, JsonValue]:
    """A walk goes on at its own cursor; one page of an upstream's is walked from its beginning."""
    return {"cursor": cursor} if isinstance(cursor, str) and cursor.startswith(WALKS) else {}


def _is_whole(step: Step) -> bool:
    return step.decision == "proceed" and _completeness(step).get("complete") is True


def _completeness(step: Step) -> JsonObject:
    return _object(step.told("completeness"))


def _evidence(step: Step) -> dict[str, JsonValue]:
    found = _object(step.told("evidence")).get("id")
    return {} if found is None else {"evidence": [found]}


def _seconds(step: Step) -> float:
    told = step.told("retry_after_s")
    return float(told) if isinstance(told, int | float) else 1.0


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


if __name__ == "__main__":
    sys.exit(main())
