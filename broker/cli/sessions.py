"""`doorward sessions` and `doorward grants`: who may do what now, and taking it away. Only unmuting is signed."""

import time
from argparse import Namespace
from collections.abc import Sequence

from broker.cli.arguments import Verbs
from broker.cli.output import number, show, table, text
from broker.cli.reach import desk, places, running
from broker.client.card_words import duration
from broker.client.envelope_lines import part
from broker.client.hardening import harden
from broker.contract.exits import FAULTS_FOUND
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject


def run(noun: str, arguments: list[str]) -> int:
    harden()
    options = (_session_verbs() if noun == "sessions" else _grant_verbs()).parser.parse_args(arguments)
    match (noun, options.verb):
        case ("sessions", "list"):
            return _sessions(options)
        case ("sessions", "unmute"):
            return _unmute(options)
        case ("sessions", verb):
            return _end_or_mute(options, verb)
        case (_, "list"):
            return _grants(options)
        case _:
            return _revoke_grant(options)


def _session_verbs() -> Verbs:
    verbs = Verbs("sessions", "Live sessions: one agent process, or one process tree each.")
    verbs.add("list", "who is there")
    ended = verbs.add("revoke", "end a session and its grants")
    ended.add_argument(
        "--kill",
        action="store_true",
        help="and kill its processes at once (SIGKILL), orphans too where its tree has a cgroup; says what may be left",
    )
    muted = verbs.add("mute", "its requests no longer reach a human")
    heard = verbs.add("unmute", "hear it again")
    for verb in (ended, muted, heard):
        verb.add_argument("id", metavar="ID")
    return verbs


def _grant_verbs() -> Verbs:
    verbs = Verbs("grants", "What sessions may do without asking again.")
    verbs.add("list", "what is granted")
    verbs.add("revoke", "take a grant away").add_argument("id", metavar="ID")
    return verbs


def _sessions(options: Namespace) -> int:
    with running(places()) as control:
        found = control.sessions()
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (
            item.get("id"),
            item.get("agent") if item.get("identified") else f"! {item.get('agent')}",
            item.get("pid"),
            item.get("span"),
            duration(now_ms - number(item, "opened_at_ms")),
            item.get("calls"),
            item.get("denied"),
            item.get("grants"),
            "MUTED" if item.get("muted") else "",
            f"container {item.get('container')}" if item.get("container") else item.get("cwd"),
            item.get("label"),
        )
        for item in found
    ]
    headings = ("Id", "Who", "Pid", "Span", "Age", "Calls", "Denied", "Grants", "Muted", "Where", "Label says")
    lines = [*table(headings, rows), *_unnamed(found)] if rows else ["no session"]
    show({"sessions": found}, lines, as_json=options.json)
    return 0


def _unnamed(found: Sequence[JsonObject]) -> list[str]:
    """For each program without a name, what the policy would have to say; each once."""
    offered: list[str] = []
    for item in found:
        naming = part(item, "naming")
        exe, argv = naming.get("exe"), naming.get("argv")
        if isinstance(exe, str):
            words = f'exe = "{visible(exe)}"' + (f', argv = "{visible(argv)}"' if isinstance(argv, str) else "")
            line = f"to name it, under [agents] of a policy: NAME = {{ {words} }}"
            offered += [line] if line not in offered else []
    return ["", *offered] if offered else []


def _end_or_mute(options: Namespace, verb: str) -> int:
    with running(places()) as control:
        if verb == "mute":
            answer, did = control.mute(options.id), "muted"
        else:
            answer, did = control.revoke_session(options.id, kill=options.kill), "ended"
    show(answer, [f"{did} {visible(options.id)}", *_killed(part(answer, "kill"))], as_json=options.json)
    return FAULTS_FOUND if verb == "revoke" and options.kill and answer.get("killed") is not True else 0


def _killed(told: JsonObject) -> list[str]:
    """What of its processes was ended, how, and what may be left."""
    if not told:
        return []
    ended, left = number(told, "processes"), number(told, "left")
    by = {"cgroup": " with the tree's own cgroup", "tree": " by its process tree", "process": " alone"}
    lines = [
        f"killed {ended} process{'' if ended == 1 else 'es'}{by.get(text(told, 'way'), ': nothing could be sent')}"
    ]
    if left:
        lines.append(f"! {left} still run: another user's, or not gone in time")
    return [*lines, text(told, "escape")]


def _unmute(options: Namespace) -> int:
    with desk(options, transient=False) as reached:
        answer = reached.control.unmute(options.id, reached.key)
    show(answer, [f"hearing {visible(options.id)} again"], as_json=options.json)
    return 0


def _grants(options: Namespace) -> int:
    with running(places()) as control:
        found = control.grants()
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (
            item.get("id"),
            item.get("agent"),
            item.get("scope"),
            item.get("effect"),
            f"{text(item, 'used')}/{text(item, 'max_uses')}",
            f"{duration(number(item, 'expires_at_ms') - now_ms)} left",
        )
        for item in found
    ]
    headings = ("Id", "Who", "Covers", "Effect", "Used", "Time")
    show({"grants": found}, table(headings, rows) if rows else ["no grant"], as_json=options.json)
    return 0


def _revoke_grant(options: Namespace) -> int:
    with running(places()) as control:
        answer = control.revoke_grant(options.id)
    show(answer, [f"took {visible(options.id)} away"], as_json=options.json)
    return 0
