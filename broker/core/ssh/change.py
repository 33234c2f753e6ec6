"""Which change an SSH request makes, so that one in doubt blocks its repeat.

A declared operation is a change of its own on each host and user. Of an ad hoc command the program is, however it is
spelled: by its path or its name, in quotes or across lines, behind settings of the environment, redirections, words of
the shell, or what only runs another program. Which program a text runs in the end, no reading of it can tell.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from broker.contract.wire import JsonValue
from broker.core.ssh.frozen import Exec, FrozenSsh, Get, LookUp, Put


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A program that runs another: its options that take a value, by letter and by name, and its own operands."""

    letters: str = ""
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
        "env": Runner(letters="Cu", names=frozenset({"chdir", "unset"})),
        "eval": _PLAIN,
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
_BEFORE_A_COMMAND = frozenset(
    {"!", "-", "and", "begin", "coproc", "do", "elif", "else", "if", "nocorrect", "noglob", "not", "or", "then",
     "until", "while"}
)  # fmt: skip
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_REDIRECTION = r"&?\d*(?:<<<|<<-?|<>|>>|[<>])[&|]?"
_WORD = r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^ \t\r\n\f\v;|&()<>'"\\])+"""
_PIECE = re.compile(rf"(?P<redirection>{_REDIRECTION})|(?P<word>{_WORD})|.", re.DOTALL)
_COMMENT = re.compile(r"^#[^\n]*", re.MULTILINE)
_TAKEN_AWAY = str.maketrans("", "", "\"'\\{}$`")  # by the shell, before it looks for the program


def facts_of_change(frozen: FrozenSsh) -> dict[str, JsonValue]:
    """Where it is made, and what by."""
    host = frozen.host
    facts: dict[str, JsonValue] = {"ssh": host.address.lower().rstrip("."), "port": host.port, "user": host.user}
    if frozen.declared is not None:
        return facts | {"operation": frozen.declared.name}
    match frozen.action:
        case Exec(command=command):
            return facts | {"program": program_of(command)}
        case Put(path=path) | Get(path=path):
            return facts | {"file": path}
        case LookUp(operation_id=operation_id):
            return facts | {"of": operation_id}


def program_of(command: bytes) -> str:
    """The first program that a command names, without its directory; the empty text where there is none."""
    runner: Runner | None = None
    operands, skips = 0, False
    for word in _words(command.decode("utf-8", "backslashreplace")):
        bare = word.translate(_TAKEN_AWAY)
        if skips or not bare.strip() or _SETTING.match(bare) or bare in _BEFORE_A_COMMAND:
            skips = False
        elif runner is not None and bare.startswith("-"):
            skips = _takes_value(runner, bare)
        elif operands:
            operands -= 1
        else:
            name = bare.split()[0].rpartition("/")[2]
            if name not in RUNNERS:
                return name
            runner = RUNNERS[name]
            operands = runner.operands
    return ""


def _words(text: str) -> Iterator[str]:
    """Words as a shell reads them, without redirections, comments, and what ends a command."""
    is_target = False
    for found in _PIECE.finditer(_COMMENT.sub("", text.replace("\\\n", ""))):
        if found["redirection"] is not None:
            is_target = True
        elif found["word"] is not None:
            if not is_target:
                yield found["word"]
            is_target = False


def _takes_value(runner: Runner, option: str) -> bool:
    """Whether the next word belongs to the option."""
    if option.startswith("--"):
        return option[2:] in runner.names
    return option[-1] in runner.letters and not set(option[1:-1]) & set(runner.letters)
