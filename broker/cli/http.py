"""`doorward http`, `call` and `explain`: three spellings of one request. Files are read here, never by the daemon."""

import os
import sys

from broker.cli.agent_side import ask
from broker.cli.arguments import Parser, seconds
from broker.cli.faults import UsageError

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    import argparse

    from broker.contract.wire import JsonValue

MOST_BODY_BYTES = 1 << 20  # the daemon takes less; it says so itself
_REFUSED = {  # where not the policy says no, an explanation ends as the request itself would
    "locked": "vault_locked",
    "unlocking": "vault_locked",
    "quarantined": "vault_locked",
    "frozen": "broker_unavailable",
    "in_doubt": "reconcile_required",
}
_WORDS = {"http": "METHOD (SERVICE PATH | URL)", "call": "SERVICE.OPERATION [KEY=TEXT | KEY:=JSON ...]"}
_HTTP = """examples:
  doorward http GET github /user
  doorward http POST github /repos/acme/site/issues --json-body '{"title": "..."}' --reason "found a bug"
  doorward http GET https://api.github.com/user"""
_CALL = """examples:
  doorward call github.issues.list owner=acme repo=site state=open
  doorward call deploy.create app=web replicas:=3      (:= takes JSON)"""
_EXPLAIN = """examples:
  doorward explain http GET github /user
  doorward explain call github.issues.list owner=acme repo=site
  doorward explain collect github.issues.list owner=acme repo=site
  doorward explain ssh web-3 -- systemctl restart nginx"""


def run(noun: str, arguments: list[str]) -> int:
    if noun == "explain":
        return _explain(arguments)
    options = request_parser(noun, f"doorward {noun}").parse_mixed(arguments)
    request = request_of(noun, options)
    again = command_line(noun, arguments)
    if options.output is not None or getattr(options, "upload", None) is not None:
        return _streamed(options, request, again)
    return ask(
        lambda client: client.http(request),
        as_json=options.json,
        request_id=options.request_id,
        again=again,
        changes=True,
    )


def _streamed(options: "argparse.Namespace", request: "dict[str, JsonValue]", again: str) -> int:
    """With a body from a file, or to one."""
    from broker.cli.http_files import Download, content_of  # noqa: PLC0415 - for files alone

    upload = getattr(options, "upload", None)
    content = None if upload is None else content_of(upload)
    file = Download(options.output) if options.output is not None else None
    try:
        return ask(
            lambda client: client.http_stream(request, _unheard if file is None else file.hear, content),
            as_json=options.json,
            request_id=options.request_id,
            again=again,
            changes=True,
            ending=None if file is None else file.end,
        )
    finally:
        if file is not None:
            file.close()


def _unheard(*_: object) -> None:
    """The body of an answer to an upload, where no --output asks for it."""


def _explain(arguments: list[str]) -> int:
    if arguments[:1] == ["ssh"]:
        return _explain_ssh(arguments[1:])
    if arguments[:1] == ["collect"]:
        return _explain_collect(arguments[1:])
    if not arguments or arguments[0] not in {"http", "call"}:
        if arguments and arguments[0] in {"-h", "--help"}:
            request_parser("http", "doorward explain [http|call]", _EXPLAIN).parse_mixed(["--help"])
        arguments = ["http", *arguments]
    noun = arguments[0]
    options = request_parser(noun, f"doorward explain {noun}").parse_mixed(arguments[1:])
    request = request_of(noun, options)
    return ask(lambda client: client.explain(request), as_json=options.json, text=explanation, again=None)


def _explain_ssh(arguments: list[str]) -> int:
    from broker.cli.ssh import spelled  # noqa: PLC0415 - for SSH alone

    options, request = spelled("doorward explain ssh", arguments)
    return ask(lambda client: client.explain(request, action="ssh"), as_json=options.json, text=explanation, again=None)


def _explain_collect(arguments: list[str]) -> int:
    from broker.cli.collect import collect_parser, collect_request  # noqa: PLC0415 - for collections alone

    options = collect_parser("doorward explain collect").parse_mixed(arguments)
    request = collect_request(options)
    return ask(
        lambda client: client.explain(request, action="collect"), as_json=options.json, text=explanation, again=None
    )


