"""`doorward audit show`: the log's events, opened by the daemon for who holds the approver key; also as they come.

Without --after-seq the last ones that match. Everything in an event was chosen by somebody else: it is neutralised.
"""

import re
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress

from broker.cli.arguments import positive_number, whole_number
from broker.cli.moments import FORMS, told_moment
from broker.cli.output import number, text
from broker.cli.reach import desk
from broker.client.approver import ApproverKey
from broker.client.control import ControlClient
from broker.client.envelope_lines import parts
from broker.client.faults import ClientError, Refused
from broker.contract.neutralise import visible, visible_json
from broker.contract.reasons import Category
from broker.contract.wire import JsonObject, JsonValue, dump

DEFAULT_EVENTS = 50
FOLLOWED_FROM = 10
PAGE = 500
LOOK_EVERY_S = 0.5
TRY_AGAIN_S = 1.0
DIGEST_SHOWN = 8  # of its hexadecimal digits
VALUE_SHOWN = 60
BEYOND_ALL = (1 << 53) - 1
_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{32,}")
_WAITABLE = {"vault_locked", "control_session_required", "limit", "internal"}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--since", type=told_moment, metavar="TIME", help=f"from then on: {FORMS}")
    parser.add_argument("--until", type=told_moment, metavar="TIME", help="before then, likewise")
    parser.add_argument("--agent", metavar="NAME", help="of this agent, its sessions and requests")
    parser.add_argument("--session", metavar="ID", help="of one session")
    parser.add_argument("--operation", metavar="NAME", help="of one operation, or of a service")
    parser.add_argument("--category", choices=[one.value for one in Category], help="ends of this kind")
    parser.add_argument("--correlation-id", metavar="ID", help="of one request")
    parser.add_argument("--event", metavar="NAME", help="of one kind")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--after-seq", type=whole_number, metavar="N", help="the first ones after record N")
    place.add_argument("--before-seq", type=whole_number, metavar="N", help="the last ones before record N")
    parser.add_argument("--limit", type=positive_number, metavar="N", help=f"at most N; default {DEFAULT_EVENTS}")
    parser.add_argument("--follow", action="store_true", help="go on: each event as it is recorded, until Ctrl-C")


def run(options: Namespace) -> int:
    filters = _filters(options)
    with desk(options, transient=not options.follow, session=True) as reached:
        if options.follow:
            with suppress(KeyboardInterrupt):
                _follow(reached.control, reached.key, options, filters)
            return 0
        limit = options.limit or DEFAULT_EVENTS
        if options.after_seq is not None:
            found, more = _first(reached.control, options.after_seq, limit, filters)
        else:
            found, more = _last(reached.control, _before(options), limit, filters)
    for event in found:
        _print(event, as_json=options.json)
    if not options.json:
        _print_rest(found, more, forwards=options.after_seq is not None)
    return 0


def _filters(options: Namespace) -> dict[str, str | int | None]:
    names = ("since", "until", "agent", "session", "operation", "category", "correlation_id", "event")
    return {name: getattr(options, name) for name in names}


def _before(options: Namespace) -> int:
    return BEYOND_ALL if options.before_seq is None else int(options.before_seq)


def _first(
    control: ControlClient, after_seq: int, limit: int, filters: dict[str, str | int | None]
) -> tuple[list[JsonObject], int | None]:
    """The first `limit` events after a place, and where there may be more."""
    found: list[JsonObject] = []
    after: int | None = after_seq
    while after is not None and len(found) < limit:
        answer = control.audit_events(after_seq=after, limit=min(limit - len(found), PAGE), **filters)
        found += parts(answer, "events")
        after = _next(answer)
    return found, after


def _last(
    control: ControlClient, before_seq: int, limit: int, filters: dict[str, str | int | None]
) -> tuple[list[JsonObject], int | None]:
    """The last `limit` events before a place, oldest first, and where there may be more."""
    found: list[JsonObject] = []
    before: int | None = before_seq
    while before is not None and len(found) < limit:
        answer = control.audit_events(before_seq=before, limit=min(limit - len(found), PAGE), **filters)
        found = [*parts(answer, "events"), *found]
        before = _next(answer)
    return found, before


