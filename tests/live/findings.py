"""What a house can be held to from outside: schemas, trails, what is in doubt, the log's verdict, and canaries."""

import json
import subprocess
import sys
from functools import cache
from typing import Any

import jsonschema_rs

from broker.contract.schemas import schema
from tests.canary_scan import scan_tree
from tests.live.house import House


@cache
def _result_schema() -> Any:
    return jsonschema_rs.validator_for(schema("result"), offline=True)


def breaches(envelope: object) -> list[str]:
    """What an envelope has that its public schema does not allow."""
    return [f"{error.instance_path}: {error.message}" for error in _result_schema().iter_errors(envelope)]


def gist(envelope: dict[str, Any]) -> tuple[str, str, str, str]:
    """Category, code, retry and remote effect."""
    return envelope["category"], envelope["code"], envelope["retry"], envelope["remote_effect"]


def trail(house: House, correlation_id: str) -> list[dict[str, Any]]:
    """The audit events of one request, decrypted, in order."""
    told = house.human.client.audit_events(limit=1000, correlation_id=correlation_id)["events"]
    assert isinstance(told, list)
    return [dict(event) for event in told]


def in_doubt(house: House) -> set[str]:
    """The correlation ids of what the ledger holds in doubt."""
    return {str(row["correlation_id"]) for row in house.human.client.operations(state="in_doubt")}


def verdict(house: House) -> str:
    """What the offline check says of the log."""
    done = subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", "audit", "verify", "--json"],
        env=house.environ,
        capture_output=True,
        check=False,
        timeout=60,
    )
    found: str = json.loads(done.stdout)["verdict"]
    return found


def canaries(house: House) -> list[str]:
    """Every file of the house that holds a canary, log and sealed files included."""
    return list(scan_tree(house.places.data.parent))
