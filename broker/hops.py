"""Follows the redirects of a declared read, each as a dispatch of its own under what was decided about the request.

Before each everything is looked at once more, and its intent is durable before its first byte leaves. Where one may
not be followed the answer stays what it was: a redirect that is told. What may be followed is decided in broker/core.
"""

from collections.abc import Callable
from dataclasses import dataclass

from broker.core import records
from broker.core.classify import channel
from broker.core.collect.request import within
from broker.core.events import EventName
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, Standing, reading, voided
from broker.core.outcome import RawOutcome, Scrubbed
from broker.core.redirects import MAX_HOPS, may_follow, next_hop, with_notice
from broker.core.secret_set import SecretSet
from broker.frames import Frames
from broker.polls import Attempted
from broker.ports import Clock, Executor, Vault
from broker.steps import Named, judged, shield_of

_TOLD = "redirect_not_followed"
_MARKS = ("page",)  # what a record says of its place among others


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopper:
    """Follows for the pipeline. One instance serves all; nothing of a request is kept here."""

    executor: Executor
    vault: Vault
    clock: Clock

    async def followed(
        self,
        named: Named,
        permit: Permit,
        secrets: SecretSet | None,
        now: Callable[[], Standing],
        first: Attempted,
        frames: Frames | None = None,
        *,
        most: int = MAX_HOPS,
    ) -> Attempted:
        """What the last address answers. Raises AuditUnwritable before a request that was not sent."""
        last, asked = first, permit.frozen
        marks = {name: first.remote[name] for name in _MARKS if name in first.remote}
        ends_s = self.clock.monotonic_s() + asked.total_s - _elapsed_s(first)
        for number in range(1, min(most, MAX_HOPS) + 1):
            hop = self._hop(named, asked, last, secrets)
            left_s = ends_s - self.clock.monotonic_s()
            if hop is None or left_s <= 0 or voided(asked=named.asked, now=now(), frozen=named.frozen) is not None:
                break
            named.trail.post(channel.event_of(last.raw), last.remote)
            going = reading(permit, within(hop, left_s))
            intent = records.intent(going, policy_digest=named.policy.digest, doubts=(), ledger=None)
            await named.trail.append(EventName.DISPATCH_STARTED, {**intent, **marks, "hop": number, "url": hop.summary})
            raw = await self.executor.execute(going, named.delivery(frames))
            scrubbed = await judged(hop, raw, secrets, now_ms=self.clock.now_ms(), prior_doubt=False)
            told = records.remote(scrubbed, sent_body_bytes=channel.sent_body_bytes(raw))
            last = Attempted(scrubbed=_noticed(scrubbed), raw=raw, remote={**told, **marks, "hop": number}, asked=hop)
            asked = hop
        return last

    def _hop(self, named: Named, asked: object, last: Attempted, secrets: SecretSet | None) -> FrozenRequest | None:
        raw = last.raw
        if not isinstance(asked, FrozenRequest) or not isinstance(raw, RawOutcome):
            return None
        if last.scrubbed.verdict.code != _TOLD:
            return None
        hop = next_hop(asked, raw, shield_of(asked, self.vault, secrets, raw))
        if hop is None or not may_follow(named.policy, named.received.caller, named.decision, hop):
            return None
        name = hop.service.credential
        return hop if name is None or all(self.vault.covers(name, url) for url in hop.bound_urls) else None


def _elapsed_s(attempted: Attempted) -> float:
    raw = attempted.raw
    return raw.elapsed_ms / 1000 if isinstance(raw, RawOutcome) else 0.0


def _noticed(scrubbed: Scrubbed) -> Scrubbed:
    return scrubbed if scrubbed.verdict.code == _TOLD else with_notice(scrubbed)
