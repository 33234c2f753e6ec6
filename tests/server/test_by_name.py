"""Callers by name: what they are called, and that nothing stands behind them."""

from broker.core.identity import UNIDENTIFIED
from broker.server.by_name import caller_called


def test_a_caller_goes_by_the_name_it_is_given_and_spans_nothing() -> None:
    named, nobody = caller_called("codex"), caller_called(UNIDENTIFIED)

    assert ("codex", UNIDENTIFIED) == (named.agent, nobody.agent)
    assert {0} == {named.anchor.pid, nobody.anchor.pid}
    assert () == named.peer.ancestors
