"""Both documents against the real sockets: requests that fit them and some that do not, ten thousand in all.

No answer is outside its document, none is a 5xx but a typed 503, and the daemon is there at the end.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.house import ROOT, House, open_house
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

EXAMPLES = int(os.environ.get("DOORWARD_WALK_EXAMPLES", "10000"))
SHARES = {"agent": 0.35, "control": 0.65}  # by the number of their routes
WALKER = ROOT / "build/fuzz-venv/bin/python"


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as upstream:
        yield upstream


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path / "h", origin=upstream.origin) as house:
        yield house


def document_of(face: str, where: Path) -> Path:
    """A copy that requests can be made from: the walker can't choose among many conditions; the daemon checks them."""
    shutil.copytree(ROOT / "broker/contract/schemas", where / "schemas")
    statement: Any = json.loads((where / "schemas/statement.json").read_bytes())
    del statement["properties"]["statement"]["allOf"]
    (where / "schemas/statement.json").write_text(json.dumps(statement), encoding="utf-8")
    return Path(shutil.copy(ROOT / f"broker/contract/openapi/{face}.json", where))


@pytest.mark.parametrize("face", SHARES)
def test_no_request_is_answered_outside_the_document(house: House, tmp_path: Path, face: str) -> None:
    if not WALKER.exists():
        pytest.fail("build/fuzz-venv is missing: make build/fuzz-venv")
    path = house.places.agent_socket if face == "agent" else house.places.control_socket
    key = {"log_id": house.key.log_id, "seed": bytes(house.key._seed).hex()} if face == "control" else None
    done = subprocess.run(
        [
            WALKER,
            ROOT / "tests/live/schema_walk.py",
            path,
            document_of(face, tmp_path),
            str(int(EXAMPLES * SHARES[face])),
        ],
        input="" if key is None else json.dumps(key),
        env={**house.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    told = json.loads(done.stdout)

    assert {} == told["faults"]
    assert told["sent"] >= 0.5 * EXAMPLES * SHARES[face], told  # some routes can be asked in one way alone
    assert house.human.client.status()["log_id"] == house.key.log_id
    assert "Traceback" not in house.log()
