"""Services that are installed, as tables for cases: the shipped packs, and policy files of the administrator.

A pack is read as text and not as policy: the daemon that is to trust it checks it.
"""

import tomllib
from pathlib import Path

from broker.contract.wire import JsonObject
from broker.policyfiles.files import PolicyError
from broker.policyfiles.shipped import pack_bytes, pack_names


def names() -> tuple[str, ...]:
    return pack_names()


def services(name: str) -> dict[str, JsonObject] | None:
    """The services of a shipped pack, or of a file whose path is given; None where there is none."""
    try:
        text = Path(name).read_bytes() if name.endswith(".toml") else pack_bytes(name)
        found = tomllib.loads(text.decode("utf-8")).get("services", {})
    except (OSError, PolicyError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None
    return dict(found)
