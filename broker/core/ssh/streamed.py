"""The end of output that was handed on while it came: it says what was kept back, and is no whole success then."""

from dataclasses import replace

from broker.contract.reasons import Category, IncompleteCode, ScrubState, WarningCode
from broker.contract.result import Completeness, IncompleteReason, ScrubReport, Warn
from broker.core.outcome import Scrubbed

_WITHHELD = "the rest was withheld: it held something of the credential that can't be cut out"


def with_output_scrubbed(scrubbed: Scrubbed, *, hits: int, withheld: bool) -> Scrubbed:
    """The outcome with what was found, and kept back, on the way. What is kept was looked into apart from this."""
    told = replace(scrubbed, hits=max(scrubbed.hits, hits), is_echo=scrubbed.is_echo or hits > 0 or withheld)
    if not withheld:
        return told
    verdict = told.verdict
    if verdict.category is Category.SUCCESS:
        message = "The command ended well; a part of its output was withheld."
        verdict = replace(verdict, category=Category.PARTIAL, code="incomplete", message=message)
    warning = Warn(code=WarningCode.SCRUB_NOT_POSSIBLE, message=f"The output was cut: {_WITHHELD}.")
    return replace(
        told,
        verdict=verdict,
        completeness=None if told.completeness is None else _cut(told.completeness),
        warnings=(*told.warnings, warning),
        report=ScrubReport(state=ScrubState.DONE, reason=_WITHHELD),
    )


def _cut(completeness: Completeness) -> Completeness:
    reason = IncompleteReason(code=IncompleteCode.OUTPUT_TRUNCATED, message=f"Of the output {_WITHHELD}.", by="broker")
    return replace(completeness, complete=False, truncated=True, reasons=(*completeness.reasons, reason))
