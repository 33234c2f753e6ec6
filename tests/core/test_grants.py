from dataclasses import replace

import pytest

from broker.contract.reasons import ApprovalRule
from broker.core.frozen import FrozenRequest
from broker.core.grants import Circumstances, Grant, allowance, covers, make, scope_of, used_once_more
from broker.core.identity import ProcessFacts
from broker.core.policy.model import Ask, Limits, Rule
from broker.core.resolve import HttpAsk, resolve
from tests.fakes import market

RULE = Rule(id="look", approval=ApprovalRule.SESSION, max_uses=3, max_age_s=60, place=market.PLACE)
ASK = Ask(rule=RULE, rules=("look",))
UNDER = Circumstances(
    session_id="se_1", policy_digest=market.DIGEST, credential_version=1, run=(8, 1, 7), now_ms=1_000_000
)


def frozen(ask: HttpAsk) -> FrozenRequest:
    request = resolve(market.POLICY, ask)
    assert isinstance(request, FrozenRequest)
    return request


LISTING = frozen(market.LISTING)
READ = frozen(market.READ)
ELSEWHERE = frozen(HttpAsk(service="square", method="GET", path="/prices"))


def ask(**changes: object) -> Ask:
    return replace(ASK, rule=replace(RULE, **changes))  # type: ignore[arg-type]  # names of Rule's own


def granted(asked: Ask = ASK, under: Circumstances = UNDER, request: FrozenRequest = LISTING) -> Grant:
    return make(grant_id="gr_1", ask=asked, frozen=request, limits=Limits(), under=under)


def test_a_clock_that_was_put_back_behind_its_beginning_gives_a_grant_no_more_time() -> None:
    before = replace(UNDER, now_ms=UNDER.now_ms - 1)

    assert covers(granted(), ASK, LISTING, UNDER)
    assert not covers(granted(), ASK, LISTING, before)


def test_the_request_that_asked_is_the_first_use() -> None:
    assert 1 == granted().used


def test_a_grant_covers_the_same_again() -> None:
    assert covers(granted(), ASK, LISTING, UNDER)


@pytest.mark.parametrize(
    "under",
    [
        replace(UNDER, session_id="se_2"),
        replace(UNDER, policy_digest=market.OTHER_DIGEST),
        replace(UNDER, credential_version=2),
        replace(UNDER, credential_version=None),
        replace(UNDER, run=(8, 2, 7)),
        replace(UNDER, run=(8, 1, 8)),
        replace(UNDER, run=None),
        replace(UNDER, now_ms=UNDER.now_ms + 60_000),
    ],
    ids=["session", "policy", "credential", "no credential", "exec", "exec of the same", "unknown exe", "age"],
)
def test_a_grant_holds_only_while_all_is_as_it_was(under: Circumstances) -> None:
    assert not covers(granted(), ASK, LISTING, under)


def test_a_grant_to_an_executable_that_nobody_could_see_covers_nothing() -> None:
    unseen = replace(UNDER, run=None)

    assert not covers(granted(under=unseen), ASK, LISTING, unseen)


def test_a_grant_ends_with_its_age_and_not_before() -> None:
    assert covers(granted(), ASK, LISTING, replace(UNDER, now_ms=UNDER.now_ms + 59_999))


def test_a_grant_is_used_up() -> None:
    grant = granted()
    uses = 0
    while covers(grant, ASK, LISTING, UNDER):
        grant = used_once_more(grant)
        uses += 1

    assert (2, 3) == (uses, grant.used)  # and the one that asked


def test_a_rule_that_asks_each_time_is_never_covered() -> None:
    each_time = ask(approval=ApprovalRule.PER_CALL)

    assert not covers(granted(each_time), each_time, LISTING, UNDER)


def test_another_rule_is_not_covered() -> None:
    assert not covers(granted(), ask(id="other"), LISTING, UNDER)


def test_another_services_credential_is_not_covered() -> None:
    assert not covers(granted(), ASK, ELSEWHERE, replace(UNDER, credential_version=None))


@pytest.mark.parametrize(
    ("per", "scope", "covered"),
    [
        ("rule", "look", {"market.prices.list", "market.prices.get", "fair.GET"}),
        ("service", "look/market", {"market.prices.list", "market.prices.get"}),
        ("operation", "look/market.prices.list", {"market.prices.list"}),
    ],
)
def test_a_yes_covers_the_scope_that_the_rule_names(per: str, scope: str, covered: set[str]) -> None:
    asked = ask(per=per)
    grant = granted(asked)
    requests = [LISTING, READ, frozen(HttpAsk(service="fair", method="GET", path="/prices"))]

    assert scope == grant.scope == scope_of(asked.rule, LISTING)
    assert covered == {request.operation for request in requests if covers(grant, asked, request, UNDER)}


def test_the_policys_limits_cap_what_a_rule_allows() -> None:
    assert (3, 60) == allowance(RULE, Limits())
    assert (2, 60) == allowance(RULE, Limits(max_uses=2))
    assert (3, 30) == allowance(RULE, Limits(max_age_s=30))


def test_the_executable_is_told_by_what_it_is_and_not_by_its_name() -> None:
    process = ProcessFacts(pid=2, start_ticks=1, inode=1, uid=1, exe="/opt/agent", exe_id=(8, 9))

    assert not covers(granted(), ASK, LISTING, replace(UNDER, run=process.run))