def _next(answer: JsonObject) -> int | None:
    value = answer.get("next_seq")
    return value if isinstance(value, int) else None


def _print_rest(found: list[JsonObject], more: int | None, *, forwards: bool) -> None:
    if not found:
        print("no such event")
    elif more is not None:
        print(f"there may be more: --{'after' if forwards else 'before'}-seq {more}")


def _follow(control: ControlClient, key: ApproverKey, options: Namespace, filters: dict[str, str | int | None]) -> None:
    """What there is last, then what comes. A lost daemon or a locked vault is told, and waited for."""
    if options.after_seq is not None:
        after = int(options.after_seq)
    else:
        newest = control.audit_events(before_seq=BEYOND_ALL, limit=1)
        found, _ = _last(control, number(newest, "head") + 1, options.limit or FOLLOWED_FROM, filters)
        for event in found:
            _print(event, as_json=options.json)
        after = number(newest, "head")
    for event in _coming(control, key, after, filters):
        _print(event, as_json=options.json)


def _coming(
    control: ControlClient, key: ApproverKey, after: int, filters: dict[str, str | int | None]
) -> Iterator[JsonObject]:
    told = ""
    while True:
        try:
            if told:
                control.open_session(key)
            answer = control.audit_events(after_seq=after, limit=PAGE, **filters)
        except ClientError as fault:
            if isinstance(fault, Refused) and fault.code not in _WAITABLE:
                raise
            if told != (told := _why(fault)):
                _say(told)
            control.close()
            time.sleep(TRY_AGAIN_S)
            continue
        if told:
            told = ""
            _say("reading the log again")
        yield from parts(answer, "events")
        more = _next(answer)
        after = number(answer, "head") if more is None else more
        if more is None:
            time.sleep(LOOK_EVERY_S)


def _why(fault: ClientError) -> str:
    if isinstance(fault, Refused) and fault.code in {"vault_locked", "control_session_required"}:
        return "the vault is locked; waiting until it is opened again"
    if isinstance(fault, Refused):
        return f"the daemon does not answer this now ({visible(str(fault))}); trying on"
    return "the daemon is gone; waiting until it runs again"


def _say(words: str) -> None:
    print(f"doorward: {words}", file=sys.stderr, flush=True)


def _print(event: JsonObject, *, as_json: bool) -> None:
    line = visible_json(dump(event).decode()) if as_json else line_of(event, short=sys.stdout.isatty())
    print(line, flush=True)


def line_of(event: JsonObject, *, short: bool = False) -> str:
    """One event as one line: when, which record, what, its fields, and the request it belongs to.

    With `short` what nobody reads is cut: digests, signatures and objects. The ids at the end stay whole.
    """
    seq = f"{number(event, 'seq'):>8}"
    if "unreadable" in event:
        return f"{'-':<23} {seq}  ! {text(event, 'unreadable')}"
    at_ms = number(event, "at_ms")
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000)) + f".{at_ms % 1000:03}"
    fields = event.get("fields")
    told = [
        f"{visible(name)} {_cut(value) if short else _spelled(value)}"
        for name, value in (fields.items() if isinstance(fields, dict) else ())
        if value is not None and value not in ("", [])
    ]
    ids = [visible(str(event[name])) for name in ("session_id", "correlation_id") if event.get(name) is not None]
    return f"{at} {seq}  {text(event, 'event'):<19} {'  '.join([*told, *ids])}".rstrip()


def _cut(value: JsonValue) -> str:
    if isinstance(value, dict):
        return "{...}"
    spelled = _spelled(value)
    if _DIGEST.fullmatch(spelled):
        return f"{spelled[: spelled.find(':') + 1 + DIGEST_SHOWN]}..."
    return spelled if len(spelled) <= VALUE_SHOWN else f"{spelled[:VALUE_SHOWN]}..."


def _spelled(value: JsonValue) -> str:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(visible(str(one)) for one in value)
    return visible(dump(value).decode())
