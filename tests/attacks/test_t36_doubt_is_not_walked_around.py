"""T36: while a change is in doubt, no other spelling of it, no other session and no other process gets it sent."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract.wire import JsonValue
from broker.core.frozen import FrozenRequest
from broker.core.identity import UNIDENTIFIED, ProcessFacts
from broker.core.ledger import change_key
from broker.core.resolve import HttpAsk, resolve
from tests.fakes import market
from tests.fakes.flow import Flow, gist

REFUSED = ("reconcile_required", "in_doubt", "reconcile_first", "unknown")
TREE = ProcessFacts(pid=99, start_ticks=1, inode=1, uid=1000, exe="/opt/other", exe_id=(8, 3))


def create(**args: JsonValue) -> HttpAsk:
    whole: dict[str, JsonValue] = {"stall": "s1", "name": "two leeks", **args}
    return market.ask("orders.create", **whole)


def by_path(path: str = "/stalls/s1/orders", body: bytes = b'{"name":"two leeks"}', **more: object) -> HttpAsk:
    return HttpAsk(service="market", method="POST", path=path, body=body, **more)  # type: ignore[arg-type]  # HttpAsk's own


SPELLINGS = {
    "the same": create(),
    "query": create(trace="2"),
    "other field": create(note="again, please"),
    "time stamp": create(at="2026-01-01T00:00:01Z"),
    "header": replace(create(), headers=(("x-retry", "1"), ("idempotency-key", "k2"))),
    "space behind": create(name="two leeks "),
    "space before": create(name=" two leeks"),
    "space between": create(name="two  leeks"),
    "no-break space": create(name="two\u00a0leeks"),
    "tab": create(name="two\tleeks"),
    "zero width": create(name="two \u200bleeks"),
    "compatibility form": create(name="two leek\uff53"),
    "by path": by_path(),
    "by path and query": by_path(query=(("trace", "9"),)),
    "body with spaces": by_path(body=b'{ "name" : "two leeks" }'),
    "by url": HttpAsk(method="POST", url=f"{market.BASE_URL}/stalls/s1/orders", body=b'{"name":"two leeks"}'),
    "escaped path": by_path(path="/stalls/%731/orders"),
    "deadline": replace(create(), deadlines=replace(create().deadlines, total_s=5.0)),
}
AD_HOC = {
    "the same": market.AD_HOC,
    "query": replace(market.AD_HOC, query=(("force", "1"),)),
    "header": replace(market.AD_HOC, headers=(("x-retry", "1"),)),
    "body": replace(market.AD_HOC, body=b'{"at": 2}'),
    "slash": replace(market.AD_HOC, path="/anything/"),
    "space": replace(market.AD_HOC, path="/anything%20"),
    "case": replace(market.AD_HOC, path="/ANYTHING"),
    "escaped": replace(market.AD_HOC, path="/%61nything"),
    "parameters": replace(market.AD_HOC, path="/anything;attempt=2"),
    "dot": replace(market.AD_HOC, path="/anything."),
    "zero width": replace(market.AD_HOC, path="/any%e2%80%8bthing"),
    "compatibility form": replace(market.AD_HOC, path="/%ef%bd%81nything"),
    "url": replace(market.AD_HOC, service=None, path=None, url=f"{market.BASE_URL}/anything"),
}
CALLERS = {
    "same process": market.agent(),
    "another process": market.agent(4712),
    "another agent": market.agent(4713, name="codex"),
    "unnamed": market.agent(4714, name=UNIDENTIFIED),
    "child of a tree": market.agent(4715, parent=TREE),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_no_other_spelling_of_an_operation_is_another_change(spelling: str) -> None:
    flow = Flow()
    await flow.doubt_after_yes(create())

    assert REFUSED == gist(await flow.ask(SPELLINGS[spelling]))
    assert (1, 1) == (len(flow.executor.permits), len(flow.desk.cards))


@pytest.mark.parametrize("spelling", AD_HOC)
async def test_no_other_spelling_of_an_ad_hoc_request_is_another_change(spelling: str) -> None:
    flow = Flow()
    await flow.doubt(market.AD_HOC)

    assert REFUSED == gist(await flow.ask(AD_HOC[spelling]))
    assert 1 == len(flow.executor.permits)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("request_id", [None, "r2"])
async def test_nobody_else_gets_it_sent(caller: str, request_id: str | None) -> None:
    flow = Flow()
    await flow.doubt_after_yes(create())

    assert REFUSED == gist(await flow.ask(create(), caller=CALLERS[caller], request_id=request_id))
    assert 1 == len(flow.executor.permits)


async def test_a_new_session_after_the_former_ended_gets_it_no_sooner() -> None:
    flow = Flow()
    await flow.doubt_after_yes(create())
    flow.sessions.exit(flow.caller)
    flow.vault.lock()
    flow.vault.unlock()

    assert REFUSED == gist(await flow.ask(create(), caller=market.agent(4712)))


@pytest.mark.parametrize("hours", [1, 24, 24 * 365])
async def test_time_settles_nothing(hours: int) -> None:
    flow = Flow()
    await flow.doubt_after_yes(create())
    flow.clock.advance(seconds=hours * 3600)

    assert REFUSED == gist(await flow.ask(create()))


async def test_another_object_goes_on() -> None:
    flow = Flow()
    await flow.doubt_after_yes(create())

    assert gist(await flow.ask_and_answer(create(name="one kale")))[:2] == ("success", "ok")
    assert gist(await flow.ask_and_answer(create(stall="s2")))[:2] == ("success", "ok")


SPACES = st.text(alphabet=" \t\u00a0\u2003\u200b\u2060\u00ad", max_size=4)
WORDS = st.lists(st.text(alphabet="abcÄé7-", min_size=1, max_size=5), min_size=1, max_size=4)


def key_of(ask: HttpAsk) -> str | None:
    frozen = resolve(market.POLICY, ask)
    assert isinstance(frozen, FrozenRequest)
    return change_key(frozen)


@settings(max_examples=80, deadline=None)
@given(WORDS, st.data(), st.text(max_size=20), st.text(alphabet="abc012", min_size=1, max_size=8))
def test_whatever_is_put_around_the_words_of_an_object_it_stays_the_object(
    words: list[str], data: st.DataObject, note: str, trace: str
) -> None:
    spelled = data.draw(SPACES) + "".join(f"{word}{' '}{data.draw(SPACES)}" for word in words)

    assert key_of(create(name=" ".join(words))) == key_of(create(name=spelled, note=note, trace=trace))


def test_the_callers_of_this_test_are_different_anchors() -> None:
    assert len(CALLERS) == len({caller.anchor.id for caller in CALLERS.values()})