def request_parser(noun: str, prog: str, epilog: str | None = None, *, json_option: bool = True) -> Parser:
    """The options that spell a request, for `http` or `call`."""
    parser = Parser(prog)
    parser.usage = f"{prog} {_WORDS[noun]} [options]"
    if noun == "http":
        parser.epilog = epilog or _HTTP
        body = parser.add_mutually_exclusive_group()
        body.add_argument("-d", "--data", metavar="TEXT", help="the body; @FILE reads a file, - standard input")
        body.add_argument("--json-body", metavar="JSON", help="the body as JSON; @FILE and - as above")
        body.add_argument("--upload", metavar="FILE", help="the body, of up to 16 MiB; - is standard input")
        parser.add_argument("-H", "--header", action="append", default=[], metavar="NAME: VALUE")
        parser.add_argument("-q", "--query", action="append", default=[], metavar="NAME=VALUE")
    else:
        parser.epilog = epilog or _CALL
    parser.add_argument("--output", metavar="FILE", help="put the body there, however large, as it comes; - for stdout")
    parser.add_argument("--request-id", metavar="ID", help="your name for it: a repeat gives the record, sends nothing")
    parser.add_argument("--reason", metavar="TEXT", help="why, for the human who may be asked")
    parser.add_argument(
        "--evidence", action="append", default=[], metavar="ID", help="a recorded collection to lean on"
    )
    parser.add_argument("--wait", type=seconds, metavar="SECONDS", help="how long to wait for a human; 0 does not")
    parser.add_argument("--deadline", type=seconds, metavar="SECONDS", help="how long the request itself may take")
    if json_option:
        parser.add_argument("--json", action="store_true", help="print the envelope")
    return parser


def request_of(noun: str, options: "argparse.Namespace") -> "dict[str, JsonValue]":
    """The request that the options spell. Raises UsageError."""
    for name, value in vars(options).items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and name != "data":
                refuse_broken_text(text, name)
    request = _http_part(options) if noun == "http" else call_part(options)
    if options.request_id is not None:
        request["request_id"] = options.request_id
    if options.reason is not None:
        request["reason"] = options.reason
    if options.evidence:
        request["evidence"] = options.evidence
    if options.wait is not None:
        request["wait_s"] = options.wait
    if options.deadline is not None:
        request["deadline"] = {"total_s": options.deadline}
    return request


def _http_part(options: "argparse.Namespace") -> "dict[str, JsonValue]":
    request: dict[str, JsonValue]
    match options.words:
        case [method, url] if "://" in url:
            request = {"method": method.upper(), "url": _with_query(url, options.query)}
        case [method, service, path] if path.startswith("/"):
            plain, query = _split_query(path, options.query)
            request = {"method": method.upper(), "service": service, "path": plain}
            if query:
                request["query"] = query
        case _:
            raise UsageError("say METHOD SERVICE PATH, the PATH beginning with /, or METHOD URL")
    headers: dict[str, JsonValue] = {}
    for line in options.header:
        name, colon, value = line.partition(":")
        if not colon or name.lower() in {known.lower() for known in headers}:
            raise UsageError(f"-H takes NAME: VALUE, each name once: {line!r}")
        headers[name] = value.strip()
    if headers:
        request["headers"] = headers
    if options.data is not None:
        request.update(_body(_content(options.data)))
    elif options.json_body is not None:
        request["body"] = _json(_content(options.json_body), "--json-body", container=True)
    return request


def call_part(options: "argparse.Namespace") -> "dict[str, JsonValue]":
    name = options.words[0] if options.words else ""
    service, dot, operation = name.partition(".")
    if not dot or not operation:
        raise UsageError("the operation is named SERVICE.OPERATION; doorward services lists them")
    args: dict[str, JsonValue] = {}
    for pair in options.words[1:]:
        name, equals, text = pair.partition("=")
        as_json = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name or name in args:
            raise UsageError(f"arguments are KEY=TEXT or KEY:=JSON, each key once: {pair!r}")
        args[name] = _json(text.encode(), name) if as_json else text
    return {"service": service, "operation": operation, "args": args}


