"""Credentials that agents wait for, as `doorward approvals` shows them: what to add and how, or a no.

The command that is shown is made of the policy's words alone; what the agent says stands in quotes beside it.
"""

from argparse import Namespace

from broker.cli.output import number, show, table, text
from broker.cli.reach import desk, places, running
from broker.client import credential_line
from broker.client.card_words import clock_time, countdown
from broker.client.control import ControlClient
from broker.client.control_people import People
from broker.client.credential_line import origins_of
from broker.contract.neutralise import hidden_count, quoted, visible
from broker.contract.wire import JsonObject, JsonValue


def waiting(control: ControlClient) -> list[dict[str, JsonValue]]:
    return [want for want in People(control).wants() if want.get("state") == "pending"]


def listing(wants: list[dict[str, JsonValue]], now_ms: int) -> list[str]:
    if not wants:
        return []
    rows = [
        (want.get("id"), want.get("service"), want.get("credential"), want.get("agent"), _left(want, now_ms))
        for want in wants
    ]
    return ["", "credentials that agents wait for", *table(("Id", "Service", "Credential", "Agent", "Left"), rows)]


def show_one(options: Namespace, now_ms: int) -> int:
    with desk(options, transient=False, session=True) as reached:
        want = People(reached.control).want(options.id)
    show(want, lines_of(want, now_ms), as_json=options.json)
    return 0


def lines_of(want: JsonObject, now_ms: int) -> list[str]:
    purpose, state = str(want.get("purpose")), text(want, "state")
    expires_ms = number(want, "expires_at_ms")
    until = f", expires {clock_time(expires_ms)} (in {_left(want, now_ms)})" if state == "pending" else ""
    lines = [
        f"CREDENTIAL {text(want, 'credential')} for {text(want, 'service')}: {state}{until}",
        f"Who      {text(want, 'agent')}",
        f"         says: {quoted(purpose)}",
    ]
    if hidden_count(purpose):
        lines.append(f"         ! hidden characters in its words ({hidden_count(purpose)})")
    lines += [f"For      {visible(origin)}" for origin in _origins(want)]
    lines += [
        "         as the policy in force has it; the agent chose no part of it",
        f"To add   {command(want)}",
        "         (or another --kind; doorward credential add --help)",
        f"To deny  doorward approvals deny {text(want, 'id')} --reason TEXT",
    ]
    return lines


def command(want: JsonObject) -> str:
    """The line that adds it."""
    return credential_line.command(str(want.get("credential")), _origins(want), is_ssh=want.get("is_ssh") is True)


def decline(name: str, reason: str | None, *, as_json: bool) -> int:
    with running(places()) as control:
        answer = People(control).decline(name, reason)
    show(answer, [f"{text(answer, 'state')}: the agent is told that no credential is added"], as_json=as_json)
    return 0 if answer.get("state") == "declined" else 1


def _origins(want: JsonObject) -> tuple[str, ...]:
    found = want.get("origins")
    return origins_of(place for place in found if isinstance(place, str)) if isinstance(found, list) else ()


def _left(want: JsonObject, now_ms: int) -> str:
    return countdown(number(want, "expires_at_ms") - now_ms)
