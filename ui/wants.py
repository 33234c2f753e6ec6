"""Credentials that agents wait for: a card without a yes. It is provided by adding the credential, or declined.

The command that is shown is made of the policy's words alone; what the agent says stands in quotes beside it. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.client import credential_line
from broker.client.card_words import counted
from broker.client.credential_line import is_want, origins_of
from broker.contract.neutralise import hidden_count, quoted, visible
from broker.contract.wire import JsonValue
from ui.served import Fields, Waiting
from ui.wording import Part, dressed, part

EFFECT = "ADD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """One of them, whole."""

    id: str
    service: str
    credential: str
    agent: str
    purpose: str
    origins: tuple[str, ...]
    is_ssh: bool
    joined: int


def entries(listed: Sequence[JsonValue]) -> tuple[Waiting, ...]:
    """As the queue shows them."""
    return tuple(
        Waiting(
            id=item.text("id"),
            state=item.text("state"),
            created_at_ms=item.number("created_at_ms"),
            expires_at_ms=item.number("expires_at_ms"),
            effect=EFFECT,
            operation=f"credential.{item.text('credential')}",
            target=f"for service {item.text('service')}",
            agent=item.text("agent"),
            joined=item.number("joined"),
            ended_by=None,
        )
        for item in map(Fields, listed)
        if is_want(item.text("id"))
    )


def want(value: JsonValue) -> Want:
    item = Fields(value)
    return Want(
        id=item.text("id"),
        service=item.text("service"),
        credential=item.text("credential"),
        agent=item.text("agent"),
        purpose=item.text("purpose"),
        origins=origins_of(item.texts("origins")),
        is_ssh=item.flag("is_ssh"),
        joined=item.number("joined"),
    )


def command(one: Want) -> str:
    """The line that adds it."""
    return credential_line.command(one.credential, one.origins, is_ssh=one.is_ssh)


def parts(one: Want) -> list[Part]:
    hidden = hidden_count(one.purpose)
    warned = [f"! hidden characters in its words ({hidden})"] if hidden else []
    joined = [f"asked {counted(one.joined, 'time')} the same"] if one.joined > 1 else []
    bound = [*map(visible, one.origins), "as the policy in force has it; the agent chose no part of it"]
    to_add = (dressed(command(one)), dressed("(or another --kind), in a terminal of yours"))
    return [
        part("Who", [visible(one.agent), *joined, f"says: {quoted(one.purpose)}", *warned], group=1),
        part("For", bound, group=2),
        Part(label="To add", lines=to_add, group=3),
    ]
