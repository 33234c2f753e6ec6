"""`doorward request-credential`: have a human asked to add the credential of a service that the policy names."""

from broker.cli.agent_side import ask
from broker.cli.arguments import Parser, seconds
from broker.cli.http import command_line, refuse_broken_text

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from broker.contract.wire import JsonValue

_EPILOG = """The policy says which credential that is and which hosts it is for. The answer tells whether it is there
now: success, or call_denied where a human said no.

example:
  doorward request-credential github --purpose "reading the issues of acme/site" """


def run(noun: str, arguments: list[str]) -> int:
    parser = Parser(f"doorward {noun}")
    parser.epilog = _EPILOG
    parser.add_argument("service", metavar="SERVICE")
    parser.add_argument("--purpose", required=True, metavar="TEXT", help="what it is wanted for; a human reads it")
    parser.add_argument("--wait", type=seconds, metavar="SECONDS", help="how long to wait for a human; 0 does not")
    parser.add_argument("--json", action="store_true", help="print the envelope")
    options = parser.parse_args(arguments)
    for text in (options.service, options.purpose):
        refuse_broken_text(text, "an argument")
    request: dict[str, JsonValue] = {"service": options.service, "purpose": options.purpose}
    if options.wait is not None:
        request["wait_s"] = options.wait
    return ask(
        lambda client: client.request_credential(request),
        as_json=options.json,
        again=command_line(noun, arguments),
        changes=True,
    )
