"""The command line that goes on with a collection where it was cut."""

from shlex import quote

from broker.contract.wire import dump
from broker.core.collect.request import CollectAsk

MAX_CHARACTERS = 2000


def going_on(ask: CollectAsk, cursor: str) -> str | None:
    """None where it would be too long to be of use."""
    spelled = [
        quote(f"{name}={value}" if isinstance(value, str) else f"{name}:={dump(value).decode()}")
        for name, value in ask.args.items()
    ]
    line = " ".join(["doorward collect", quote(f"{ask.service}.{ask.operation}"), *spelled, f"--cursor {cursor}"])
    return line if len(line) <= MAX_CHARACTERS else None
