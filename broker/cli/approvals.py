"""`doorward approvals`: the same decisions as the screen's, for ssh sessions and scripts.

A yes is signed over the card that was shown here, no sooner than its arming time after it was shown. A no needs no
passphrase. Listing shows what anybody who reaches the socket may know; the whole card needs the approver key.
"""

import shutil
import sys
import time
from argparse import Namespace
from collections import Counter

from broker.cli import credential_wants
from broker.cli.arguments import Verbs
from broker.cli.faults import CliError, UsageError
from broker.cli.output import number, show, table, text
from broker.cli.prompts import confirmed, word
from broker.cli.reach import desk, places, running
from broker.client import before_words, evidence_words
from broker.client.card_evidence import COLLECT, LIMIT
from broker.client.card_text import card_lines
from broker.client.card_words import countdown, lifetime, yes_once, yes_session
from broker.client.control import ControlClient, Served
from broker.client.control_people import People
from broker.client.credential_line import is_want
from broker.client.faults import Refused
from broker.client.hardening import harden
from broker.client.reasons_ready import READY_NAMES, READY_REASONS
from broker.contract.exits import FAULTS_FOUND
from broker.contract.neutralise import visible, visible_json
from broker.contract.reasons import ApprovalState
from broker.contract.wire import JsonObject, JsonValue, dump, parse_object

READ_BACK = "read-back"
_QUESTIONS = {COLLECT: "Collect on?", LIMIT: "Limit it?", READ_BACK: "Read back first?"}
LONGEST_ARMING_S = 60.0
_ROUNDING_S = 0.05  # the daemon counts by its own clock


def run(noun: str, arguments: list[str]) -> int:
    harden()
    options = _verbs(noun).parser.parse_args(arguments)
    match options.verb:
        case "list":
            return _list(options)
        case "show":
            return _show(options)
        case "approve":
            return _approve(options)
        case "collect" | "limit" | "read-back":
            return _choose(options)
        case _:
            return _deny(options)


def _verbs(noun: str) -> Verbs:
    verbs = Verbs(noun, "Requests that wait for a human, and the answers to them.")
    listed = verbs.add("list", "the cards")
    states = ("all", *(state.value for state in ApprovalState))
    listed.add_argument("--state", default="pending", choices=states, help="default: those that wait")
    listed.add_argument("--follow", action="store_true", help="go on: one line for each change")
    shown = verbs.add("show", "a whole card")
    yes = verbs.add("approve", "say yes to exactly what the card shows")
    yes.add_argument("--scope", choices=("once", "session"), default="once")
    yes.add_argument("--confirm", metavar="WORD", help="the word that the card asks for")
    ways = (
        verbs.add(COLLECT, "have what is missing read, then be asked again"),
        verbs.add(LIMIT, "have it asked for the proven targets alone"),
        verbs.add(READ_BACK, "have it looked at first what became of an earlier attempt"),
    )
    no = verbs.add("deny", "say no")
    no.add_argument("--end-session", action="store_true", help="and end the agent's session")
    no.add_argument("--because", choices=READY_NAMES, help="a reason that is ready: " + "; ".join(READY_REASONS))
    for verb in (yes, no):
        verb.add_argument("--reason", metavar="TEXT", help="your words; a denial's are told to the agent")
    for verb in (shown, yes, *ways):
        verb.add_argument("id", metavar="ID")
    no.add_argument("ids", metavar="ID", nargs="+")
    return verbs


def _list(options: Namespace) -> int:
    state = None if options.state == "all" else options.state
    with running(places()) as control:
        if options.follow:
            return _follow(control, state, as_json=options.json)
        found = control.approvals(state=state)
        wants = credential_wants.waiting(control) if state in {None, "pending"} else []
    lines = [*_listing(found), *credential_wants.listing(wants, _now_ms())]
    show({"approvals": [*found], "credential_requests": [*wants]}, lines, as_json=options.json)
    return 0


