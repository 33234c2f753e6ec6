"""The tamper corpus as a table for humans: each change, our verdict with and without the anchor, and journald's.

make tamper-table        (or: python -m tests.tampering.table)
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.fakes.forger import FIELDS, Forger
from tests.tampering import chains, files, journal, records
from tests.tampering.corpus import CASES, Base, make_base

CASE_MODULES = (chains, files, records)  # importing them enters their cases
WIDTH = 76


def rows(place: Path) -> Iterator[tuple[str, str, str, str]]:
    """Change, verdict with the anchor and where, verdict without, journald's answer to the like."""
    base = make_base(place)
    other = journal.Journal(place) if journal.available() else None
    said: dict[str, str] = {}
    for number, (name, case) in enumerate(CASES.items()):
        forger = _copy(base, place / f"copy-{number}" / "audit")
        case.mutation(forger, base)
        if case.journal is not None and other is not None and case.journal not in said:
            said[case.journal] = other.says(case.journal)
        answer = "" if case.journal is None else f"{said.get(case.journal, 'not here')} ({case.journal})"
        yield name, *_verdicts(forger), answer
    for field in FIELDS:
        forger = _copy(base, place / f"flip-{field}" / "audit")
        forger.flip(forger.first(3, after=12), field)
        yield f"a bit of an event's {field} is flipped", *_verdicts(forger), ""


def _copy(base: Base, target: Path) -> Forger:
    target.parent.mkdir()
    return Forger(base.frozen, target, pin=base.log.pin, anchor=base.anchor)


def _verdicts(forger: Forger) -> tuple[str, str]:
    anchored, alone = forger.verdict(anchored=True), forger.verdict(anchored=False)
    place = "" if anchored.segment is None else f" {anchored.segment[7:8]}:{anchored.offset}#{anchored.seq}"
    return f"{anchored.verdict} {anchored.exit_code}{place}", f"{alone.verdict} {alone.exit_code}"


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        found = list(rows(Path(name)))
    print(f"{'change':<{WIDTH}}{'with the anchor':<34}{'without':<22}journalctl --verify of the directory")
    for change, anchored, alone, other in found:
        print(f"{change:<{WIDTH}}{anchored:<34}{alone:<22}{other}")
    missed = [other for *_, other in found if other.startswith("accepts")]
    print(f"{len(found)} changes; of the {sum(1 for *_, other in found if other)} that a journal has the like of,")
    print(f"journalctl --verify accepts {len(missed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
