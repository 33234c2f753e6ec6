"""`doorward policy explain`: which rule decides a request, asked by which agent. Nothing is sent, nobody is asked."""

from argparse import Namespace

from broker.cli.arguments import add_human_options
from broker.cli.http import request_of, request_parser
from broker.cli.output import show, text
from broker.cli.reach import desk
from broker.cli.ssh import command_parser, command_request
from broker.client.envelope_lines import part, parts
from broker.contract.exits import EXIT_CODES, USAGE
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject

_DECISIONS = {
    "none": "it would be sent without asking",
    "session": "a human would be asked once in a session",
    "per_call": "a human would be asked each time",
    "deny": "no rule opens it, or one forbids it",
    "invalid": "the policy does not know such a request",
}
_EXAMPLES = """examples:
  doorward policy explain GET github /user
  doorward policy explain call github.issues.list owner=acme repo=site --agent claude-code
  doorward policy explain ssh web-3 -- systemctl restart nginx"""
_CODES = {"none": 0, "session": 0, "per_call": 0}


def explain(arguments: list[str]) -> int:
    if arguments[:1] == ["ssh"]:
        return _explain_ssh(arguments[1:])
    noun = arguments[0] if arguments[:1] in (["http"], ["call"]) else "http"
    words = arguments[1:] if arguments[:1] == [noun] else arguments
    parser = request_parser(noun, f"doorward policy explain {noun}", _EXAMPLES, json_option=False)
    add_human_options(parser)
    parser.add_argument("--agent", metavar="NAME", help="as this agent of [agents]; left out: one that no entry names")
    options = parser.parse_mixed(words)
    request = request_of(noun, options)
    return _told(options, request, "http")


def _explain_ssh(arguments: list[str]) -> int:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    parser = command_parser("doorward policy explain ssh", json_option=False)
    add_human_options(parser)
    parser.add_argument("--agent", metavar="NAME", help="as this agent of [agents]; left out: one that no entry names")
    options = parser.parse_mixed(arguments[:at])
    return _told(options, command_request(options, arguments[at + 1 :]), "ssh")


def _told(options: Namespace, request: JsonObject, action: str) -> int:
    with desk(options, transient=True, session=True) as reached:
        answer = reached.control.explain(request, agent=options.agent, action=action)
    decision = str(answer.get("decision"))
    show(answer, _lines(answer, decision), as_json=options.json)
    return USAGE if decision == "invalid" else _CODES.get(decision, EXIT_CODES["policy_denied"])


def _lines(answer: JsonObject, decision: str) -> list[str]:
    """The decision, what it rests on, and each rule that was looked at."""
    head = f"{visible(decision)}: {_DECISIONS.get(decision, 'it would be refused')}"
    if answer.get("message") is not None:
        return [head, text(answer, "message")]
    about = f"{text(answer, 'effect').upper()} {text(answer, 'operation')}"
    grant = part(answer, "grant")
    out = [head, f"{about}, asked by {text(answer, 'agent')}", f"rules: {text(answer, 'rules')}"]
    if answer.get("place") is not None:
        place = text(answer, "place")
        out.append(f"in {place}" if place.startswith("/") else f"in policies/{place}")
    if grant:
        out.append(f"a grant covers: {_fields(grant)}")
    card = part(answer, "card")
    if card:
        out.append(f"the card: {_fields(card)}")
    out += [_need(need) for need in parts(answer, "needs")]
    trace = parts(answer, "trace")
    return [*out, *(f"  {'+' if step.get('matched') else '-'} {_step(step)}" for step in trace)]


def _need(need: JsonObject) -> str:
    """What has to be known first, and by which rule."""
    rule, operation = text(need, "rule"), text(need, "operation")
    if need.get("kind") == "precheck":
        return f"needs ({rule}): {operation} just before, whose answer is {text(need, 'expect')}"
    known = f"each of {text(need, 'covers')} {text(need, 'claim')} in a complete {operation}"
    missing = "the human is asked" if need.get("otherwise") == "ask" else "refused"
    return f"needs ({rule}): {known}, at most {text(need, 'max_age_s')} s old; else {missing}"


def _step(step: JsonObject) -> str:
    if step.get("rule") is None:
        return _fields(step)
    why = "matches" if step.get("matched") else f"does not match: {text(step, 'failed')}"
    return f"{text(step, 'rule')} ({text(step, 'approval')}, {text(step, 'place')}) {why}"


def _fields(value: JsonObject) -> str:
    return ", ".join(f"{visible(name)} {text(value, name)}" for name in value)
