"""Step 5 and the look just before the change, as the pipeline awaits them. What they mean is decided in broker/core.

Records are asked for anew each time that they are looked at, and once more before anything is sent.
"""

import asyncio
from dataclasses import dataclass, replace

from broker.contract.wire import JsonObject
from broker.core import records
from broker.core.approval import GRANTED, Happening, refusal
from broker.core.channels import Frozen
from broker.core.classify.channel import event_of, sent_body_bytes
from broker.core.events import EventName
from broker.core.evidence import EvidenceRecord, Gap, Leaning
from broker.core.evidence_gate import (
    COLLECT,
    NO_PROOF,
    READ_BACK,
    Proof,
    choices,
    gated,
    limited,
    still_met,
    weighed,
)
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, reading
from broker.core.identity import Caller
from broker.core.policy.model import Allow, Ask, Policy
from broker.core.policy.requirements import Requirements, requirements
from broker.core.precheck import as_expected, changed, frozen_look
from broker.core.refusals import Refusal
from broker.core.secret_set import SecretSet
from broker.ports import Clock, Delivery, EvidenceStore, Executor, FollowUps, Recollection, Vault
from broker.steps import Named, judged, unfit

COLLECT_S = 60  # how long it is read on at a human's word


class Proofs:
    """Asks the store for what is on record, and judges it for one request after another."""

    def __init__(self, *, store: EvidenceStore, follow_ups: FollowUps, vault: Vault, clock: Clock) -> None:
        self._store = store
        self._vault = vault
        self._follow_ups = follow_ups
        self._clock = clock

    async def consult(self, named: Named) -> Named | Refusal:
        """Step 5: the request with its proof, and with a human in its way where something is missing."""
        wanted = requirements(named.policy, named.received.caller, named.frozen)
        if not wanted.evidence and not wanted.prechecks:
            return named
        named = replace(named, wanted=wanted)
        proof = await self._weighed(named)
        decision = gated(proof, wanted, named.decision, service=named.frozen.service.name)
        if isinstance(decision, Refusal):
            return decision
        offered = choices(proof, named.frozen, named.received.ask, can_collect=self._follow_ups.can_collect)
        return replace(named, decision=decision, proof=replace(proof, choices=offered))

    async def holds(self, named: Named) -> Refusal | None:
        """Step 7: what was proven is so still, and the looks just before can be made."""
        if named.proof is NO_PROOF:
            return None
        for rule, precheck in named.proof.prechecks:
            look = frozen_look(named.policy, named.frozen, precheck)
            if look is None or unfit(look, self._vault) is not None:
                return changed(rule, precheck)
        return still_met(named.proof, await self._weighed(named), service=named.frozen.service.name)

    async def chosen(self, named: Named, choice: str) -> Named | Refusal:
        """What a human chose instead of a yes: the request as it stands after it, or its end."""
        if choice == GRANTED:
            return named
        if choice == READ_BACK:
            for doubt in named.doubts:
                await self._follow_ups.read_back(doubt.correlation_id, caller=named.received.caller)
            return named
        return await (self._collected(named) if choice == COLLECT else self._limited(named))

    async def _collected(self, named: Named) -> Named | Refusal:
        """Read on, for the agent's own session and under the same policy; whatever came of it, a card comes again."""
        for gap in named.proof.gaps:
            record = gap.record if gap.gap is Gap.INCOMPLETE else None
            if gap.args is not None:
                await self._follow_ups.collect(
                    Recollection(
                        caller=named.received.caller,
                        service=named.frozen.service.name,
                        operation=gap.need.operation,
                        args=gap.args if record is None else record.args,
                        cursor=None if record is None else record.cursor,
                        seconds=COLLECT_S,
                        previous_correlation_id=named.received.correlation_id,
                    )
                )
        return await self.consult(replace(named, received=replace(named.received, evidence=())))

    async def _limited(self, named: Named) -> Refusal:
        """The request ends, and one for the proven targets alone begins, with a card of its own."""
        less = limited(named.proof, named.frozen, named.received.ask)
        received = named.received
        begun = None
        if less is not None:
            begun = self._follow_ups.begin(
                less, caller=received.caller, says=received.says, previous=received.correlation_id
            )
        ended = refusal(Happening.SUPERSEDED)
        if begun is None:
            return ended
        message = f"A human limited this request to what is proven: {begun} asks for that; this one was not sent."
        return replace(ended, message=message, next_command=f"doorward result {begun}")

    async def foreseen(self, policy: Policy, caller: Caller, frozen: Frozen, decision: Allow | Ask) -> "Foreseen":
        """What step 5 would make of the decision now. Nothing is sent, kept or asked."""
        wanted, name = requirements(policy, caller, frozen), frozen.service.credential
        leaning = Leaning(
            anchor_id=caller.anchor.id,
            service=frozen.service.name,
            args=frozen.args if isinstance(frozen, FrozenRequest) else {},
            credential=name,
            credential_version=None if name is None else self._vault.credential_version(name),
            policy_digest=policy.digest,
            now_ms=self._clock.now_ms(),
        )
        proof = await self._proof(wanted, leaning)
        return Foreseen(ruling=gated(proof, wanted, decision, service=frozen.service.name), proof=proof)

    async def _weighed(self, named: Named) -> Proof:
        service = named.frozen.service
        leaning = Leaning(
            anchor_id=named.received.caller.anchor.id,
            service=service.name,
            args=named.frozen.args if isinstance(named.frozen, FrozenRequest) else {},
            credential=service.credential,
            credential_version=named.asked.credential_version,
            policy_digest=named.policy.digest,
            now_ms=self._clock.now_ms(),
            hints=named.received.evidence,
        )
        return await self._proof(named.wanted, leaning)

    async def _proof(self, wanted: Requirements, leaning: Leaning) -> Proof:
        found: dict[str, tuple[EvidenceRecord, ...]] = {}
        for operation in sorted({need.operation for _, need in wanted.evidence}):
            found[operation] = await self._store.find(leaning.anchor_id, f"{leaning.service}.{operation}")
        return weighed(wanted, leaning, found)

    async def moved(
        self, named: Named, permit: Permit, executor: Executor, secrets: SecretSet | None
    ) -> "Moved | None":
        """Step 9, first half: the looks just before the change. None where all of them show what is expected."""
        for rule, precheck in named.proof.prechecks:
            look = frozen_look(named.policy, named.frozen, precheck)
            if look is None:
                raise TypeError("a look that can't be made was let through to the change")
            raw = await executor.execute(reading(permit, look), Delivery(session_id=named.session.id))
            now_ms = self._clock.now_ms()
            if not await asyncio.to_thread(as_expected, precheck, named.frozen, look, raw, now_ms=now_ms):
                scrubbed = await judged(look, raw, secrets, now_ms=now_ms, prior_doubt=False)
                fields = {**records.remote(scrubbed, sent_body_bytes=sent_body_bytes(raw)), "precheck": look.operation}
                return Moved(refusal=changed(rule, precheck), event=event_of(raw), fields=fields)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What would become of a request, and by which proof."""

    ruling: Allow | Ask | Refusal
    proof: Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The target is not as it was: what the agent is told, and what the trail says of the look that showed it."""

    refusal: Refusal
    event: EventName
    fields: JsonObject
