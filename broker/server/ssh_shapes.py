"""Checked SSH documents as values, and the values of uploads that come in frames."""

from collections.abc import Mapping

from broker.contract.wire import JsonObject
from broker.core.asks import Asked
from broker.core.ssh.frozen import SshDeadlines
from broker.core.ssh.resolve import PutAsk, SshAsk
from broker.server.collect_routes import collect_ask
from broker.server.shapes import decoded, http_ask, text_or_none


def ssh_ask(document: JsonObject) -> SshAsk:
    """A checked ssh-request document as a value. Raises ShapeError."""
    argv, args = document.get("argv"), document.get("args")
    return SshAsk(
        host=str(document["host"]),
        command=_octets(document, "command"),
        argv=tuple(map(str, argv)) if isinstance(argv, list) else None,
        operation=text_or_none(document, "operation"),
        args=args if isinstance(args, Mapping) else None,
        stdin=_octets(document, "stdin") or b"",
        pty=document.get("pty") is True,
        deadlines=deadlines_of(document),
    )


def put_ask(document: JsonObject, content: bytes | None = None) -> SshAsk:
    """A checked ssh-put-request document; `content` is what came in frames. Raises ShapeError."""
    mode = text_or_none(document, "mode")
    octets = _octets(document, "content") if content is None else content
    return SshAsk(
        host=str(document["host"]),
        put=PutAsk(path=str(document["path"]), content=octets or b"", mode=None if mode is None else int(mode, 8)),
        deadlines=deadlines_of(document),
    )


def get_ask(document: JsonObject, *, framed: bool = False) -> SshAsk:
    """A checked ssh-get-request document. `framed` says that a large file can be handed on."""
    return SshAsk(
        host=str(document["host"]), get=str(document["path"]), deadlines=deadlines_of(document), takes_large=framed
    )


def asked(action: str, document: JsonObject) -> Asked:
    """The document of any action. Raises ShapeError."""
    match action:
        case "collect":
            return collect_ask(document)
        case "ssh":
            return ssh_ask(document)
        case "ssh_put":
            return put_ask(document)
        case "ssh_get":
            return get_ask(document)
        case _:
            return http_ask(document)


def deadlines_of(document: JsonObject) -> SshDeadlines:
    """What the document says, the rest as usual; nothing outlasts the total."""
    told = document.get("deadline")
    usual = SshDeadlines()
    names = SshDeadlines.__dataclass_fields__
    seconds = {name: getattr(usual, name) for name in names}
    if isinstance(told, Mapping):
        seconds |= {name: float(value) for name, value in told.items() if isinstance(value, int | float)}
    total_s = seconds["total_s"]
    if isinstance(told, Mapping) and "idle_s" not in told:
        seconds["idle_s"] = max(seconds["idle_s"], total_s)  # who gives a command long may let it be silent long
    return SshDeadlines(**{name: min(value, total_s) for name, value in seconds.items()})


def _octets(document: JsonObject, name: str) -> bytes | None:
    """A field that is text, or bytes in base64 under the name with _b64."""
    if f"{name}_b64" in document:
        return decoded(document, f"{name}_b64")
    text = text_or_none(document, name)
    return None if text is None else text.encode("utf-8", "surrogatepass")
