"""Where a human's secrets are opened to be handed on: keys and values to the daemon, a passphrase to the screen.

Each function makes the one form that its receiver takes. Nothing here prints, stores or logs; for human verbs alone.
"""

import base64
import os

from broker.contract.wire import JsonValue
from broker.core.secret import Secret


def key_text(key: Secret) -> str:
    """A key as the control socket and the first start take it: standard base64."""
    return base64.b64encode(key.reveal()).decode("ascii")


def credential_value(kind: str, value: Secret, *, username: str | None = None) -> dict[str, JsonValue]:
    """The value of a credential of this kind as the contract spells it. The value is UTF-8."""
    text = value.reveal().decode("utf-8")
    match kind:
        case "bearer":
            return {"token": text}
        case "basic":
            return {"password": text} if username is None else {"username": username, "password": text}
        case _:
            return {"value": text}


def halves(value: Secret) -> tuple[str, Secret] | None:
    """USERNAME:PASSWORD taken apart; None where it is not of that form."""
    username, colon, password = value.reveal().partition(b":")
    return (username.decode("utf-8"), Secret(password)) if colon and password else None


def write_line(descriptor: int, passphrase: Secret) -> None:
    """A passphrase for a child of ours that reads one line from its end of a pipe."""
    os.write(descriptor, passphrase.reveal() + b"\n")
