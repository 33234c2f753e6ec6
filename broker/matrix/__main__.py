"""`python -I -m broker.matrix` (`doorward matrix`): run cases, or serve the far sides alone.

Exit codes: 0 all hold, 1 something does not, 64 the files or the words are wrong.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from broker.contract.exits import FAULTS_FOUND, USAGE
from broker.contract.neutralise import visible
from broker.matrix.case_files import MOST_ROUNDS
from broker.matrix.cases import Case, chosen, load
from broker.matrix.faults import CaseError, MatrixError
from broker.matrix.lanes import run_lanes
from broker.matrix.report import Progress, as_json, table, write_junit
from broker.matrix.serving import serve
from broker.matrix.stages import open_stages


def main(words: list[str]) -> int:
    options = _options(words)
    try:
        cases = chosen(load(options.files), options.only)
        if options.repeat is not None:
            cases = [replace(one, repeat=options.repeat) if one.fault is not None else one for one in cases]
        if options.verb == "serve":
            return _serve(cases)
        return _run(cases, options)
    except CaseError as wrong:
        _say(str(wrong))
        return USAGE
    except MatrixError as broken:
        _say(str(broken))
        return FAULTS_FOUND


def _run(cases: list[Case], options: argparse.Namespace) -> int:
    if not cases:
        _say("there is no such case")
        return USAGE
    work = Path(tempfile.mkdtemp(prefix="doorward-matrix-"))
    try:
        with open_stages({one.channel for one in cases}) as stages:
            outcomes = run_lanes(cases, stages=stages, work=work, tell=Progress(len(cases)))
    finally:
        if options.keep:
            _say(f"the state is kept in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    if options.junit is not None:
        write_junit(outcomes, options.junit)
    print(as_json(outcomes).decode() if options.json else table(outcomes))
    return 0 if all(one.holds for one in outcomes) else FAULTS_FOUND


def _serve(cases: list[Case]) -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    serve(cases, sys.stdout, stop)
    return 0


def _options(words: list[str]) -> argparse.Namespace:
    """The words are checked by `doorward matrix` already; this reads them once more, for `python -m` alone."""
    parser = argparse.ArgumentParser(prog="doorward matrix", allow_abbrev=False, exit_on_error=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run, alone = verbs.add_parser("run"), verbs.add_parser("serve")
    for one in (run, alone):
        one.add_argument("files", nargs="*" if one is alone else "+", type=Path)
        one.add_argument("--only")
    run.add_argument("--json", action="store_true")
    run.add_argument("--junit", type=Path)
    run.add_argument("--keep", action="store_true")
    run.add_argument("--repeat", type=_rounds, metavar="N")
    alone.set_defaults(repeat=None)
    try:
        return parser.parse_args(words)
    except argparse.ArgumentError as wrong:
        _say(str(wrong))
        raise SystemExit(USAGE) from wrong


def _rounds(text: str) -> int:
    number = int(text)
    if not 0 < number <= MOST_ROUNDS:
        raise ValueError(text)
    return number


def _say(text: str) -> None:
    print(f"doorward: {visible(text, multiline=True)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
