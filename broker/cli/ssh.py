"""`doorward ssh`: run a command on a host that the policy names, put a file there, get one from there.

Output is passed on as it comes: to the byte into a pipe or a file, neutralised onto a terminal. Local files are read
and written here, never by the daemon.
"""

import os
import sys

from broker.cli.agent_side import ask
from broker.cli.arguments import Parser, seconds
from broker.cli.faults import UsageError
from broker.cli.part_file import PartFile

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import BinaryIO

    from broker.contract.wire import JsonValue

MOST_STDIN_BYTES = 262_144
MOST_FILE_BYTES = 16_777_216
_EXIT_STATUS_MAX = 255
_RUN = """One word after -- is a command for the far shell; several are its words, and are quoted for it.

examples:
  doorward ssh web-3 -- systemctl restart nginx
  doorward ssh web-3 -- 'journalctl -u nginx | tail -n 50'
  doorward ssh web-3 --operation restart unit=nginx --reason "serves the old certificate"
  doorward ssh put site.conf web-3:/etc/nginx/conf.d/site.conf
  doorward ssh get web-3:/var/log/nginx/error.log"""


def run(_: str, arguments: list[str]) -> int:
    match arguments[:1]:
        case ["put"]:
            return _put(arguments[1:])
        case ["get"]:
            return _get(arguments[1:])
        case _:
            return _run(arguments)


def request_parser(prog: str, usage: str, epilog: str | None = None, *, json_option: bool = True) -> Parser:
    """The options that every SSH verb has."""
    parser = Parser(prog)
    parser.usage, parser.epilog = f"{prog} {usage}", epilog
    parser.add_argument("--request-id", metavar="ID", help="your name for it: a repeat gives the record, sends nothing")
    parser.add_argument("--reason", metavar="TEXT", help="why, for the human who may be asked")
    parser.add_argument("--wait", type=seconds, metavar="SECONDS", help="how long to wait for a human; 0 does not")
    parser.add_argument("--deadline", type=seconds, metavar="SECONDS", help="how long the action itself may take")
    if json_option:
        parser.add_argument("--json", action="store_true", help="print the envelope")
    return parser


def command_parser(prog: str, *, json_option: bool = True) -> Parser:
    usage = "HOST [options] -- COMMAND... | HOST --operation NAME [KEY=TEXT ...]"
    parser = request_parser(prog, usage, _RUN, json_option=json_option)
    parser.add_argument("--operation", metavar="NAME", help="a declared operation; its arguments are KEY=TEXT")
    parser.add_argument("--stdin", action="store_true", help="hand standard input to the command")
    parser.add_argument("--pty", action="store_true", help="run it in a terminal")
    parser.add_argument("--remote-exit", action="store_true", help="exit with the command's own status")
    return parser


def command_request(options: "argparse.Namespace", command: list[str]) -> "dict[str, JsonValue]":
    """The request that the options spell. Raises UsageError."""
    if not options.words:
        raise UsageError("say HOST -- COMMAND...; doorward services lists the hosts")
    request = _about(options, options.words[0])
    if options.operation is not None:
        if command:
            raise UsageError("an operation has its own command: leave out what stands after --")
        request |= {"operation": options.operation, "args": _arguments(options.words[1:])}
    elif len(options.words) > 1 or not command:
        raise UsageError("the command stands after --: doorward ssh HOST -- COMMAND...")
    elif len(command) == 1:
        request |= _field("command", os.fsencode(command[0]))
    else:
        request["argv"] = [_text(word, "a word of the command") for word in command]
    if options.stdin:
        request |= _field("stdin", _all_of(sys.stdin.buffer, MOST_STDIN_BYTES, "standard input"))
    if options.pty:
        request["pty"] = True
    return request


