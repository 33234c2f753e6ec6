"""What an answer to a change that was sent again says of the first time it was sent.

A success of the very same request, under the same key where it has one, is the first one's too: it is in doubt no
more. Nothing else says anything of it.
"""

from contextlib import suppress

from broker.contract.reasons import Category
from broker.contract.result import Envelope
from broker.core import reply
from broker.core.events import EventName
from broker.core.ledger import Doubt
from broker.core.repeats import settled_by
from broker.core.reply import Frame
from broker.ports import Ledger, LedgerSealed
from broker.steps import Named


def tell_settled(named: Named, envelope: Envelope) -> None:
    """Put on record which doubts this ends. Raises AuditUnwritable."""
    for doubt in _settled(named, envelope):
        told = reply.audit_fields(_settlement(named, doubt))
        named.trail.post(EventName.RECONCILE_SETTLED, {"of": doubt.correlation_id, **told})


async def settle(named: Named, envelope: Envelope, ledger: Ledger) -> None:
    """Close them in the ledger. Where it was sealed meanwhile they stay in doubt, and a read-back may close them."""
    with suppress(LedgerSealed):
        for doubt in _settled(named, envelope):
            await ledger.settle_by_repeat(doubt.correlation_id, _settlement(named, doubt).to_json())


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
