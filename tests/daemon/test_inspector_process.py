"""The verifier's process: what it says opens the vault, so nobody else of the user may speak in its place."""

import subprocess
import sys
from pathlib import Path

from broker.audit.inspection import Inspector
from broker.audit.ladder import in_file
from broker.audit.verdict import VerdictName
from broker.daemon import inspector_process
from tests.fakes.logs import new_log, write_events

LOOKED_AT = """
from broker.audit import inspector
from broker.client.hardening import dumpable
from broker.daemon import inspector_process
inspector.main = lambda: print(dumpable())
inspector_process.main()
"""


def test_it_can_not_be_looked_into_before_it_reads_anything() -> None:
    told = subprocess.run([sys.executable, "-I", "-c", LOOKED_AT], capture_output=True, check=True, timeout=30)
    assert b"False\n" == told.stdout


def test_it_inspects(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    with log.writer() as writer:
        write_events(writer, 5)
    inspector = Inspector(log.paths, argv=inspector_process.command())
    assert VerdictName.OK is inspector.inspect(in_file(log.anchor)).verdict.verdict
