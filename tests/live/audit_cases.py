"""For tests of faults under a running daemon: a change to ask for, and looks at what became of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.live.house import House
from tests.live.plain_upstream import Upstream

WRITE = {"service": "open", "method": "POST", "path": "/orders", "body": {"name": "n-1"}}
UNWRITABLE = ("broker_unavailable", "audit_unwritable", "after_human", "none")
DISK_LOW = ("broker_unavailable", "disk_low", "after_human", "none")
UNKNOWN = ("broker_unavailable", "audit_unwritable", "reconcile_first", "unknown")


def gist(envelope: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(envelope[name]) for name in ("category", "code", "retry", "remote_effect"))


def status(house: House) -> Any:
    return house.human.client.status()


def warned(house: House) -> str:
    return "\n".join(map(str, status(house)["warnings"]))


def verdict(house: House) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", "audit", "verify", "--json"],
        env=house.environ,
        capture_output=True,
        check=False,
        timeout=60,
    )
    found: str = json.loads(done.stdout)["verdict"]
    return found


def in_doubt(house: House) -> list[object]:
    return [row["correlation_id"] for row in house.human.client.operations(state="in_doubt")]


def segment(house: House) -> Path:
    """The file that grows."""
    return max(house.places.audit.glob("*.seg"))


def works(house: House, upstream: Upstream) -> None:
    """An action goes through and is on record."""
    before = len(upstream.requests)
    with house.agent() as agent:
        assert "success" == agent.act(**{**WRITE, "body": {"name": "n-2"}})["category"]
    assert before + 1 == len(upstream.requests)


def stops(house: House) -> None:
    assert 0 == house.stop(), house.log()
