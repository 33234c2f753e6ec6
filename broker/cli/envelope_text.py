"""Printing an envelope: its lines, or with `--json` the envelope as the daemon spelled it.

Decides nothing: the exit code follows from the category alone.
"""

import sys

from broker.cli.main import exit_code
from broker.client.envelope_lines import lines
from broker.contract.neutralise import visible_json

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.contract.wire import JsonValue


def show(envelope: "Mapping[str, JsonValue]", *, as_json: bool, spelled: bytes = b"") -> int:
    """Print an envelope; its exit code. `spelled` is what the daemon sent, for --json."""
    if as_json:
        print(visible_json(spelled.decode() if spelled else _dumped(envelope)))
    else:
        print("\n".join(lines(envelope, terminal=sys.stdout.isatty())))
    return exit_code(envelope.get("category"))


def _dumped(value: "Mapping[str, JsonValue]") -> str:
    from broker.contract.wire import dump  # noqa: PLC0415 - only envelopes of our own need it

    return dump(value).decode()
