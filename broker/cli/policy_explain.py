"""`doorward policy explain`: which rule decides a request, asked by which agent. Nothing is sent, nobody is asked."""

from broker.cli.arguments import add_human_options
from broker.cli.http import explanation, request_of, request_parser
from broker.cli.output import show
from broker.cli.reach import desk
from broker.contract.neutralise import visible, visible_json
from broker.contract.wire import JsonValue, dump


def explain(arguments: list[str]) -> int:
    noun = arguments[0] if arguments[:1] in (["http"], ["call"]) else "http"
    words = arguments[1:] if arguments[:1] == [noun] else arguments
    parser = request_parser(noun, f"doorward policy explain {noun}", json_option=False)
    add_human_options(parser)
    parser.add_argument("--agent", metavar="NAME", help="as this agent of [agents]; left out: one that no entry names")
    options = parser.parse_mixed(words)
    request = request_of(noun, options)
    with desk(options, transient=True, session=True) as reached:
        answer = reached.control.explain(request, agent=options.agent)
    lines, code = explanation(answer)
    trace = answer.get("trace")
    lines += [f"  {_step(step)}" for step in (trace if isinstance(trace, list) else [])]
    show(answer, lines, as_json=options.json)
    return code


def _step(step: JsonValue) -> str:
    """One rule that was looked at, field by field."""
    if isinstance(step, dict):
        told = (f"{name}={value if isinstance(value, str) else dump(value).decode()}" for name, value in step.items())
        return visible(", ".join(told))
    return visible_json(dump(step).decode())
