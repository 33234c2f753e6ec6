"""What came of the cases: a table by group for humans, JSON and JUnit for machines. Nothing of it holds a secret."""

import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree as ET

from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject, dump
from broker.matrix.cases import Case
from broker.matrix.runner import Outcome

_WIDTH = 22


class Progress:
    """One line that moves, on a terminal; nothing elsewhere."""

    def __init__(self, total: int, out: TextIO = sys.stderr) -> None:
        self._total = total
        self._done = 0
        self._red = 0
        self._out = out
        self._moves = out.isatty()
        self._turn = threading.Lock()  # several lanes tell

    def __call__(self, case: Case, holds: bool, seconds: float) -> None:  # noqa: FBT001 - told by the runner alone
        with self._turn:
            self._tell(case, seconds, is_red=not holds)

    def _tell(self, case: Case, seconds: float, *, is_red: bool) -> None:
        self._done += 1
        self._red += is_red
        if self._moves:
            red = f", {self._red} do not hold" if self._red else ""
            line = f"{self._done} of {self._total}{red}: {case.id} ({seconds:.1f} s)"
            self._out.write(f"\r\x1b[K{visible(line)[:100]}" + ("\n" if self._done == self._total else ""))
            self._out.flush()


def table(outcomes: Sequence[Outcome]) -> str:
    """By group: how many hold, of how many, in which time; then everything that does not hold."""
    groups = list(dict.fromkeys(one.case.group for one in outcomes))
    lines = [f"{'group':<{_WIDTH}}{'hold':>6}{'of':>6}{'rounds':>8}{'seconds':>9}"]
    for group in [*groups, None]:
        own = [one for one in outcomes if group in {None, one.case.group}]
        green = sum(one.holds for one in own)
        rounds, seconds = sum(one.rounds for one in own), sum(one.seconds for one in own)
        name = "all" if group is None else visible(group)
        lines.append(f"{name:<{_WIDTH}}{green:>6}{len(own):>6}{rounds:>8}{seconds:>9.1f}")
    for one in outcomes:
        if not one.holds:
            lines += ["", f"{visible(one.case.id)} ({visible(one.case.place)}) {visible(one.case.title)}".rstrip()]
            lines += [f"  {visible(str(breach))}" for breach in one.breaches]
    return "\n".join(lines)


def as_json(outcomes: Iterable[Outcome]) -> bytes:
    told = [_row(one) for one in outcomes]
    held = sum(row["holds"] is True for row in told)
    return dump({"cases": told, "total": len(told), "hold": held, "ok": held == len(told)})


def write_junit(outcomes: Sequence[Outcome], file: Path) -> None:
    """One suite a group, one failure a case with all its breaches."""
    root = ET.Element("testsuites", name="doorward matrix")
    for group in dict.fromkeys(one.case.group for one in outcomes):
        own = [one for one in outcomes if one.case.group == group]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_printable(group),
            tests=str(len(own)),
            failures=str(sum(not one.holds for one in own)),
            errors="0",
            time=f"{sum(one.seconds for one in own):.3f}",
        )
        for one in own:
            case = ET.SubElement(
                suite, "testcase", classname=_printable(group), name=_printable(one.case.id), time=f"{one.seconds:.3f}"
            )
            if not one.holds:
                text = _printable("\n".join(str(breach) for breach in one.breaches))
                failure = ET.SubElement(case, "failure", message=text.partition("\n")[0])
                failure.text = text
    file.write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _row(one: Outcome) -> JsonObject:
    return {
        "id": one.case.id,
        "group": one.case.group,
        "place": one.case.place,
        "holds": one.holds,
        "rounds": one.rounds,
        "seconds": round(one.seconds, 3),
        "breaches": [{"assertion": breach.assertion, "text": breach.text} for breach in one.breaches],
    }


def _printable(text: str) -> str:
    """XML takes no control characters."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)