def _follow(control: ControlClient, state: str | None, *, as_json: bool) -> int:
    """What there is, then one line for each change, until interrupted or the daemon goes."""
    with control.events() as stream:  # before the first look, so that nothing falls between
        found = control.approvals(state=state)
        for item in found:
            _line(item, as_json=as_json)
        for want in credential_wants.waiting(control):
            _want_line(want, as_json=as_json)
        last: dict[str, JsonValue] = {str(item.get("id")): item.get("state") for item in found}
        for event in stream:
            if event is not None and event.name in {"approval", "reset"}:
                _changes(control, last, as_json=as_json)
            elif event is not None and event.name == "credential_request":
                _want_changed(control, parse_object(event.data.encode()).get("id"), as_json=as_json)
    return 0


def _want_changed(control: ControlClient, want_id: JsonValue, *, as_json: bool) -> None:
    for want in People(control).wants():
        if want.get("id") == want_id:
            _want_line(want, as_json=as_json)


def _want_line(want: JsonObject, *, as_json: bool) -> None:
    what = f"{text(want, 'id')} {text(want, 'state'):<8} CREDENTIAL {text(want, 'credential')}"
    line = f"{what} for {text(want, 'service')} ({text(want, 'agent')})"
    print(visible_json(dump(want).decode()) if as_json else line, flush=True)


def _changes(control: ControlClient, last: dict[str, JsonValue], *, as_json: bool) -> None:
    """Print what is not as it was; `last` is brought up to date."""
    for item in control.approvals():
        name = str(item.get("id"))
        if last.get(name) != item.get("state"):
            last[name] = item.get("state")
            _line(item, as_json=as_json)


def _line(item: JsonObject, *, as_json: bool) -> None:
    what = f"{text(item, 'id')} {text(item, 'state'):<8} {text(item, 'effect'):<6} {text(item, 'operation')}"
    line = f"{what} {text(item, 'target')} ({text(item, 'agent')})"
    print(visible_json(dump(item).decode()) if as_json else line, flush=True)


def _listing(found: list[dict[str, JsonValue]]) -> list[str]:
    if not found:
        return ["nothing waits for you"]
    now_ms, seen = _now_ms(), Counter[JsonValue]()
    rows = [
        (
            item.get("id"),
            item.get("effect"),
            _grouped(item, seen),
            item.get("target"),
            item.get("agent"),
            countdown(number(item, "expires_at_ms") - now_ms) if item.get("state") == "pending" else item.get("state"),
        )
        for item in found
    ]
    return table(("Id", "Effect", "Operation", "Target", "Agent", "Left or state"), rows)


def _grouped(item: JsonObject, seen: "Counter[JsonValue]") -> JsonValue:
    """The operation; numbered where several of a kind wait, each of which is answered by itself."""
    size = number(item, "group_size")
    if size <= 1 or item.get("state") != "pending":
        return item.get("operation")
    seen[item.get("group")] += 1
    return f"{item.get('operation')} ({seen[item.get('group')]} of {size})"


def _show(options: Namespace) -> int:
    if is_want(options.id):
        return credential_wants.show_one(options, _now_ms())
    with desk(options, transient=False, session=True) as reached:
        served = reached.control.approval(options.id)
    show(served.raw, _card(served), as_json=options.json)
    return 0


def _card(served: Served) -> list[str]:
    return card_lines(
        served.card,
        card_digest=served.digest,
        state=served.state,
        expires_at_ms=served.expires_at_ms,
        joined=served.joined,
        now_ms=_now_ms(),
        width=shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80,
    )


def _approve(options: Namespace) -> int:
    with desk(options, transient=False, session=True) as reached:
        served = reached.control.approval(options.id)
        shown_at = time.monotonic()
        print("\n".join(_card(served)), file=sys.stderr if options.json else sys.stdout, flush=True)
        _refuse_unanswerable(served, options)
        confirm = _agreed(served, options)
        _wait_armed(served, shown_at)
        answer = reached.control.approve(
            served, reached.key, scope=options.scope, confirm=confirm, reason=options.reason
        )
    state = answer.get("state")
    covers = (
        yes_session(served.card) if options.scope == "session" else yes_once(served.card, joined_calls=served.joined)
    )
    show(answer, ["", f"{text(answer, 'state')}: {covers}"], as_json=options.json)
    return 0 if state == "approved" else 1


