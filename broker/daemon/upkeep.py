"""What is done every minute, whoever asks or does not: counts go on record, what is too old is let go."""

import asyncio

from broker.audit.diagnostics import DiagnosticsStore
from broker.daemon.repeated_refusals import RepeatedRefusals
from broker.server.floods import Floods
from broker.server.sessions import SessionRegistry

EVERY_S = 60.0


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
