"""T01, T02: what the human saw is what is sent: one frozen object, its digest taken at display and looked at again."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest

import broker
from broker.core.approval import Happening
from broker.core.card import card_digest
from broker.core.frozen import FrozenRequest
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow, as_json, gist
from tests.fakes.https_calls import http


@pytest.mark.parametrize("ask", [market.CREATE, market.CANCEL, market.LISTING, market.NOTE, market.JOB])
async def test_the_executor_gets_the_very_object_that_the_desk_was_asked_about(ask: HttpAsk) -> None:
    flow = Flow()
    async with flow.asking(ask) as (card, _):
        flow.desk.settle(card, Happening.APPROVED)
    permit = flow.executor.permits[0]

    assert permit.frozen is card.question.frozen
    assert permit.frozen.digest == as_json(card.drawn)["exact"]["request_digest"]


async def test_the_digest_is_the_same_on_card_decision_intent_and_ledger() -> None:
    flow = Flow()
    async with flow.asking(market.CREATE) as (card, _):
        flow.desk.settle(card, Happening.APPROVED)
    by_name = {event.name.value: event.fields for event in flow.audit.trail(flow.last)}
    digest = card.question.frozen.digest

    assert card_digest(card.drawn) == by_name["approval.requested"]["card"]
    assert {digest} == {
        by_name["policy.decided"]["digest"],
        by_name["dispatch.started"]["digest"],
        flow.ledger.attempts[0].request_digest,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "https://api.market.example/stalls/s1/orders?all=1"),
        ("method", "DELETE"),
        ("headers", (("x-as", "admin"),)),
        ("body", b'{"name":"gold"}'),
        ("destructive", True),
    ],
)
async def test_an_object_that_was_altered_after_it_was_shown_is_not_sent(name: str, value: object) -> None:
    flow = Flow()
    async with flow.asking(market.CREATE) as (card, answer):
        object.__setattr__(card.question.frozen, name, value)  # as only a fault of ours could
        flow.desk.settle(card, Happening.APPROVED)

    assert ("approval_timeout", "approval_void") == gist(answer.result())[:2]
    assert [] == flow.executor.permits


async def test_the_agents_own_objects_are_not_looked_at_again() -> None:
    flow = Flow()
    args = {"stall": "s1", "name": "leek"}
    async with flow.asking(HttpAsk(service="market", operation="orders.create", args=args)) as (card, _):
        args["name"] = "gold"
        flow.desk.settle(card, Happening.APPROVED)

    assert http(flow.executor.permits[0]).body == b'{"name":"leek"}'
    assert "gold" not in str(flow.ledger.attempts)


def test_nothing_resolves_or_templates_once_a_request_is_frozen() -> None:
    """No executor imports what parses, joins, fills in or decides."""
    makers = {
        "broker.core.resolve",
        "broker.core.arguments",
        "broker.core.policy.template",
        "broker.core.policy.evaluate",
    }
    imported = {
        node.module
        for path in (Path(broker.__file__).parent / "executors").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    }

    assert not makers & imported


def test_a_frozen_request_has_nothing_that_is_filled_in_later() -> None:
    assert {"args"} == {field.name for field in fields(FrozenRequest) if "Mapping" in str(field.type)}