def _choose(options: Namespace) -> int:
    """Another way than a yes or a no, where the card offers it. It sends nothing of what was asked for."""
    with desk(options, transient=False, session=True) as reached:
        served = reached.control.approval(options.id)
        shown_at = time.monotonic()
        print("\n".join(_card(served)), file=sys.stderr if options.json else sys.stdout, flush=True)
        covers = _offered(served, options.verb)
        if not confirmed(_QUESTIONS[options.verb], yes=options.yes):
            raise CliError("not answered; the card still waits")
        _wait_armed(served, shown_at)
        answer = reached.control.approve(served, reached.key, choice=options.verb.replace("-", "_"))
    show(answer, ["", f"{text(answer, 'state')}: {covers}"], as_json=options.json)
    return 0 if answer.get("state") == "superseded" else 1


def _offered(served: Served, choice: str) -> str:
    if served.state != "pending":
        raise CliError(f"this card is {served.state}; it can no longer be answered", code="settled")
    evidence = served.card.evidence
    match choice:
        case "collect":
            covers = evidence_words.collect(evidence)
        case "limit":
            covers = evidence_words.limit(evidence)
        case _:
            covers = before_words.read_back(served.card)
    if covers is None:
        raise CliError(f"this card offers no {choice}; see: doorward approvals show {served.id}")
    return covers


def _refuse_unanswerable(served: Served, options: Namespace) -> None:
    if served.state != "pending":
        raise CliError(f"this card is {served.state}; it can no longer be answered", code="settled")
    if options.scope == "session" and not served.card.yes.session.offered:
        raise CliError(f"no grant to the session is offered: {served.card.yes.session.why_not or 'no reason is given'}")


def _agreed(served: Served, options: Namespace) -> str | None:
    """The typed word where the card asks for one; else a plain yes. Raises CliError where the human does neither."""
    wanted = served.card.typed_word
    if wanted is None:
        what = "Grant this to the session?" if options.scope == "session" else "Approve once?"
        if not confirmed(what, yes=options.yes):
            raise CliError("not approved; the card still waits")
        return None
    given = options.confirm
    if given is None:
        if options.yes:
            raise CliError(f"this card asks for its word: --confirm {wanted}")
        given = word(f"Type {wanted} to approve:")
    if given != wanted:
        raise CliError("that is not the word; not approved, the card still waits", code="wrong_confirm")
    return str(given)


def _wait_armed(served: Served, shown_at: float) -> None:
    """A card can't be approved sooner after it was shown than its arming time."""
    arming_s = min(served.arming_ms / 1000, LONGEST_ARMING_S) + _ROUNDING_S
    left = shown_at + arming_s - time.monotonic()
    if left > 0:
        time.sleep(left)


def _deny(options: Namespace) -> int:
    """No to each, by itself: one that can't be denied any more keeps none of the others waiting."""
    reason = options.reason
    if options.because is not None:
        if reason is not None:
            raise UsageError("either --reason or --because")
        reason = READY_REASONS[READY_NAMES.index(options.because)]
    code, refused = 0, None
    for name in options.ids:
        try:
            code = max(code, _deny_one(name, reason, options))
        except Refused as fault:
            if len(options.ids) > 1:
                print(f"doorward: {visible(name)}: {visible(str(fault))}", file=sys.stderr, flush=True)
            refused = fault
    if refused is not None and len(options.ids) == 1:
        raise refused
    return code if refused is None else FAULTS_FOUND


def _deny_one(name: str, reason: str | None, options: Namespace) -> int:
    if is_want(name):
        return credential_wants.decline(name, reason, as_json=options.json)
    with running(places()) as control:
        answer = control.deny(name, reason=reason, end_session=options.end_session)
    ended = "; its session is ended" if options.end_session else ""
    remembered = number(answer, "memory_s")
    stands = f"; the same change is refused for {lifetime(remembered)} without asking" if remembered else ""
    which = f"{text(answer, 'id')} " if len(options.ids) > 1 else ""
    show(answer, [f"{which}{text(answer, 'state')}: nothing is sent{stands}{ended}"], as_json=options.json)
    return 0 if answer.get("state") == "denied" else 1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
