"""Looks at work that an upstream accepted, until it is over or the time of the call has run out.

Each look is a dispatch of its own under what was decided about the request, and before it everything is looked at once
more. Where nothing settles the work in time, the answer stays what it was: accepted, and not finished.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from broker.contract.reasons import Category
from broker.contract.wire import JsonObject
from broker.core import records
from broker.core.channels import Raw
from broker.core.classify import channel
from broker.core.classify.reading import read_body
from broker.core.collect.page import view_of
from broker.core.collect.request import within
from broker.core.events import EventName
from broker.core.evidence import EvidenceRecord
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, Standing, reading, voided
from broker.core.outcome import RawOutcome, Scrubbed
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Deny, Operation
from broker.core.polling import MAX_LOOKS, look_of, settled, wait_s
from broker.core.predicate import AnswerView
from broker.core.secret_set import SecretSet
from broker.ports import Clock, Executor, Vault
from broker.steps import Named, judged, shield_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """What became of it. The event of the last exchange is not written yet; `remote` is what it says.

    `asked` is the request that was answered, where that is another than the permitted one: a redirect was followed.
    """

    scrubbed: Scrubbed
    raw: Raw
    remote: JsonObject
    record: EvidenceRecord | None = None
    asked: FrozenRequest | None = None


class Poller:
    """Looks for the pipeline. One instance serves all; nothing of a request is kept here."""

    def __init__(
        self, *, executor: Executor, vault: Vault, clock: Clock, pause: Callable[[float], Awaitable[None]]
    ) -> None:
        self._executor = executor
        self._vault = vault
        self._clock = clock
        self._pause = pause

    async def followed(
        self, named: Named, permit: Permit, secrets: SecretSet | None, now: Callable[[], Standing], first: Attempted
    ) -> Attempted:
        """What the work came to, or the attempt as it was. Raises AuditUnwritable before a look that was not sent."""
        asked, raw = named.frozen, first.raw
        declared = asked.declared if isinstance(asked, FrozenRequest) else None
        slow = None if declared is None else declared.asynchronous
        if slow is None or not isinstance(asked, FrozenRequest) or not isinstance(raw, RawOutcome):
            return first
        last, view = first, _view(asked, raw)
        look = (
            look_of(asked, slow, view, shield_of(asked, self._vault, secrets, raw))
            if _is_accepted(first.scrubbed)
            else None
        )
        ends_s = self._clock.monotonic_s() + asked.total_s - raw.elapsed_ms / 1000
        for number in range(1, MAX_LOOKS + 1):
            wait = wait_s(slow, view, now_ms=self._clock.now_ms())
            if look is None or self._clock.monotonic_s() + wait >= ends_s or not self._may_look(named, look):
                break
            await self._pause(wait)
            if voided(asked=named.asked, now=now(), frozen=asked) is not None:
                break
            left = within(look, ends_s - self._clock.monotonic_s())
            last = await self._look(named, reading(permit, left), secrets, last, number)
            if isinstance(last.raw, RawOutcome) and last.raw.fault is None:
                view = _view(look, last.raw)
                verdict = settled(asked, slow, view)
                if verdict is not None:
                    return replace(last, scrubbed=replace(last.scrubbed, verdict=verdict, completeness=None))
                look = look_of(look, slow, view, shield_of(look, self._vault, secrets, last.raw)) or look
        return replace(last, scrubbed=first.scrubbed)

    def _may_look(self, named: Named, look: FrozenRequest) -> bool:
        name, declared = look.service.credential, named.frozen.declared
        as_declared = replace(look, declared=declared) if isinstance(declared, Operation) else look
        if isinstance(evaluate(named.policy, named.received.caller, as_declared), Deny):
            return False
        return name is None or all(self._vault.covers(name, url) for url in look.bound_urls)

    async def _look(
        self, named: Named, permit: Permit, secrets: SecretSet | None, before: Attempted, number: int
    ) -> Attempted:
        named.trail.post(channel.event_of(before.raw), before.remote)
        intent = records.intent(permit, policy_digest=named.policy.digest, doubts=(), ledger=None)
        await named.trail.append(EventName.DISPATCH_STARTED, {**intent, "look": number})
        raw = await self._executor.execute(permit, named.delivery(None))
        scrubbed = await judged(permit.frozen, raw, secrets, now_ms=self._clock.now_ms(), prior_doubt=False)
        told = records.remote(scrubbed, sent_body_bytes=channel.sent_body_bytes(raw))
        return Attempted(scrubbed=scrubbed, raw=raw, remote={**told, "look": number})


def _is_accepted(scrubbed: Scrubbed) -> bool:
    return scrubbed.verdict.category is Category.PARTIAL and scrubbed.verdict.code == "accepted"


def _view(frozen: FrozenRequest, raw: RawOutcome) -> AnswerView:
    return view_of(read_body(raw, method=frozen.method), raw)
