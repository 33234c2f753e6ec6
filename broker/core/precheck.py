"""The look just before a change: one declared read, and whether its answer is what the rule expects.

What can't be asked for, is no success, or can't be judged is not as expected. Pure; who sends the read is not known
here.
"""

from broker.contract.reasons import Category, Retry
from broker.contract.result import MESSAGE_LIMIT
from broker.core.channels import Frozen, Raw
from broker.core.classify.channel import judged
from broker.core.classify.reading import read_body
from broker.core.frozen import FrozenRequest
from broker.core.outcome import RawOutcome
from broker.core.placeholders import Unfilled, filled
from broker.core.policy.declarations import Precheck
from broker.core.policy.model import Policy, Rule
from broker.core.predicate import PredicateError, answer_view, compile_predicate, holds
from broker.core.refusals import Refusal
from broker.core.resolve import HttpAsk, resolve


def frozen_look(policy: Policy, frozen: Frozen, precheck: Precheck) -> FrozenRequest | None:
    """The read as it will be sent; None where the request lacks what it is made of, or it is no read."""
    if not isinstance(frozen, FrozenRequest):
        return None
    try:
        args = {name: filled(value, frozen.args) for name, value in precheck.args.items()}
    except Unfilled:
        return None
    ask = HttpAsk(service=frozen.service.name, operation=precheck.operation, args=args, deadlines=frozen.deadlines)
    look = resolve(policy, ask)
    return look if isinstance(look, FrozenRequest) and not look.is_write else None


def as_expected(precheck: Precheck, change: Frozen, look: FrozenRequest, raw: Raw, *, now_ms: int) -> bool:
    """Whether the answer is a success and fulfils what is expected. Raises TypeError as `judged` does."""
    verdict = judged(look, raw, now_ms=now_ms, prior_doubt=False).verdict
    if verdict.category is not Category.SUCCESS or not isinstance(raw, RawOutcome):
        return False
    reading = read_body(raw, method=look.method)
    view = answer_view(status=raw.status or 0, headers=raw.headers, json=reading.json, text=reading.text)
    try:
        expected = compile_predicate(precheck.expect, change.args if isinstance(change, FrozenRequest) else {})
    except PredicateError:  # it names an argument that this request has not
        return False
    return holds(expected, view) is True


def changed(rule: Rule, precheck: Precheck) -> Refusal:
    """The refusal where the look did not show what the rule expects."""
    return Refusal(
        category=Category.EVIDENCE_REQUIRED,
        code="target_changed",
        retry=Retry.NEVER,
        message=(
            f"The change was not sent: {precheck.operation}, read just before it, did not show what rule {rule.id} "
            "expects. Look at the target again, then ask anew."
        )[:MESSAGE_LIMIT],
    )
