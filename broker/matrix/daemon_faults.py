"""The daemon channel: cases over HTTP, against a daemon that is killed, whose disk fails, or whose clock jumps.

The daemon is the real program with the fault planted by faulty_daemon.py; the far side is the HTTP one and knows
nothing of it. What a run broke is put right before the next: the daemon is started again over the same state.
"""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from broker.matrix.cases import Fault
from broker.matrix.faults import MatrixError
from broker.matrix.house import House, wait_until
from broker.matrix.http_stage import HttpStage
from broker.matrix.records import Seen
from broker.matrix.stage import Furnished, Run

PROGRAM = ("-I", "-m", "broker.matrix.faulty_daemon")
DIES_WITHIN_S = 60.0
FIRST_WRITE = "dispatch.started"  # what a case means that names no write


class DaemonStage:
    """See stage.Stage. One order file serves all runs, so that they share a daemon as long as it lives."""

    def __init__(self) -> None:
        self._http = HttpStage().__enter__()
        self._home = Path(tempfile.mkdtemp(prefix="doorward-fault-"))
        self.order = self._home / "order"

    def close(self) -> None:
        self._http.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def furnish(self, run: Run) -> Furnished:
        if run.case.fault is None:
            raise MatrixError(f"{run.case.id} has no fault")
        furnished = self._http.furnish(run)
        draft = self.order.with_suffix(".new")
        draft.write_text(json.dumps(order(run.case.fault)), encoding="ascii")
        draft.replace(self.order)
        return replace(furnished, program=(*PROGRAM, str(self.order)))

    def meanwhile(self, run: Run, house: House) -> None:
        """A daemon that died comes back, as a service manager would have it, while the agent still asks for it."""
        if dies(run.case.fault) and wait_until(lambda: has_died(house), limit_s=DIES_WITHIN_S):
            house.restart(killed=True)

    def afterwards(self, run: Run, house: House) -> None:
        """A disk that failed and a clock that jumped are well again in the next daemon alone."""
        self.order.unlink(missing_ok=True)
        if not dies(run.case.fault):
            house.restart(killed=False)

    def events(self, run: Run) -> tuple[Seen, ...]:
        return self._http.events(run)


def order(fault: Fault) -> dict[str, str | float]:
    """The fault as the faulty daemon reads it."""
    match fault.point:
        case "at_step":
            return {"point": str(fault.step), "side": fault.side, "kind": fault.kind, "seconds": 0}
        case "at_audit_write":
            kind = "kill_in_write" if fault.kind == "kill" else fault.kind
            return {"point": fault.step or FIRST_WRITE, "side": "before", "kind": kind, "seconds": 0}
        case _:
            point = fault.step or FIRST_WRITE
            return {"point": point, "side": fault.side, "kind": fault.kind, "seconds": fault.seconds}


def dies(fault: Fault | None) -> bool:
    return fault is not None and fault.kind == "kill"


def has_died(house: House) -> bool:
    return house.process is None or house.process.poll() is not None
