"""Three days of agents, minute by minute: how often a human is asked, when, and what a yes covers then.

make prompts        (or: python -m tests.flow.agent_days)
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from broker.approvals.waiting import Waiting
from broker.client.card import parse_card
from broker.client.card_words import yes_once, yes_session
from broker.contract.reasons import ApprovalRule, Effect
from broker.contract.wire import JsonValue
from broker.core.policy.model import Limits, Rule
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.desk_day import DeskDay, Request

MINUTE_S = 60
DAY_BEGINS_S = 9 * 3600
READER, DEPLOYER, FLOODER = (
    market.agent(4711), market.agent(4712, name="deploy-bot"), market.agent(4713, name="codex"),
)  # fmt: skip
FORKED = market.agent(4714, name="codex")  # another process of the same program
RULES = (
    Rule(
        id="reading",
        approval=ApprovalRule.SESSION,
        effects=(Effect.READ,),
        agents=("claude-code",),
        max_uses=500,
        max_age_s=28_800,
        place=market.PLACE,
    ),
    Rule(
        id="looking",
        approval=ApprovalRule.NONE,
        effects=(Effect.READ,),
        agents=("deploy-bot", "codex"),
        place=market.PLACE,
    ),
    Rule(id="deploying", approval=ApprovalRule.PER_CALL, operations=("orders.create", "jobs.run"), place=market.PLACE),
)
POLICY = replace(market.POLICY, rules=RULES, limits=Limits())


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A card that a human saw."""

    at_s: int
    what: str
    scope: str
    answer: str


@dataclass(slots=True, kw_only=True)
class Told:
    """What a day came to."""

    name: str
    prompts: list[Prompt] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)  # mutes, as the human sees them
    calls: int = 0
    reads: int = 0
    sent: int = 0
    refused: list[str] = field(default_factory=list)  # codes


class Day:
    """One day: agents ask, and whatever card is new the human answers as told."""

    def __init__(self, name: str) -> None:
        self.told = Told(name=name)
        self.desk = DeskDay()
        self.desk.flow.policies.policy = POLICY
        self._seen: set[str] = set()
        self._lines = 0

    @property
    def at_s(self) -> int:
        return DAY_BEGINS_S + self.desk.clock.passed_ms // 1000

    def ask(self, ask: HttpAsk, caller: Any, *, human: Callable[[Waiting], str] | None = None) -> Request:
        request = self.desk.ask(ask, caller=caller)
        self.told.calls += 1
        self.told.reads += ask.operation in {"prices.list", "prices.get"}
        for card in self.desk.cards:
            if card.id not in self._seen:
                self._seen.add(card.id)
                at_s, drawn = self.at_s, card.card
                answer = "leaves it" if human is None else human(card)
                self._note(at_s, drawn, answer)
        for agent, why in self.desk.lines[self._lines :]:
            self.told.lines.append((self.at_s, f"{agent} is muted: {why}"))
        self._lines = len(self.desk.lines)
        return request

    def _note(self, at_s: int, drawn: JsonValue, answer: str) -> None:
        card = parse_card(drawn)
        scope = yes_session(card) if "session" in answer else yes_once(card)
        what = f"{card.summary.effect} {card.summary.service} {card.summary.operation}, {card.summary.identifies}"
        self.told.prompts.append(Prompt(at_s=at_s, what=what, scope=scope, answer=answer))

    def once(self, card: Waiting) -> str:
        self.desk.yes(card)
        return "yes, once"

    def for_session(self, card: Waiting) -> str:
        self.desk.yes(card, scope="session")
        return "yes, for the session"

    def over(self) -> Told:
        self.desk.loop.advance(seconds=15 * MINUTE_S)
        self.told.sent = len(self.desk.flow.executor.permits)
        envelopes: list[Any] = [request.envelope for request in self.desk.requests]
        self.told.refused = [envelope["code"] for envelope in envelopes if envelope["status"] == "failure"]
        self.desk.close()
        return self.told


def reading() -> Told:
    """A list every two minutes, all day."""
    day = Day("reading")
    for number in range(225):
        day.ask(market.ask("prices.get", item=f"leek-{number}"), READER, human=day.for_session)
        day.desk.loop.advance(seconds=2 * MINUTE_S)
    return day.over()


def deploying() -> Told:
    """Three deploys, each after ten looks and followed by ten more."""
    day = Day("deploying")
    for deploy in range(3):
        for step in range(21):
            if step == 10:
                ask = market.ask("orders.create", stall="s1", name=f"release-{deploy}", note="as agreed")
                day.ask(ask, DEPLOYER, human=day.once)
            else:
                day.ask(market.ask("prices.get", item=f"n-{step}"), DEPLOYER)
            day.desk.loop.advance(seconds=5 * MINUTE_S)
    return day.over()


def flood() -> Told:
    """Forty different changes within a minute; then another process of the same program goes on."""
    day = Day("flood")
    for number in range(40):
        day.ask(market.ask("orders.create", stall="s1", name=f"n-{number}", note="now"), FLOODER)
        day.desk.loop.advance(seconds=1)
    for number in range(40):
        day.ask(market.ask("orders.create", stall="s2", name=f"n-{number}", note="now"), FORKED)
        day.desk.loop.advance(seconds=10)
    day.desk.unmute()  # signed, by the human
    day.ask(market.ask("orders.create", stall="s3", name="one", note="please"), FLOODER, human=day.once)
    return day.over()


def days() -> list[Told]:
    return [reading(), deploying(), flood()]


def table(told: list[Told]) -> str:
    """Number, moment and scope of the prompts of each day."""
    lines = [f"{'day':<10} {'at':<8} {'asked about':<46} {'answer':<20} what a yes covers"]
    for day in told:
        seen = [(prompt.at_s, f"{prompt.what:<46} {prompt.answer:<20} {prompt.scope}") for prompt in day.prompts]
        lines += [f"{day.name:<10} {_clock(at_s):<8} {line}" for at_s, line in sorted([*seen, *day.lines])]
        number = f"{len(day.prompts)} prompt{'' if len(day.prompts) == 1 else 's'}"
        of_calls = f"{number} for {day.calls} calls ({day.reads} reads)"
        lines += [f"{day.name:<10} {'in all':<8} {of_calls}; {day.sent} sent, {len(day.refused)} refused", ""]
    return "\n".join(lines).rstrip() + "\n"


def _clock(at_s: int) -> str:
    return f"{at_s // 3600:02}:{at_s // 60 % 60:02}:{at_s % 60:02}"


if __name__ == "__main__":
    sys.stdout.write(table(days()))
