"""One attempt as the steps of the classification look at it, and the verdicts that several steps share.

A read has no effect whatever happens. A write whose effect is unknown is never repeated on the step's own account:
it is reconciled where the operation declares how, and else put before a human.
"""

from dataclasses import dataclass, replace

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.contract.wire import JsonObject
from broker.core.classify.delays import DEFAULT_RATE_LIMIT
from broker.core.classify.reading import Reading
from broker.core.frozen import FrozenRequest
from broker.core.outcome import RawOutcome, Verdict
from broker.core.policy.model import Operation, RateLimit
from broker.core.predicate import holds
from broker.core.repeats import repeats_safely

PROVING_STATUSES = frozenset({201, 204})  # they say that the change is made, not that it is under way


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`status` is 0 while no answer was seen; the steps that need one run only after that was settled."""

    frozen: FrozenRequest
    raw: RawOutcome
    reading: Reading
    view: JsonObject
    now_ms: int
    prior_doubt: bool
    key_expired: bool = False

    @property
    def declared(self) -> Operation | None:
        return self.frozen.declared

    @property
    def is_write(self) -> bool:
        return self.frozen.is_write

    @property
    def status(self) -> int:
        return self.raw.status or 0

    @property
    def rate_limit(self) -> RateLimit:
        """How waits are read, and which are too long."""
        return (self.declared and self.declared.rate_limit) or DEFAULT_RATE_LIMIT

    @property
    def answered_early(self) -> bool:
        """Whether the answer came before the request was handed over in full."""
        return self.raw.sent_bytes < len(self.frozen.body)

    @property
    def expects_status(self) -> bool:
        """Whether the operation declares this very status as a success."""
        return self.declared is not None and self.status in self.declared.success_statuses

    @property
    def settle(self) -> Retry:
        """What may be done about a write of unknown effect."""
        can_reconcile = self.declared is not None and self.declared.reconcile is not None
        return Retry.RECONCILE_FIRST if can_reconcile else Retry.AFTER_HUMAN

    @property
    def unsettled(self) -> Retry:
        """The same where nothing answered it: what may be sent again as it is needs nobody first."""
        return Retry.BOUNDED if self.repeats_safely else self.settle

    @property
    def is_kept_error(self) -> bool:
        """Whether an error would come again for the same key, or is none that the operation lets be sent again."""
        rules = None if self.declared is None else self.declared.idempotency
        if rules is None or not rules.has_key:
            return False
        if rules.replay_ok_when is not None and holds(rules.replay_ok_when, self.view) is True:
            return False
        return rules.replays_errors or rules.replay_ok_when is not None

    @property
    def repeats_safely(self) -> bool:
        return repeats_safely(self.frozen)

    @property
    def unless_read(self) -> RemoteEffect:
        return RemoteEffect.UNKNOWN if self.is_write else RemoteEffect.NONE


def after(case: Case, wait_s: int) -> tuple[Retry, int | None]:
    """How to go on after a wait: above the ceiling it is for a human to say."""
    return (Retry.AFTER_DELAY, wait_s) if wait_s <= case.rate_limit.max_wait_s else (Retry.AFTER_HUMAN, None)


def outcome_unknown(case: Case, code: str, message: str) -> Verdict:
    """Sent, in part or whole, and nothing settles it."""
    return Verdict(
        category=Category.OUTCOME_UNKNOWN,
        code=code,
        retry=case.unsettled if case.is_write else Retry.BOUNDED,
        remote_effect=case.unless_read,
        message=message,
    )


def conflicting(case: Case, message: str) -> Verdict:
    """The upstream sees something in the way, which may be our own change. Sending it again tells no more."""
    return replace(outcome_unknown(case, "in_progress_conflict", message), retry=case.settle)


def malformed(case: Case, code: str, message: str, *, read_retry: Retry = Retry.NEVER) -> Verdict:
    """An answer that breaks the contract. Its status line may still prove the effect of a write."""
    return Verdict(
        category=Category.MALFORMED_RESPONSE,
        code=code,
        retry=case.settle if case.is_write else read_retry,
        remote_effect=_effect_of_broken(case),
        message=message,
    )


def refused(category: Category, code: str, message: str, *, retry: Retry = Retry.NEVER) -> Verdict:
    """The far side, or the way there, says that it did not do it."""
    return Verdict(category=category, code=code, retry=retry, remote_effect=RemoteEffect.NONE, message=message)


def _effect_of_broken(case: Case) -> RemoteEffect:
    if not case.is_write:
        return RemoteEffect.NONE
    is_chunked = any(name == "transfer-encoding" for name, _ in case.raw.headers)
    if is_chunked or case.answered_early:  # such a status may have been sent before the work
        return RemoteEffect.UNKNOWN
    whole_and_expected = case.expects_status and case.raw.fault is None and case.reading.is_whole
    proven = case.status in PROVING_STATUSES or whole_and_expected
    return RemoteEffect.APPLIED if proven else RemoteEffect.UNKNOWN
