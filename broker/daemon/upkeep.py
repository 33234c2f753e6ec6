"""What is done at intervals, whoever asks or does not: counts go on record, old details go, a dead log is noticed."""

import asyncio
from collections.abc import Callable

from broker.audit.diagnostics import DiagnosticsStore
from broker.audit.writer import AuditWriter
from broker.daemon.repeated_refusals import RepeatedRefusals
from broker.server.floods import Floods
from broker.server.sessions import SessionRegistry

EVERY_S = 60.0
LOOK_S = 0.5


async def upkeep(
    *,
    floods: Floods,
    refusals: RepeatedRefusals,
    sessions: SessionRegistry,
    diagnostics: DiagnosticsStore,
    every_s: float = EVERY_S,
) -> None:
    """Run until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        floods.summarise()
        refusals.summarise()
        sessions.records.summarise()
        await asyncio.to_thread(diagnostics.sweep)


async def notice_dead_log(writer: AuditWriter, died: Callable[[str], None], *, every_s: float = LOOK_S) -> None:
    """Say once that the log can't be written any more: nothing that waits for a human can come to anything then."""
    while (why := writer.poisoned) is None:  # noqa: ASYNC110 - it dies in a thread of its own
        await asyncio.sleep(every_s)
    died(why)
