"""An answer of HTTP that is handed on while it comes: what of its head may be told, and what its end has to add.

The head goes out before the body is judged, so it holds no more than the envelope would: status and shown headers,
scrubbed. An end that held something back says so, and is no whole success.
"""

from collections.abc import Iterable
from dataclasses import replace

from broker.contract.reasons import Category, ScrubState, WarningCode
from broker.contract.result import ScrubReport, Warn
from broker.contract.wire import JsonObject
from broker.core.classify.answer import shown_headers
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Scrubbed
from broker.core.secret_set import SecretSet

HEAD, BODY = "head", "body"  # the streams of an answer, as a sink is told them
_WITHHELD = "the rest was withheld: it held something of the credential that can't be cut out"


def shown_head(
    frozen: FrozenRequest, status: int, headers: Iterable[tuple[str, str]], secrets: SecretSet | None
) -> JsonObject:
    """Status and headers as they may leave."""
    declared = () if frozen.declared is None else frozen.declared.response_headers
    shown = shown_headers(headers, declared)
    if secrets is not None:
        shown = {name: text for name, value in shown.items() if (text := _told(name, value, secrets)) is not None}
    return {"status": status, "headers": dict(shown)}


def with_stream_scrubbed(scrubbed: Scrubbed, *, hits: int, withheld: bool) -> Scrubbed:
    """The outcome with what was found, and kept back, on the way."""
    counted = replace(scrubbed, hits=scrubbed.hits + hits, is_echo=scrubbed.is_echo or hits > 0 or withheld)
    if not withheld:
        return counted
    warning = Warn(code=WarningCode.SCRUB_NOT_POSSIBLE, message=f"The answer was cut: {_WITHHELD}.")
    verdict = counted.verdict
    if verdict.category is Category.SUCCESS:
        verdict = replace(
            verdict,
            category=Category.PARTIAL,
            code="incomplete",
            message="The upstream answered; a part of its body was withheld, for it held something of the credential.",
        )
    return replace(
        counted,
        verdict=verdict,
        warnings=(*counted.warnings, warning),
        report=ScrubReport(state=ScrubState.DONE, reason=_WITHHELD),
    )


def _told(name: str, value: str, secrets: SecretSet) -> str | None:
    if secrets.in_lower_case(name.encode("utf-8", "surrogatepass")):
        return None
    cleaned = secrets.clean(value.encode("utf-8", "surrogatepass"))
    return None if cleaned.withheld else cleaned.data.decode("utf-8", "surrogatepass")
