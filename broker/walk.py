"""Makes the attempt that was permitted: one exchange, or the pages of a collection one after another.

Each page goes out under what was decided about the first: before it everything is looked at once more, and its intent
is durable before its first byte leaves. Every page is scrubbed by itself. What follows from a page is decided in
broker/core/collect.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from broker.contract.result import Envelope
from broker.contract.wire import JsonObject
from broker.core import records
from broker.core.asks import Asked
from broker.core.channels import Raw
from broker.core.classify import channel
from broker.core.collect.command import going_on
from broker.core.collect.ending import Ending, Spent, Voided, concluded, with_cursor
from broker.core.collect.merge import Gathered, clean_rows, merged, without_values
from broker.core.collect.page import Page, read_page
from broker.core.collect.paging import Astray
from broker.core.collect.request import CollectAsk, Kept, within
from broker.core.collect.walk import Move, On, Over, Plain, Walk, after, begun, stopped
from broker.core.continuation import Shield
from broker.core.events import EventName
from broker.core.evidence import EvidenceRecord, asked_args, kept_for_ms
from broker.core.evidence_report import envelope_part, recorded_fields
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, Standing, reading, voided
from broker.core.outcome import RawOutcome, Scrubbed
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Deny, Operation
from broker.core.policy.requirements import longest_need_s
from broker.core.scrub import scrub
from broker.core.secret_set import SecretSet
from broker.frames import delivered
from broker.hops import Hopper
from broker.polls import Attempted, Poller
from broker.ports import Clock, EvidenceStore, Executor, LedgerSealed, Sessions, Vault, Walks
from broker.steps import AT_ONCE_BYTES, Named, judged, shield_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One page, as it was judged and as it may leave."""

    raw: RawOutcome
    page: Page
    scrubbed: Scrubbed
    shield: Shield
    asked: FrozenRequest
    hops: int = 0  # requests before the one that was answered, each of which the answer sent on


