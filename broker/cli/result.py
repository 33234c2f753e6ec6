"""`doorward result` and `doorward reconcile`: what became of an earlier request."""

from broker.cli.agent_side import ask
from broker.cli.arguments import Parser, seconds
from broker.cli.faults import UsageError

_ID_DIGITS = 44


def run(noun: str, arguments: list[str]) -> int:
    parser = Parser(f"doorward {noun}")
    parser.add_argument("correlation_id", metavar="CORRELATION_ID")
    parser.add_argument("--json", action="store_true", help="print the envelope")
    if noun == "result":
        parser.add_argument(
            "--wait", type=seconds, default=0.0, metavar="SECONDS", help="wait for a human or for its end"
        )
    options = parser.parse_args(arguments)
    name = correlation_id(options.correlation_id)
    if noun == "result":
        wait_s = options.wait
        return ask(
            lambda client: client.result(name, wait_s=wait_s), as_json=options.json, again=f"doorward result {name}"
        )
    return ask(lambda client: client.reconcile(name), as_json=options.json, again=f"doorward reconcile {name}")


def correlation_id(text: str) -> str:
    """The name of a request, as the daemon spells it."""
    digits = text.removeprefix("op_")
    if digits == text or len(digits) != _ID_DIGITS or digits.strip("0123456789abcdef"):
        raise UsageError(f"a correlation id is op_ and {_ID_DIGITS} hexadecimal digits: {text!r} is none")
    return text
