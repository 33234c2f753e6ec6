"""The programs of a far host: shell scripts that do what the case says, and write down that they did.

One program is the case's own and may make a change; every other one only looks. Both append to a log that belongs to
the run, whatever SSH server started them and whoever is still connected.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from broker.contract.wire import JsonValue
from broker.matrix.cases import Answer, Ask, Case
from broker.matrix.records import Seen

WORD = re.compile(r"[a-z][a-z0-9_-]{1,40}")
TOOLS = frozenset({"sh", "env", "cat", "echo", "sleep", "true", "false", "test", "printf", "kill"})
FLOOD_BYTES = 24 << 20
SILENT_S = 4.0
SIGNALS = frozenset({"HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "PIPE", "TERM", "ABRT", "SEGV"})


class FarHost:
    """A home directory and programs for one run. `log` is where they write."""

    def __init__(self, home: Path, run: str) -> None:
        self.home = home
        self.programs = home / "bin"
        self.log = home / "log"
        self._run = run
        self.programs.mkdir(parents=True, mode=0o700)
        self.log.touch(mode=0o600)

    def install(self, case: Case) -> None:
        own = word_of(case.ask, case, case.operation)
        for word in words(case):
            text = self._main(case) if word == own else self._look()
            path = self.programs / word
            path.write_text(text, encoding="utf-8")
            path.chmod(0o700)

    @property
    def path(self) -> str:
        return f"{self.programs}:/usr/local/bin:/usr/bin:/bin"

    def has_begun(self) -> bool:
        return "received" in self.log.read_text(encoding="utf-8")

    def events(self) -> tuple[Seen, ...]:
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            what, _, detail = line.partition(" ")
            found.append(Seen(case=self._run, what=what, detail=detail))
        return tuple(found)

    def _main(self, case: Case) -> str:
        answer, kind = case.answers[0], "" if case.fault is None else case.fault.kind
        lines = ["#!/bin/sh", *self._logging("received", '"$*"')]
        if kind == "flood":
            lines += [f"yes flood | head -c {FLOOD_BYTES}"]
        if kind == "silence":
            seconds = case.fault.seconds if case.fault is not None and case.fault.seconds else SILENT_S
            lines += [f"sleep {seconds:g}"]
        lines += [f"printf %s {shlex.quote(answer.stdout)}", f"printf %s {shlex.quote(answer.stderr)} >&2"]
        if answer.seconds:
            lines += [f"sleep {answer.seconds:g}"]
        if _commits(case, answer):
            lines += self._logging("committed", '"$*"')
        if answer.exit_signal in SIGNALS:
            lines += [f"kill -{answer.exit_signal} $$"]
        return "\n".join([*lines, f"exit {answer.exit_status}", ""])

    def _look(self) -> str:
        return "\n".join(["#!/bin/sh", *self._logging("looked_up", '"$*"'), "echo active", ""])

    def _logging(self, what: str, more: str) -> list[str]:
        return [f'printf "%s %s\\n" {what} {more} >>{shlex.quote(str(self.log))}']


def words(case: Case) -> Iterator[str]:
    """The programs that the case's operations and requests name."""
    found: dict[str, None] = {}
    for table in case.services.values():
        operations = table.get("operations")
        for declared in operations.values() if isinstance(operations, Mapping) else ():
            command = declared.get("command") if isinstance(declared, Mapping) else None
            found[_first(command)] = None
    for ask in (case.ask, *case.agent.uses.values()):
        found[_first(ask.fields.get("argv") or ask.fields.get("command"))] = None
    return (word for word in found if WORD.fullmatch(word) and word not in TOOLS)


def word_of(ask: Ask, case: Case, operation: str | None) -> str:
    """The program that a request runs."""
    told = ask.fields.get("argv") or ask.fields.get("command")
    if told is None:
        operations = case.services.get(case.service or "", {}).get("operations")
        declared = operations.get(operation or "") if isinstance(operations, Mapping) else None
        told = declared.get("command") if isinstance(declared, Mapping) else None
    return _first(told)


def _first(command: JsonValue) -> str:
    match command:
        case str():
            return command.split(maxsplit=1)[0] if command.split() else ""
        case list():
            return str(command[0]) if command else ""
        case _:
            return ""


def _commits(case: Case, answer: Answer) -> bool:
    if answer.commits is not None:
        return answer.commits
    return not case.is_read and not answer.exit_status and answer.exit_signal is None