class Walker:
    """Attempts for the pipeline. One instance serves all; nothing of a request is kept here."""

    def __init__(
        self,
        *,
        executor: Executor,
        sessions: Sessions,
        vault: Vault,
        walks: Walks,
        evidence: EvidenceStore,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._executor = executor
        self._sessions = sessions
        self._vault = vault
        self._walks = walks
        self._evidence = evidence
        self._clock = clock
        self._poller = Poller(executor=executor, vault=vault, clock=clock, pause=pause)
        self._hopper = Hopper(executor=executor, vault=vault, clock=clock)

    async def attempt(
        self, named: Named, permit: Permit, secrets: SecretSet | None, now: Callable[[], Standing]
    ) -> Attempted:
        """One attempt. Raises AuditUnwritable where the intent of a further page can't be written; it was not sent."""
        frozen, ask = permit.frozen, named.received.ask
        if isinstance(frozen, FrozenRequest) and isinstance(ask, CollectAsk):
            return await self._walk(named, ask, frozen, permit, secrets, now)
        frames = named.frames(secrets)
        raw = await self._executor.execute(permit, named.delivery(frames))
        scrubbed = await judged(
            frozen,
            raw,
            secrets,
            now_ms=self._clock.now_ms(),
            prior_doubt=bool(named.doubts),
            key_expired=named.key_expired,
        )
        sent_bytes = channel.sent_body_bytes(raw)
        made = Attempted(scrubbed=scrubbed, raw=raw, remote=records.remote(scrubbed, sent_body_bytes=sent_bytes))
        made = await self._hopper.followed(named, permit, secrets, now, made, frames)
        if frames is None:
            return await self._poller.followed(named, permit, secrets, now, made)
        scrubbed = await delivered(frozen, made.scrubbed, frames)
        return replace(made, scrubbed=scrubbed, remote={**made.remote, "scrub_hits": scrubbed.hits})

    async def recorded(self, named: Named, attempted: Attempted, envelope: Envelope) -> Envelope:
        """The envelope with the collection that is on record now. Without a record nothing can lean on it."""
        ask, completeness = named.received.ask, envelope.completeness
        if isinstance(ask, CollectAsk) and completeness is not None and completeness.next_cursor is not None:
            envelope = replace(envelope, next_command=going_on(ask, completeness.next_cursor))
        if attempted.record is None:
            return envelope
        try:
            kept = await self._evidence.record(attempted.record)
        except LedgerSealed:
            return envelope
        named.trail.post(EventName.EVIDENCE_RECORDED, recorded_fields(kept))
        return replace(envelope, evidence=envelope_part(kept))

    def kept(self, ask: Asked, anchor_id: str) -> Kept | None:
        """The walk that a cursor of this anchor goes on with, if it still may."""
        if not isinstance(ask, CollectAsk) or ask.cursor is None:
            return None
        kept = self._walks.find(anchor_id, ask.cursor, vault_term=self._vault.term)
        if kept is None or kept.credential is None:
            return kept
        return kept if self._vault.credential_version(kept.credential) == kept.credential_version else None

    async def _walk(
        self,
        named: Named,
        ask: CollectAsk,
        first: FrozenRequest,
        permit: Permit,
        secrets: SecretSet | None,
        now: Callable[[], Standing],
    ) -> Attempted:
        """All pages. Raises AuditUnwritable likewise."""
        walk = begun(first, self.kept(ask, named.received.caller.anchor.id), now_ms=self._clock.now_ms())
        started_s = self._clock.monotonic_s()
        gathered = Gathered()
        while True:
            seen = await self._page(named, walk, reading(permit, self._in_time(walk, started_s)), secrets, now)
            walk = replace(walk, asked=seen.asked, sent=walk.sent + seen.hops) if seen.hops else walk
            gathered = gathered.seen(seen.scrubbed)
            elapsed_ms = round((self._clock.monotonic_s() - started_s) * 1000)
            clean = clean_rows(seen.scrubbed, walk.operation)
            is_clean = len(clean or ()) == len(seen.page.rows or ())
            move = after(
                walk,
                seen.scrubbed.verdict,
                seen.page,
                is_clean=is_clean,
                elapsed_ms=elapsed_ms,
                policy=named.policy,
                shield=seen.shield,
            )
            if isinstance(move, Plain):
                return Attempted(scrubbed=seen.scrubbed, raw=seen.raw, remote=_remote(seen, walk), record=None)
            if isinstance(move, On) and move.begins_anew:
                gathered = gathered.anew()
            elif isinstance(move, On) or move.counted:
                gathered = gathered.with_page(seen.scrubbed, clean)
            move = self._checked(named, move, now)
            if isinstance(move, Over):
                return self._ended(named, ask, seen, move, gathered)
            self._sessions.count(named.session.id, denied=False, echoed=seen.scrubbed.is_echo)
            await self._intend(named, permit, seen, walk, move)
            walk = move.walk

    def _in_time(self, walk: Walk, started_s: float) -> FrozenRequest:
        return within(walk.asked, walk.bound.budget.seconds - (self._clock.monotonic_s() - started_s))

    async def _page(
        self, named: Named, walk: Walk, permit: Permit, secrets: SecretSet | None, now: Callable[[], Standing]
    ) -> Seen:
        """One page, at whatever address it is in the end. A hop is one of the requests that were allowed."""
        raw = await self._executor.execute(permit, named.delivery(None))
        seen = await self._seen(walk.operation, permit, raw, secrets)
        first = Attempted(scrubbed=seen.scrubbed, raw=raw, remote=_remote(seen, walk))
        left = walk.bound.budget.pages - walk.sent
        last = await self._hopper.followed(named, permit, secrets, now, first, most=left)
        if last.asked is None:
            return seen
        seen = await self._seen(walk.operation, reading(permit, last.asked), last.raw, secrets)
        hops = last.remote["hop"]
        return replace(seen, scrubbed=last.scrubbed, hops=hops if isinstance(hops, int) else 0)

    async def _seen(self, operation: Operation, permit: Permit, raw: Raw, secrets: SecretSet | None) -> Seen:
        now_ms, shield = self._clock.now_ms(), shield_of(permit.frozen, self._vault, secrets, raw)

        def examine() -> Seen:
            return _examined(operation, permit, raw, secrets, shield, now_ms)

        return examine() if channel.size_bytes(raw) <= AT_ONCE_BYTES else await asyncio.to_thread(examine)

    def _checked(self, named: Named, move: Move, now: Callable[[], Standing]) -> On | Over:
        """Look at everything once more before the next page goes out."""
        if not isinstance(move, On):
            assert isinstance(move, Over)  # noqa: S101 - a plain ending is no move
            return move
        refusal = voided(asked=named.asked, now=now(), frozen=named.frozen)
        if refusal is not None:
            return stopped(move, Voided(refusal=refusal))
        away = self._away(named, move.walk)
        if away is not None:
            return stopped(move, away)
        per_minute = named.policy.limits.requests_per_minute
        if not self._sessions.within_rate(named.decision.rules or (named.frozen.operation,), per_minute):
            return stopped(move, Spent(unit="requests per minute", limit=per_minute))
        return move

    def _away(self, named: Named, walk: Walk) -> Astray | None:
        """Where an upstream's own URL leads to what the policy denies or the credential is not bound to."""
        page, name = walk.asked, walk.asked.service.credential
        if isinstance(evaluate(named.policy, named.received.caller, page), Deny):
            return Astray(message="The policy does not allow the next page's path; it was not followed.")
        if name is not None and not all(self._vault.covers(name, url) for url in page.bound_urls):
            return Astray(message="The credential is not bound to where the next page is; it was not followed.")
        return None

    async def _intend(self, named: Named, permit: Permit, seen: Seen, walk: Walk, move: On) -> None:
        named.trail.post(channel.event_of(seen.raw), _remote(seen, walk))
        intent = records.intent(
            reading(permit, move.walk.asked), policy_digest=named.policy.digest, doubts=(), ledger=None
        )
        await named.trail.append(EventName.DISPATCH_STARTED, {**intent, "page": move.walk.sent})

    def _ended(self, named: Named, ask: CollectAsk, seen: Seen, over: Over, gathered: Gathered) -> Attempted:
        walk = over.walk
        returned = None if gathered.whole else len(gathered.rows)
        ending = concluded(walk.operation, walk.progress, over.cause, args=walk.args, returned=returned)
        ending = self._placed(named, ask, over, ending)
        return Attempted(
            scrubbed=merged(seen.scrubbed, gathered, ending, walk.progress.warnings),
            raw=seen.raw,
            remote=_remote(seen, walk),
            record=_record(named, ask, walk, ending),
        )

    def _placed(self, named: Named, ask: CollectAsk, over: Over, ending: Ending) -> Ending:
        """With a cursor where one can go on."""
        if not ending.keeps_place or over.step is None:
            return ending
        kept = Kept(
            anchor_id=named.received.caller.anchor.id,
            service=ask.service,
            operation=ask.operation,
            args=ask.args,
            credential=named.frozen.service.credential,
            credential_version=named.asked.credential_version,
            policy_digest=named.policy.digest,
            vault_term=named.asked.vault_term,
            progress=over.walk.progress,
            step=over.step,
            previous_url=over.walk.asked.url,
            kept_at_ms=self._clock.now_ms(),
        )
        return with_cursor(ending, self._walks.keep(kept))


def _examined(
    operation: Operation, permit: Permit, raw: Raw, secrets: SecretSet | None, shield: Shield, now_ms: int
) -> Seen:
    frozen = permit.frozen
    if not isinstance(raw, RawOutcome) or not isinstance(frozen, FrozenRequest):
        raise TypeError("an executor's outcome is not of the request's channel")
    classified = channel.judged(frozen, raw, now_ms=now_ms, prior_doubt=False)
    page = read_page(operation, frozen, raw, classified.completeness)
    scrubbed = scrub(classified, secrets)
    page = without_values(page, shield) if scrubbed.hits else page
    return Seen(raw=raw, page=page, scrubbed=scrubbed, shield=shield, asked=frozen)


def _remote(seen: Seen, walk: Walk) -> JsonObject:
    told = records.remote(seen.scrubbed, sent_body_bytes=channel.sent_body_bytes(seen.raw))
    return {**told, "page": walk.sent - seen.hops, **({"hop": seen.hops} if seen.hops else {})}


def _record(named: Named, ask: CollectAsk, walk: Walk, ending: Ending) -> EvidenceRecord | None:
    """What a later change may lean on. A walk whose rows could not be counted is nothing to lean on."""
    completeness, progress, declared = ending.completeness, walk.progress, walk.operation.completeness
    if declared is None or progress.rows is None:
        return None
    return EvidenceRecord(
        id="",  # the store gives it
        anchor_id=named.received.caller.anchor.id,
        service=ask.service,
        operation=ask.operation,
        args=asked_args(walk.operation, ask.args),
        credential=walk.first.service.credential,
        credential_version=named.asked.credential_version,
        policy_digest=named.policy.digest,
        id_place=declared.id,
        ids=progress.ids,
        count=progress.rows,
        total=completeness.total,
        collected_at_ms=progress.began_at_ms,
        expires_at_ms=progress.began_at_ms + kept_for_ms(longest_need_s(named.policy, ask.operation)),
        complete=completeness.complete,
        reasons=tuple(one.to_json() for one in completeness.reasons),
        warnings=tuple(one.code for one in progress.warnings),
        visibility=declared.visibility,
        scope={"resource": completeness.resource, "visibility": completeness.visibility},
        snapshot=completeness.snapshot,
        pages=progress.pages,
        cursor=completeness.next_cursor,
    )
