"""What an answer to a change that was sent again says of the first time it was sent.

A success of the very same request, under the same key where it has one, is the first one's too: it is in doubt no
more. Nothing else says anything of it.
"""

from contextlib import suppress
from functools import partial

from broker.contract.reasons import Category
from broker.contract.result import Envelope
from broker.core import reply
from broker.core.events import EventName
from broker.core.ledger import Doubt
from broker.core.repeats import settled_by
from broker.core.reply import Frame
from broker.ports import Ledger, LedgerSealed
from broker.steps import Named


async def settle(named: Named, envelope: Envelope, ledger: Ledger) -> None:
    """Close the doubts that this ends, each on record before it is closed. Raises AuditUnwritable.

    What somebody else has settled meanwhile is not told again. Where the ledger was sealed meanwhile they stay in
    doubt, and a read-back may close them.
    """
    with suppress(LedgerSealed):
        for doubt in _settled(named, envelope):
            settlement = _settlement(named, doubt)
            fields = {"of": doubt.correlation_id, **reply.audit_fields(settlement)}
            record = partial(named.trail.append, EventName.RECONCILE_SETTLED, fields)
            await ledger.settle_by_repeat(doubt.correlation_id, settlement.to_json(), record)


def _settled(named: Named, envelope: Envelope) -> tuple[Doubt, ...]:
    if envelope.category is not Category.SUCCESS:
        return ()
    return settled_by(named.frozen, named.doubts, key=named.key)


def _settlement(named: Named, doubt: Doubt) -> Envelope:
    frame = Frame(
        correlation_id=named.received.correlation_id,
        operation=named.frozen.operation,
        effect=named.frozen.effect,
        previous_correlation_id=doubt.correlation_id,
    )
    return reply.reconciled(frame, named.gate, matches=1, complete=True, code="unrecorded")