def _split_query(path: str, pairs: list[str]) -> "tuple[str, dict[str, JsonValue]]":
    """A query written into the path and the -q options, as one table; a name given twice becomes a list."""
    if "#" in path:
        raise UsageError("a path has no fragment (#)")
    plain, mark, written = path.partition("?")
    table: dict[str, JsonValue] = {}
    if mark:
        from urllib.parse import parse_qsl  # noqa: PLC0415 - 3 ms, and only where a path holds a query

        try:
            found = parse_qsl(written, keep_blank_values=True, strict_parsing=bool(written), errors="strict")
        except ValueError:
            raise UsageError("the query in the path can't be read; give its parts by -q NAME=VALUE") from None
        for name, value in found:
            _add(table, name, value)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"-q takes NAME=VALUE: {pair!r}")
        _add(table, name, value)
    return plain, table


def _add(table: "dict[str, JsonValue]", name: str, value: str) -> None:
    before = table.get(name)
    if before is None:
        table[name] = value
    else:
        table[name] = [*before, value] if isinstance(before, list) else [before, value]


def _with_query(url: str, pairs: list[str]) -> str:
    if not pairs:
        return url
    from urllib.parse import urlencode  # noqa: PLC0415 - 3 ms, and only where -q stands beside a URL

    if "#" in url or not all("=" in pair for pair in pairs):
        raise UsageError("-q takes NAME=VALUE, and a URL with -q has no fragment (#)")
    return (
        url
        + ("&" if "?" in url else "?")
        + urlencode([(name, value) for name, _, value in (pair.partition("=") for pair in pairs)])
    )


def _content(given: str) -> bytes:
    """What -d and --json-body mean: text, @FILE, or - for standard input."""
    if given == "-":
        content = sys.stdin.buffer.read(MOST_BODY_BYTES + 1)
    elif given.startswith("@"):
        try:
            with open(given[1:], "rb") as file:  # noqa: PTH123 - no pathlib on this path
                content = file.read(MOST_BODY_BYTES + 1)
        except OSError as cause:
            raise UsageError(f"{given[1:]} can't be read: {cause.strerror}") from None
    else:
        return os.fsencode(given)
    if len(content) > MOST_BODY_BYTES:
        raise UsageError(f"the body has more than {MOST_BODY_BYTES} bytes")
    return content


def _body(content: bytes) -> "dict[str, JsonValue]":
    try:
        return {"body": content.decode("utf-8")}
    except UnicodeDecodeError:
        from base64 import b64encode  # noqa: PLC0415 - binary bodies are rare

        return {"body_b64": b64encode(content).decode("ascii")}


def _json(content: bytes, what: str, *, container: bool = False) -> "JsonValue":
    from broker.contract.wire import WireError, parse_json  # noqa: PLC0415 - loaded anyway before asking

    try:
        value = parse_json(content)
    except WireError as cause:
        raise UsageError(f"{what} is not JSON that can be sent: {cause}") from None
    if container and not isinstance(value, dict | list):
        raise UsageError(f"{what} takes an object or a list; -d takes anything else")
    return value


def refuse_broken_text(text: str, what: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{what} is not valid UTF-8") from None


def command_line(noun: str, arguments: list[str]) -> str:
    from shlex import join  # noqa: PLC0415 - argparse has loaded it

    return join(["doorward", noun, *arguments])


def explanation(answer: "dict[str, JsonValue]") -> tuple[list[str], int]:
    """Decision first, then what led to it. Allowed and to be asked count as yes."""
    from broker.contract.exits import EXIT_CODES, USAGE  # noqa: PLC0415 - only this verb needs them
    from broker.contract.neutralise import visible  # noqa: PLC0415 - likewise

    decision = str(answer.get("decision"))
    rules = answer.get("rules")
    named = ", ".join(str(rule) for rule in rules) if isinstance(rules, list) and rules else "none"
    out = [
        f"{decision}: {answer.get('message')}",
        f"operation: {answer.get('operation') or 'none'} ({answer.get('effect') or 'effect not known'})",
        f"gate: {answer.get('gate') or 'not reached'}; rules: {named}; "
        + ("a human would be asked now" if answer.get("card") else "no human would be asked"),
    ]
    needs = answer.get("evidence")
    for need in needs if isinstance(needs, list) else ():
        if isinstance(need, dict):
            out.append(f"evidence: {need.get('operation')} ({need.get('claim')}): {need.get('state')}")
            out += [f"  collect it with: {need['command']}"] if need.get("command") else []
    refused = EXIT_CODES[_REFUSED.get(str(answer.get("code")), "policy_denied")]
    code = {"allow": 0, "ask": 0, "invalid": USAGE}.get(decision, refused)
    return [visible(line) for line in out], code
