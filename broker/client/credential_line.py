"""The line that adds the credential of a service, and where its value may go: the same words for every face. Pure.

Each word of it is the policy's, and is shown neutralised; nothing that an agent says gets in.
"""

import shlex
from collections.abc import Iterable
from urllib.parse import urlsplit

from broker.contract.neutralise import visible

PREFIX = "cr_"


def is_want(name: str | None) -> bool:
    """Whether the id is that of a credential that an agent waits for."""
    return name is not None and name.startswith(PREFIX)


def origin_of(place: str) -> str:
    """What a credential of a service at that place has to be bound to."""
    if place.startswith("ssh:"):
        return place
    try:
        parts = urlsplit(place)
    except ValueError:
        return place  # shown as it came: the daemon takes no such origin
    return f"{parts.scheme}://{parts.netloc}"


def origins_of(places: Iterable[str]) -> tuple[str, ...]:
    """Those of several places, each once."""
    return tuple(dict.fromkeys(map(origin_of, places)))


def command(credential: str, origins: Iterable[str], *, is_ssh: bool) -> str:
    """What a human types to add it."""
    kind = "ssh-key" if is_ssh else "bearer"
    bound = [word for origin in origins for word in ("--origin", origin)]
    return visible(shlex.join(["doorward", "credential", "add", credential, "--kind", kind, *bound]))
