"""Step 5 of the ladder: what all needs of a request come to, and what may be answered where something is missing.

A need that is not met ends the request, unless every rule whose need is open says `otherwise = "ask"`: then a human is
asked each time, whatever else the policy says. Pure.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from broker.contract.reasons import ApprovalRule, Category, Retry
from broker.contract.result import MESSAGE_LIMIT
from broker.core.arguments import text_of
from broker.core.asks import Asked
from broker.core.channels import Frozen
from broker.core.evidence import EvidenceRecord, Gap, Judged, Leaning, judge
from broker.core.frozen import FrozenRequest
from broker.core.placeholders import whole_name
from broker.core.policy.declarations import Claim, Otherwise, Precheck
from broker.core.policy.model import Allow, Ask, Rule
from broker.core.policy.requirements import Requirements
from broker.core.refusals import Refusal
from broker.core.resolve import HttpAsk

COMMAND_LIMIT = 400
COLLECT, LIMIT = "collect", "limit"
READ_BACK = "read_back"  # what is in doubt is looked at first
_SAYS = {
    Gap.NONE_RECORDED: "none is recorded for this session",
    Gap.OTHER_ARGUMENTS: "the recorded ones were made with other arguments",
    Gap.STALE: "the recorded one is too old",
    Gap.INCOMPLETE: "the recorded one is not complete",
    Gap.REFUSED_WARNING: "the recorded one carries a warning that the policy does not accept",
    Gap.TARGET_NOT_COVERED: "not every target is in the recorded one",
    Gap.TARGET_PRESENT: "a target that has to be absent is in the recorded one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is known of every need, what is looked at just before, and what a human may choose instead of a yes."""

    judged: tuple[Judged, ...] = ()
    prechecks: tuple[tuple[Rule, Precheck], ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def gaps(self) -> tuple[Judged, ...]:
        return tuple(one for one in self.judged if not one.is_met)

    @property
    def is_met(self) -> bool:
        return not self.gaps

    @property
    def may_ask(self) -> bool:
        return all(one.need.otherwise is Otherwise.ASK for one in self.gaps)

    @property
    def first_unproven(self) -> str | None:
        """The first target without proof: what has to be typed to go on all the same."""
        return next((target for one in self.gaps for target in one.unproven), None)


NO_PROOF = Proof()


def weighed(
    wanted: Requirements,
    leaning: Leaning,
    records: Mapping[str, Sequence[EvidenceRecord]],
) -> Proof:
    """Every need against the records of its operation."""
    judged = tuple(judge(rule.id, need, leaning, records.get(need.operation, ())) for rule, need in wanted.evidence)
    return Proof(judged=judged, prechecks=wanted.prechecks)


def gated(proof: Proof, wanted: Requirements, decision: Allow | Ask, *, service: str) -> Allow | Ask | Refusal:
    """The decision in the light of the proof."""
    if proof.is_met:
        return decision
    if not proof.may_ask:
        return missing(next(one for one in proof.gaps if one.need.otherwise is Otherwise.DENY), service=service)
    if isinstance(decision, Ask):
        return Ask(rule=_each_time(decision.rule), rules=decision.rules)
    asking = next(rule for rule, _ in wanted.evidence if rule.id == proof.gaps[0].rule_id)
    return Ask(rule=_each_time(asking), rules=decision.rules)


def still_met(before: Proof, now: Proof, *, service: str) -> Refusal | None:
    """What was proven when it was decided has to be so when it is sent; what a human saw open may be."""
    known = {(one.rule_id, one.need.operation): one for one in before.gaps}
    fresh = [one for one in now.gaps if (one.rule_id, one.need.operation) not in known]
    grown = [
        one
        for one in now.gaps
        if (seen := known.get((one.rule_id, one.need.operation))) is not None and _is_worse(one, seen)
    ]
    worst = next(iter((*fresh, *grown)), None)
    return None if worst is None else missing(worst, service=service)


def choices(proof: Proof, frozen: Frozen, ask: Asked | Refusal, *, can_collect: bool) -> tuple[str, ...]:
    """What may be chosen on the card instead of a yes."""
    if proof.is_met:
        return ()
    offered = [COLLECT] if can_collect and all(one.args is not None for one in proof.gaps) else []
    return (*offered, *([] if limited(proof, frozen, ask) is None else [LIMIT]))


def limited(proof: Proof, frozen: Frozen, ask: Asked | Refusal) -> HttpAsk | None:
    """The same request for the proven targets alone; None where that is not less, is nothing, or can't be said."""
    open_ones = [one for one in proof.gaps if one.unproven]
    name = whole_name(open_ones[0].need.covers) if open_ones else None
    if not isinstance(frozen, FrozenRequest) or frozen.declared is None or not isinstance(ask, HttpAsk) or name is None:
        return None
    proven = set[str].intersection(*(set(one.proven) for one in open_ones))
    members = frozen.args.get(name)
    if not proven or not isinstance(members, list | tuple):
        return None
    return HttpAsk(
        service=frozen.service.name,
        operation=frozen.declared.name,
        args={**frozen.args, name: [member for member in members if text_of(member) in proven]},
        headers=ask.headers,
        deadlines=ask.deadlines,
    )


def missing(gap: Judged, *, service: str) -> Refusal:
    """The refusal for a need that is not met. Says what to collect; names no target and no row."""
    claim = "exist" if gap.need.claim is Claim.PRESENT else "do not exist"
    code = gap.gap or Gap.NONE_RECORDED
    return Refusal(
        category=Category.EVIDENCE_REQUIRED,
        code=code.value,
        retry=Retry.NEVER,
        message=(
            f"Nothing was sent: rule {gap.rule_id} wants a complete, fresh collection of {gap.need.operation} to show "
            f"that all targets {claim}, and {_SAYS[code]}. Collect it, then ask again."
        )[:MESSAGE_LIMIT],
        next_command=collect_command(service, gap),
    )


def collect_command(service: str, gap: Judged) -> str | None:
    """The line that would collect what is missing; None where it would be too long to be one."""
    if gap.args is None:
        return None
    words = [f"{name}={text_of(value)}" for name, value in gap.args.items()]
    line = " ".join(["doorward", "collect", f"{service}.{gap.need.operation}", *map(shlex.quote, words)])
    return line if len(line) <= COMMAND_LIMIT and line.isprintable() else None


def _each_time(rule: Rule) -> Rule:
    return replace(rule, approval=ApprovalRule.PER_CALL)


def _is_worse(now: Judged, before: Judged) -> bool:
    """Whether less is proven than on the card, or a record speaks against a target that none spoke against then."""
    return not set(before.proven) <= set(now.proven) or (now.gap is Gap.TARGET_PRESENT is not before.gap)
