"""`doorward diagnostics`: the kept details of one failure, opened with the vault's key. Credentials are not in them."""

import base64
from argparse import Namespace

from broker.cli.arguments import Verbs
from broker.cli.output import number, show, text
from broker.cli.reach import desk
from broker.client.card_words import clock_time
from broker.client.envelope_lines import part, parts
from broker.client.hardening import harden
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject

BYTES_IN_A_LINE = 32
MOST_BINARY_BYTES = 1024  # the rest is in --json


def run(noun: str, arguments: list[str]) -> int:
    harden()
    verbs = Verbs(noun, "Details of failures that no agent gets: status, headers, body, timings, and what decided.")
    shown = verbs.add("show", "what was kept under a reference")
    shown.add_argument("ref", metavar="REF", help="the diagnostics_ref of a result, diag_...")
    return _show(verbs.parser.parse_args(arguments))


def _show(options: Namespace) -> int:
    with desk(options, transient=True, session=True) as reached:
        found = reached.control.diagnostic(options.ref)
    show(found, _lines(found), as_json=options.json)
    return 0


def _lines(found: JsonObject) -> list[str]:
    when = clock_time(number(found, "kept_at_ms"))
    out = [
        f"{text(found, 'operation')}: {text(found, 'category')} ({text(found, 'code')})",
        f"of {text(found, 'correlation_id')}, {when}; request {text(found, 'request_digest')}",
        f"got to: {text(found, 'phase')}; fault: {text(found, 'fault')}; took {number(found, 'elapsed_ms')} ms",
    ]
    reached = part(found, "phase_ms")
    if reached:
        out.append("phases:  " + ", ".join(f"{visible(name)} at {text(reached, name)} ms" for name in reached))
    out.append("decided by: " + _decided(part(found, "decided_by")))
    http, ssh = part(found, "http"), part(found, "ssh")
    return [*out, *(_http(http) if http else []), *(_ssh(ssh) if ssh else [])]


def _decided(grounds: JsonObject) -> str:
    told = [text(grounds, "step")]
    if grounds.get("field"):
        told.append(f"field {text(grounds, 'field')}")
    if grounds.get("predicate"):
        told.append(f"predicate {text(grounds, 'predicate')}")
    if grounds.get("broken"):
        told.append(text(grounds, "broken"))
    return "; ".join(told)


def _http(http: JsonObject) -> list[str]:
    out = ["", f"HTTP {text(http, 'status')}; {number(http, 'sent_body_bytes')} bytes of body sent"]
    for header in parts(http, "headers"):
        value = "(withheld)" if header.get("value") is None else text(header, "value")
        name = "(withheld)" if header.get("name") is None else text(header, "name")
        out.append(f"  {name}: {value}" + (" (cut)" if header.get("cut") else ""))
    if number(http, "headers_cut"):
        out.append(f"  ({number(http, 'headers_cut')} more headers)")
    return [*out, "", *_octets("body", part(http, "body"))]


def _ssh(ssh: JsonObject) -> list[str]:
    out = ["", f"exit status {text(ssh, 'exit_status')}, signal {text(ssh, 'exit_signal')}"]
    for name in ("stdout", "stderr", "said"):
        out += _octets(name, part(ssh, name))
    return out


def _octets(name: str, about: JsonObject) -> list[str]:
    whole = "" if about.get("complete") else ", not whole"
    head = f"{name}: {number(about, 'bytes')} bytes{whole}, sha256 {text(about, 'sha256')}"
    if about.get("withheld"):
        return [head, "  (withheld: it held something of the credential that can't be cut out)"]
    cut = [f"  ({number(about, 'cut_bytes')} more bytes were not kept)"] if number(about, "cut_bytes") else []
    said = about.get("text")
    if isinstance(said, str):
        return [head, *(f"  {line}" for line in visible(said, multiline=True).splitlines()), *cut]
    return [head, *_binary(about), *cut]


def _binary(about: JsonObject) -> list[str]:
    try:
        octets = base64.b64decode(str(about.get("base64") or ""), validate=True)
    except ValueError:
        return []
    shown = octets[:MOST_BINARY_BYTES]
    rest = len(octets) - len(shown)
    lines = [f"  {shown[at : at + BYTES_IN_A_LINE].hex()}" for at in range(0, len(shown), BYTES_IN_A_LINE)]
    return [*lines, *([f"  ({rest} more in --json)"] if rest else [])]
