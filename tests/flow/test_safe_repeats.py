"""A change that its operation lets be sent again: the same one goes past its own doubt, and no other does."""

from dataclasses import replace

from broker.contract.reasons import ApprovalRule
from broker.core.approval import Happening
from broker.core.ledger import AttemptState
from broker.core.policy.declarations import Idempotency, IdempotencyKind
from broker.core.policy.model import ReadBack
from tests.fakes import market
from tests.fakes.flow import Flow, gist
from tests.fakes.walked import policy_with

NATURAL = Idempotency(kind=IdempotencyKind.NATURAL)
KEY = Idempotency(kind=IdempotencyKind.KEY, header="idempotency-key", window_s=3600)
REFUSED = ("reconcile_required", "in_doubt", "reconcile_first", "unknown")
SET = market.ask("seats.set", seat="s1", guest="g1")
OTHER = market.ask("seats.set", seat="s1", guest="g2")


def flow_with(
    rules: Idempotency, *, approval: ApprovalRule = ApprovalRule.NONE, method: str = "PUT", in_doubt: str = "refuse"
) -> Flow:
    back = ReadBack(operation="prices.get", args={"item": "leek"}, match="json")
    body = ("guest",) if method == "PUT" else None
    seat = market.operation("seats.set", method, "/seats/{seat}", body=body, idempotency=rules, reconcile=back)
    flow = Flow()
    policy = policy_with(seat, approval=approval)
    changed = tuple(replace(rule, in_doubt=in_doubt) if rule.id == "lists" else rule for rule in policy.rules)
    flow.policies.policy = replace(policy, rules=changed)
    return flow


async def test_a_change_that_says_the_whole_state_may_be_sent_again_after_no_answer() -> None:
    flow = flow_with(NATURAL)
    flow.executor.answers.append(market.LOST)
    first = await flow.ask(SET)

    assert ("outcome_unknown", "connection_lost", "bounded", "unknown") == gist(first)
    assert AttemptState.IN_DOUBT is flow.ledger.state(flow.last)
    assert gist(await flow.ask(SET))[:2] == ("success", "ok")
    assert 2 == len(flow.executor.permits)


async def test_a_success_of_the_same_request_settles_the_first() -> None:
    flow = flow_with(NATURAL)
    doubt = await flow.doubt(SET)
    await flow.ask(SET)
    (settled,) = [event for event in flow.audit.trail(flow.last) if event.name == "reconcile.settled"]

    assert doubt == settled.fields["of"]
    assert AttemptState.SETTLED is flow.ledger.state(doubt)
    assert gist(await flow.ask(OTHER))[:2] == ("success", "ok")


async def test_a_refusal_of_the_same_request_says_nothing_of_the_first() -> None:
    flow = flow_with(NATURAL)
    doubt = await flow.doubt(SET)
    flow.executor.answers.append(market.answered(403))
    await flow.ask(SET)

    assert AttemptState.IN_DOUBT is flow.ledger.state(doubt)


async def test_a_key_is_made_once_kept_before_it_goes_out_and_used_again() -> None:
    flow = flow_with(KEY)
    doubt = await flow.doubt(SET)
    (first,) = flow.ledger.attempts
    assert gist(await flow.ask(SET))[:2] == ("success", "ok")
    before, again = (permit.idempotency_key for permit in flow.executor.permits)

    assert before is not None
    assert first.idempotency_key == before == again
    assert AttemptState.SETTLED is flow.ledger.state(doubt)
    await flow.ask(SET)  # another one of the same, now that the first is known
    assert before != flow.executor.permits[-1].idempotency_key


async def test_a_key_that_the_upstream_no_longer_knows_lets_nothing_through() -> None:
    flow = flow_with(KEY)
    await flow.doubt(SET)
    flow.clock.advance(seconds=3600)

    assert REFUSED == gist(await flow.ask(SET))


async def test_who_sends_it_again_after_the_key_is_forgotten_is_told_that_it_may_be_a_second_one() -> None:
    flow = flow_with(KEY, approval=ApprovalRule.PER_CALL, in_doubt="ask")
    doubt = await flow.doubt_after_yes(SET)
    flow.clock.advance(seconds=3600)
    envelope = await flow.ask_and_answer(SET)
    before, again = (permit.idempotency_key for permit in flow.executor.permits)

    assert before != again
    assert ["IDEMPOTENCY_WINDOW_EXPIRED"] == [warning["code"] for warning in envelope["warnings"]]  # type: ignore[call-overload, index, union-attr]  # JSON
    assert AttemptState.IN_DOUBT is flow.ledger.state(doubt)


async def test_the_key_is_the_brokers_to_say() -> None:
    flow = flow_with(KEY)
    told = await flow.ask(replace(SET, headers=(("idempotency-key", "mine"),)))

    assert ("invalid_request", "reserved_header") == gist(told)[:2]
    assert [] == flow.executor.permits


async def test_another_state_is_no_repeat() -> None:
    flow = flow_with(NATURAL)
    await flow.doubt(SET)

    assert REFUSED == gist(await flow.ask(OTHER))
    assert 1 == len(flow.executor.permits)


async def test_what_does_not_declare_it_is_refused() -> None:
    flow = flow_with(Idempotency())
    await flow.doubt(SET)

    assert REFUSED == gist(await flow.ask(SET))


async def test_a_human_who_is_asked_is_shown_the_doubt() -> None:
    flow = flow_with(NATURAL, approval=ApprovalRule.PER_CALL)
    doubt = await flow.doubt_after_yes(SET)
    async with flow.asking(SET) as (card, answer):
        flow.desk.settle(card, Happening.APPROVED)

    assert [doubt] == [shown["correlation_id"] for shown in card.drawn["doubts"]]  # type: ignore[call-overload, index, union-attr]  # JSON
    assert gist(answer.result())[:2] == ("success", "ok")


async def test_what_may_never_be_sent_again_is_put_before_nobody() -> None:
    flow = flow_with(Idempotency(replay_forbidden=True), approval=ApprovalRule.PER_CALL, in_doubt="ask")
    await flow.doubt_after_yes(SET)

    assert REFUSED == gist(await flow.ask(SET))
    assert 1 == len(flow.desk.cards)


async def test_what_is_gone_after_our_own_deletion_in_doubt_is_deleted_where_that_is_declared() -> None:
    gone = market.ask("seats.set", seat="s1")
    flow = flow_with(Idempotency(kind=IdempotencyKind.NATURAL, absent_is_success=True), method="DELETE")
    await flow.doubt(gone)
    flow.executor.answers.append(market.answered(404))

    assert ("success", "ok", "never", "applied") == gist(await flow.ask(gone))


async def test_what_is_gone_after_our_own_deletion_in_doubt_may_be_gone_by_it() -> None:
    gone = market.ask("seats.set", seat="s1")
    flow = flow_with(NATURAL, method="DELETE")
    await flow.doubt(gone)
    flow.executor.answers.append(market.answered(404))

    assert ("outcome_unknown", "in_progress_conflict", "reconcile_first", "unknown") == gist(await flow.ask(gone))


async def test_a_version_that_has_moved_on_after_our_own_attempt_may_have_been_moved_by_it() -> None:
    flow = flow_with(Idempotency(kind=IdempotencyKind.PRECONDITION))
    named = replace(SET, headers=(("if-match", '"v7"'),))
    await flow.doubt(named)
    flow.executor.answers.append(market.answered(412))

    assert ("outcome_unknown", "in_progress_conflict", "reconcile_first", "unknown") == gist(await flow.ask(named))
    assert REFUSED == gist(await flow.ask(SET))  # without the version it is another request
