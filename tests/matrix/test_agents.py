"""Agents go where the typed fields point, and never where they do not."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from broker.client.agent import AgentClient
from broker.client.faults import NotRunning
from broker.client.places import Places
from broker.matrix import agents
from broker.matrix.transcript import decide, step_of

Answer = dict[str, Any] | None


def envelope(category: str, action: str, **more: Any) -> dict[str, Any]:
    return {
        "ok": category == "success",
        "category": category,
        "next": {"action": action},
        "correlation_id": "op_1",
        "retry_after_s": None,
        "completeness": None,
        **more,
    }


class Told(AgentClient):
    """Answers from a list; keeps what was asked."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(Places({"DOORWARD_HOME": "/nowhere"}))
        self._answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def _next(self, verb: str, request: Any) -> dict[str, Any]:
        self.asked.append((verb, dict(request)))
        answer = self._answers.pop(0)
        if answer is None:
            raise NotRunning("nobody")
        return answer

    @override
    def http(self, request: Any) -> dict[str, Any]:
        return self._next("http", request)

    @override
    def collect(self, request: Any) -> dict[str, Any]:
        return self._next("collect", request)

    @override
    def reconcile(self, correlation_id: str, *, wait_s: float = 0) -> dict[str, Any]:
        return self._next("reconcile", {"of": correlation_id, "wait_s": wait_s})

    @override
    def health(self) -> dict[str, Any]:
        return {"vault": "ready"}


def played(
    script: Callable[[agents.Actor], None], client: Told, *, process: int = 0, **uses: Any
) -> list[tuple[str, str]]:
    out = io.StringIO()
    main: dict[str, Any] = {"verb": "http", "fields": {"path": "/x", "request_id": "r1"}}
    roles = {role: {"verb": "http", "fields": fields} for role, fields in uses.items()}
    script(agents.Actor(client, {"main": main, "uses": roles, "process": process}, out))
    steps = [step_of(json.loads(line)) for line in out.getvalue().splitlines()]
    return [(step.deed, step.outcome) for step in steps]


DONE = envelope("success", "none")
UNKNOWN = envelope("outcome_unknown", "reconcile")
FOUND = envelope("success", "none")
ABSENT = envelope("confirmed_failure", "none")
OPEN = envelope("partial", "continue", completeness={"complete": False, "next_cursor": "cur_1"})
WHOLE = envelope("success", "none", completeness={"complete": True, "next_cursor": None}, evidence={"id": "ev_1"})


@pytest.mark.parametrize(
    ("action", "decision"),
    [("retry", "retry"), ("wait", "wait"), ("continue", "continue_search"), ("none", "stop"), ("sing", "stop")],
)
def test_a_decision_is_made_of_the_action_and_an_unknown_one_means_to_stop(action: str, decision: str) -> None:
    assert decision == decide(envelope("confirmed_failure", action, message="please retry at once"))


def test_success_goes_on_and_no_answer_is_a_doubt() -> None:
    assert ("proceed", "reconcile") == (decide(DONE), decide(None))


def test_what_may_be_repeated_is_repeated_once_under_another_request_id() -> None:
    client = Told(envelope("local_failure", "retry"), envelope("local_failure", "retry"))

    assert [("act", "local_failure")] * 2 == played(agents.act, client)
    assert ["r1", "r1-again"] == [fields["request_id"] for _, fields in client.asked]


@pytest.mark.parametrize("action", ["none", "ask_human", "fix_request", "collect"])
def test_what_may_not_be_repeated_ends(action: str) -> None:
    assert [("act", "confirmed_failure")] == played(agents.act, Told(envelope("confirmed_failure", action)))


def test_a_long_wait_is_left_to_others() -> None:
    assert [("act", "rate_limited")] == played(agents.act, Told(envelope("rate_limited", "wait", retry_after_s=30)))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (FOUND, [("lookup_by_request_id", "found"), ("attach_note", "success")]),
        (ABSENT, [("lookup_by_request_id", "absent")]),
        (UNKNOWN, [("lookup_by_request_id", "unknown")]),
    ],
)
def test_a_create_in_doubt_is_looked_up_and_gets_its_note_only_if_it_is_there(
    found: Answer, expected: list[tuple[str, str]]
) -> None:
    client = Told(UNKNOWN, found, DONE)

    assert [("create", "outcome_unknown"), *expected] == played(agents.create_read_annotate, client, annotate={})


def test_a_create_whose_daemon_died_is_asked_for_again_under_its_request_id() -> None:
    client = Told(None, envelope("reconcile_required", "reconcile", previous_correlation_id="op_0"), FOUND)

    assert [
        ("create", "no_answer"),
        ("ask_again_by_request_id", "reconcile_required"),
        ("lookup_by_request_id", "found"),
    ] == played(agents.create_read_annotate, client)
    assert "op_0" == client.asked[2][1]["of"]


def test_nothing_is_deleted_on_the_strength_of_a_list_that_goes_on() -> None:
    stuck = envelope("partial", "none", completeness={"complete": False, "next_cursor": None})
    client = Told(OPEN, stuck)

    assert [("search", "partial"), ("continue_search", "partial")] == played(
        agents.delete_by_inventory, client, delete={"path": "/y"}
    )
    assert "cur_1" == client.asked[1][1]["cursor"]


def test_a_whole_list_is_named_as_evidence() -> None:
    client = Told(OPEN, WHOLE, DONE)

    assert ("delete", "success") == played(agents.delete_by_inventory, client, delete={"path": "/y"})[-1]
    assert ["ev_1"] == client.asked[-1][1]["evidence"]


def test_the_hasty_one_deletes_after_the_first_page() -> None:
    client = Told(OPEN, envelope("evidence_required", "collect"))

    assert [("search", "partial"), ("delete", "evidence_required")] == played(
        agents.delete_by_inventory_hasty, client, delete={"path": "/y"}
    )


def test_a_restart_in_doubt_is_inspected_and_not_repeated() -> None:
    client = Told(UNKNOWN, UNKNOWN)

    assert [("restart", "outcome_unknown"), ("inspect", "unknown")] == played(
        agents.restart_and_verify, client, verify={"path": "/z"}
    )


def test_a_later_process_asks_for_the_first_call_alone() -> None:
    assert [("ask_after_exit", "success")] == played(
        agents.approved_denied_after_exit, Told(DONE), process=1, other={"path": "/o"}
    )
