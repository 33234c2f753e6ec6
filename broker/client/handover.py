"""Where a human's secrets are opened to be handed on: keys and values to the daemon, a passphrase to the screen.

Each function makes the one form that its receiver takes. Nothing here prints, stores or logs; for human verbs alone.
"""

import base64
import os

from broker.contract.wire import JsonValue
from broker.core.secret import Secret

_OPENSSH = b"openssh-key-v1\0"


def key_text(key: Secret) -> str:
    """A key as the control socket and the first start take it: standard base64."""
    return base64.b64encode(key.reveal()).decode("ascii")


def credential_value(
    kind: str,
    value: Secret,
    *,
    username: str | None = None,
    passphrase: Secret | None = None,
    certificate: str | None = None,
    access_key_id: str | None = None,
    session_token: Secret | None = None,
) -> dict[str, JsonValue]:
    """The value of a credential of this kind as the contract spells it. The value is UTF-8."""
    text = value.reveal().decode("utf-8")
    match kind:
        case "ssh_key":
            parts: dict[str, JsonValue] = {"private_key": text}
            if passphrase is not None:
                parts["passphrase"] = passphrase.reveal().decode("utf-8")
            return parts if certificate is None else parts | {"certificate": certificate}
        case "ssh_password":
            return {"password": text}
        case "sigv4":
            key: dict[str, JsonValue] = {"access_key_id": access_key_id, "secret_access_key": text}
            return key if session_token is None else key | {"session_token": session_token.reveal().decode("utf-8")}
        case "bearer":
            return {"token": text}
        case "basic":
            return {"password": text} if username is None else {"username": username, "password": text}
        case _:
            return {"value": text}


def needs_passphrase(private_key: Secret) -> bool:
    """Whether a private key is encrypted, as far as its form tells."""
    text = private_key.reveal()
    if b"ENCRYPTED" in text:
        return True
    body = text.partition(b"OPENSSH PRIVATE KEY-----")[2].partition(b"-----END")[0]
    try:
        content = base64.b64decode(b"".join(body.split())[:64])
    except ValueError:
        return False
    return content.startswith(_OPENSSH) and not content[len(_OPENSSH) + 4 :].startswith(b"none")


def halves(value: Secret) -> tuple[str, Secret] | None:
    """USERNAME:PASSWORD taken apart; None where it is not of that form."""
    username, colon, password = value.reveal().partition(b":")
    return (username.decode("utf-8"), Secret(password)) if colon and password else None


def aws_parts(value: Secret) -> tuple[str, Secret, Secret | None] | None:
    """ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN] taken apart; None where it is not of that form."""
    parts = value.reveal().split(b":", 2)
    if len(parts) < 2 or not all(parts):
        return None
    return parts[0].decode("utf-8"), Secret(parts[1]), Secret(parts[2]) if len(parts) > 2 else None


def write_line(descriptor: int, passphrase: Secret) -> None:
    """A passphrase for a child of ours that reads one line from its end of a pipe."""
    os.write(descriptor, passphrase.reveal() + b"\n")
