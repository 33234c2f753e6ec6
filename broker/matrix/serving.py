"""`doorward matrix serve`: the far sides alone, for whoever wants to try another client, or a case by hand.

Prints where each case is to be found and then, line by line as JSON, what the far sides write down; credentials are
told by their length alone.
"""

import json
import threading
from collections.abc import Sequence
from typing import TextIO

from broker.matrix.cases import Case
from broker.matrix.http_stage import HttpStage
from broker.matrix.records import Seen
from broker.matrix.stage import Run

LOOK_S = 0.1


def serve(cases: Sequence[Case], out: TextIO, stop: threading.Event) -> None:
    """Until `stop` is set."""
    with HttpStage() as stage:
        for name, origin in stage.far.origins.items():
            _line(out, {"far_side": name, "origin": origin})
        for case in cases:
            if case.channel == "http":
                furnished = stage.furnish(Run(case=case, name=case.id.lower()))
                urls = sorted({str(one["base_url"]) for one in furnished.services.values()})
                _line(out, {"case": case.id, "base_urls": urls})
        told = 0
        while not stop.wait(LOOK_S):
            events = stage.far.events()
            for one in events[told:]:
                _line(out, _shown(one))
            told = len(events)


def _shown(one: Seen) -> dict[str, object]:
    length = None if one.credential is None else len(one.credential)
    row = {"case": one.case, "what": one.what, "detail": one.detail, "status": one.status, "key": one.key}
    return {**row, "credential_letters": length}


def _line(out: TextIO, row: dict[str, object]) -> None:
    out.write(json.dumps(row) + "\n")
    out.flush()