def spelled(prog: str, arguments: list[str]) -> "tuple[argparse.Namespace, dict[str, JsonValue]]":
    """The options of a command line, and the request. Raises UsageError."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = command_parser(prog).parse_mixed(arguments[:at])
    return options, command_request(options, arguments[at + 1 :])


def _run(arguments: list[str]) -> int:
    options, request = spelled("doorward ssh", arguments)
    output = Output()
    return ask(
        (lambda client: client.ssh(request)) if options.json else (lambda client: client.ssh(request, output.hear)),
        as_json=options.json,
        request_id=options.request_id,
        again=_command_line(arguments),
        changes=True,
        ending=lambda answer: output.end(answer, remote_exit=options.remote_exit),
    )


def _put(arguments: list[str]) -> int:
    parser = request_parser("doorward ssh put", "LOCAL HOST:PATH [options]")
    parser.add_argument("--mode", metavar="OCTAL", help="its permissions there; default: those of the replaced file")
    options = parser.parse_mixed(arguments)
    if len(options.words) != 2:
        raise UsageError("say LOCAL HOST:PATH; - as LOCAL is standard input")
    host, path = _place(options.words[1])
    request = _about(options, host) | {"path": path}
    if options.mode is not None:
        request["mode"] = options.mode
    content = _content(options.words[0])
    return ask(
        lambda client: client.ssh_put(request, content),
        as_json=options.json,
        request_id=options.request_id,
        again=_command_line(["put", *arguments]),
        changes=True,
    )


def _get(arguments: list[str]) -> int:
    parser = request_parser("doorward ssh get", "HOST:PATH [LOCAL] [options]")
    options = parser.parse_mixed(arguments)
    if len(options.words) not in {1, 2}:
        raise UsageError("say HOST:PATH and where to put it; - is standard output")
    host, path = _place(options.words[0])
    request = _about(options, host) | {"path": path}
    local = options.words[1] if len(options.words) > 1 else os.path.basename(path)  # noqa: PTH119 - no pathlib here
    if len(options.words) == 1 and os.path.lexists(local):
        raise UsageError(f"there is a {local!r} here already; name where to put it")
    file = LocalFile(local)
    try:
        code = ask(
            lambda client: client.ssh_get(request, file.hear),
            as_json=options.json,
            request_id=options.request_id,
            again=_command_line(["get", *arguments]),
            changes=False,
            ending=file.end,
        )
    finally:
        file.close()
    return code


class Output:
    """What a command wrote, passed on: bytes into a pipe, neutralised text onto a terminal."""

    def __init__(self) -> None:
        from codecs import getincrementaldecoder  # noqa: PLC0415 - loaded by now

        self._heard = False
        self._decoders = {name: getincrementaldecoder("utf-8")("backslashreplace") for name in ("stdout", "stderr")}

    def hear(self, stream: str, octets: bytes) -> None:
        self._heard = True
        target = sys.stdout if stream == "stdout" else sys.stderr
        if target.isatty():
            from broker.contract.neutralise import visible  # noqa: PLC0415 - a pipe does not pay for it

            target.write(visible(self._decoders[stream].decode(octets), multiline=True))
            target.flush()
        else:
            target.buffer.write(octets)
            target.buffer.flush()

    def end(self, answer: "Mapping[str, JsonValue]", *, remote_exit: bool) -> int:
        """Print what was not heard, and what there is to know of the end on standard error; the exit code."""
        from broker.cli.main import exit_code  # noqa: PLC0415 - likewise
        from broker.client.envelope_lines import lines, streams  # noqa: PLC0415 - only the end needs it

        if not self._heard:  # it was recorded, or refused
            for stream, octets in streams(answer):
                self.hear(stream, octets)
        if answer.get("category") != "success":
            sys.stdout.flush()
            print("\n".join(lines({**answer, "ssh": None}, terminal=True)), file=sys.stderr)
        ssh = answer.get("ssh")
        status = ssh.get("exit_status") if isinstance(ssh, dict) else None
        if remote_exit and isinstance(status, int):
            return min(status, _EXIT_STATUS_MAX)
        return exit_code(answer.get("category"))


class LocalFile:
    """Where a file is put: beside its name until it is whole."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._file = PartFile(name)

    def hear(self, _: str, octets: bytes) -> None:
        if self._name == "-":
            sys.stdout.buffer.write(octets)
            return
        self._file.write(octets)

    def end(self, answer: "Mapping[str, JsonValue]") -> int:
        from broker.cli.envelope_text import show  # noqa: PLC0415 - only the end needs it
        from broker.cli.main import exit_code  # noqa: PLC0415 - likewise

        if answer.get("category") != "success":
            return show(answer, as_json=False) if self._name != "-" else _on_stderr(answer)
        if self._name != "-":
            self._file.keep()
            print(f"got {self._name}")
        return exit_code(answer.get("category"))

    def close(self) -> None:
        """What is not whole is taken away."""
        self._file.discard()


def _on_stderr(answer: "Mapping[str, JsonValue]") -> int:
    from broker.cli.main import exit_code  # noqa: PLC0415 - likewise
    from broker.client.envelope_lines import lines  # noqa: PLC0415 - only the end needs it

    print("\n".join(lines(answer, terminal=True)), file=sys.stderr)
    return exit_code(answer.get("category"))


def _about(options: "argparse.Namespace", host: str) -> "dict[str, JsonValue]":
    request: dict[str, JsonValue] = {"host": _text(host, "the host")}
    if options.request_id is not None:
        request["request_id"] = _text(options.request_id, "--request-id")
    if options.reason is not None:
        request["reason"] = _text(options.reason, "--reason")
    if options.wait is not None:
        request["wait_s"] = options.wait
    if options.deadline is not None:
        request["deadline"] = {"total_s": options.deadline}
    return request


def _arguments(pairs: list[str]) -> "dict[str, JsonValue]":
    args: dict[str, JsonValue] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name or name in args:
            raise UsageError(f"arguments are KEY=TEXT, each key once: {pair!r}")
        args[name] = _text(text, name)
    return args


def _place(text: str) -> tuple[str, str]:
    host, colon, path = text.partition(":")
    if not colon or not host or not path:
        raise UsageError(f"a file on a host is HOST:PATH: {text!r}")
    return host, _text(path, "the path")


def _content(name: str) -> bytes:
    if name == "-":
        return _all_of(sys.stdin.buffer, MOST_FILE_BYTES, "standard input")
    try:
        with open(name, "rb") as file:  # noqa: PTH123 - no pathlib on this path
            return _all_of(file, MOST_FILE_BYTES, name)
    except OSError as cause:
        raise UsageError(f"{name} can't be read: {cause.strerror}") from None


def _all_of(file: "BinaryIO", most: int, what: str) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise UsageError(f"{what} has more than {most} bytes")
    return content


def _field(name: str, octets: bytes) -> "dict[str, JsonValue]":
    """As text where it is, else in base64."""
    try:
        return {name: octets.decode("utf-8")}
    except UnicodeDecodeError:
        from base64 import b64encode  # noqa: PLC0415 - rare

        return {f"{name}_b64": b64encode(octets).decode("ascii")}


def _text(text: str, what: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{what} is not valid UTF-8") from None
    return text


def _command_line(arguments: list[str]) -> str:
    from shlex import join  # noqa: PLC0415 - argparse has loaded it

    return join(["doorward", "ssh", *arguments])
