"""Which change an SSH request makes, so that one in doubt blocks its repeat.

A declared operation is a change of its own on each host and user. Of an ad hoc command that is nothing but words the
program is, by its path or its name, behind settings of the environment and what only runs another program. A command
with shell syntax, or one that hands its words to a shell or another interpreter, may change anything: it meets every
doubt of its host and user, and while it is in doubt itself, nothing is changed there. Of a file its last name is, for
which directory a path leads to only the host knows: it may begin at home, or go by a link.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from broker.contract.wire import JsonValue, digest
from broker.core.ssh.frozen import Exec, FrozenSsh, Get, LookUp, Put
from broker.core.ssh.shell_words import split

ANYTHING = "*"
_CHANGE = "doorward/change/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A program that runs another: its options that take a value, by letter and by name, and its own operands.

    `hides` are options whose value is itself a command.
    """

    letters: str = ""
    hides: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    operands: int = 0


_SUDO = Runner(letters="CDRTUacghprtu", names=frozenset({"user", "group", "chdir", "host", "prompt", "chroot"}))
_PLAIN = Runner()
RUNNERS: Mapping[str, Runner] = MappingProxyType(
    {
        "builtin": _PLAIN,
        "busybox": _PLAIN,
        "chroot": Runner(operands=1),
        "chrt": Runner(letters="DPT", operands=1),
        "command": _PLAIN,
        "doas": Runner(letters="Cu"),
        "env": Runner(letters="Cu", hides=("S", "split-string"), names=frozenset({"chdir", "unset"})),
        "exec": Runner(letters="a"),
        "ionice": Runner(letters="cn", names=frozenset({"class", "classdata"})),
        "nice": Runner(letters="n", names=frozenset({"adjustment"})),
        "nohup": _PLAIN,
        "setsid": _PLAIN,
        "stdbuf": Runner(letters="eio", names=frozenset({"input", "output", "error"})),
        "sudo": _SUDO,
        "taskset": Runner(operands=1),
        "time": Runner(letters="fo", names=frozenset({"format", "output"})),
        "timeout": Runner(letters="ks", names=frozenset({"signal", "kill-after"}), operands=1),
    }
)
INTERPRETERS = frozenset(
    {
        ".", "ash", "at", "awk", "bash", "batch", "csh", "dash", "docker", "eval", "expect", "find", "fish", "flock",
        "gawk", "gdb", "ksh", "lua", "make", "mawk", "mksh", "node", "nsenter", "parallel", "perl", "php", "pkexec",
        "podman", "python", "rbash", "rsh", "ruby", "runuser", "screen", "script", "sed", "sh", "source", "ssh",
        "strace", "su", "systemd-run", "tclsh", "tcsh", "tmux", "unshare", "vi", "vim", "watch", "xargs", "zsh",
    }
)  # fmt: skip
_VERSION = re.compile(r"[0-9.]+\Z")  # as of python3.11
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")


def change_of(frozen: FrozenSsh, facts: Mapping[str, JsonValue]) -> str:
    """Its name: the place, a slash, and what is changed there; ANYTHING where that can't be told.

    `facts` are more of what tells one change from another.
    """
    host = frozen.host
    at: dict[str, JsonValue] = {"ssh": host.address.lower().rstrip("."), "port": host.port, "user": host.user}
    what = subject_of(frozen)
    return f"{digest('doorward/place/v1', at)}/{ANYTHING if what is None else digest(_CHANGE, {**facts, **what})}"


def subject_of(frozen: FrozenSsh) -> dict[str, JsonValue] | None:
    """What it changes, as far as its words tell; None where they may change anything."""
    if frozen.declared is not None:
        return {"operation": frozen.declared.name}
    match frozen.action:
        case Exec(command=command, argv=argv):
            program = program_of(split(command) or () if argv is None else argv)
            return {"program": program} if program else None
        case Put(path=path) | Get(path=path):
            return {"file": path.rpartition("/")[2]}
        case LookUp(operation_id=operation_id):
            return {"of": operation_id}


def program_of(words: Sequence[str]) -> str:
    """The program that these words run, without its directory; the empty text where that is anybody's guess."""
    runner: Runner | None = None
    operands, skips = 0, False
    for word in words:
        if skips or (runner is not None and _SETTING.match(word)):
            skips = False
        elif runner is not None and word.startswith("-"):
            if _hides(runner, word):
                return ""
            skips = _takes_value(runner, word)
        elif operands:
            operands -= 1
        else:
            name = word.rpartition("/")[2]
            if name not in RUNNERS:
                return "" if _is_open(name) else name
            runner = RUNNERS[name]
            operands = runner.operands
    return ""


def _is_open(name: str) -> bool:
    """Whether what runs in the end is told by its arguments, its input or a file."""
    return not {name, _VERSION.sub("", name)}.isdisjoint(INTERPRETERS) or any(mark.isspace() for mark in name)


def _hides(runner: Runner, option: str) -> bool:
    """Whether the option is, or may be short for, one that holds a command."""
    if option.startswith("--"):
        return len(option) > len("--") and any(name.startswith(option[2:].partition("=")[0]) for name in runner.hides)
    return any(name in option for name in runner.hides)


def _takes_value(runner: Runner, option: str) -> bool:
    """Whether the next word belongs to the option."""
    if option.startswith("--"):
        return option[2:] in runner.names
    return option[-1] in runner.letters and not set(option[1:-1]) & set(runner.letters)
