"""Programs that behave as a pinentry does, or as none should. Each is a file of its own, run by the same Python."""

import sys
from pathlib import Path

_HEAD = """#!{python} -I
import json, os, sys, time
RECORD = {record!r}

def note(**what):
    with open(RECORD, "a") as file:
        file.write(json.dumps(what) + "\\n")

def say(line):
    sys.stdout.write(line + "\\n")
    sys.stdout.flush()

note(argv=sys.argv[1:], environ=dict(os.environ), descriptors=sorted(int(name) for name in os.listdir("/proc/self/fd")))
"""
_POLITE = """
say("OK Pleased to meet you")
for line in sys.stdin:
    line = line.rstrip("\\n")
    note(line=line)
    if line.startswith("OPTION ttyname"):
        say("ERR 83886254 Unknown option <Pinentry>")
        continue
    if line == "GETPIN":
{answer}
        continue
    say("# a comment")
    say("S a status")
    say("OK")
"""


def pinentry(directory: Path, *, answer: str = 'say("OK")', body: str | None = None) -> Path:
    """`answer` is what it does when it is asked; `body` is all that it does."""
    directory.mkdir(parents=True, exist_ok=True)
    path, record = directory / "pinentry", directory / "record"
    head = _HEAD.format(python=sys.executable, record=str(record))
    indented = "\n".join("        " + line for line in answer.splitlines())
    path.write_text(head + (_POLITE.replace("{answer}", indented) if body is None else body))
    path.chmod(0o700)
    return path


def giving(directory: Path, spelled: str) -> Path:
    """One whose human types this, as a data line spells it."""
    return pinentry(directory, answer=f"say({'D ' + spelled!r})\nsay('OK')")
