"""The route of agent.sock that walks a list to its end, and its checked document as a value."""

from collections.abc import Mapping

from aiohttp import web

from broker.contract.wire import JsonObject
from broker.core.collect.budget import Wish
from broker.core.collect.request import CollectAsk
from broker.server.actions import Actions
from broker.server.shapes import text_or_none


class CollectApi:
    """The handler."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/collect", self.collect)]

    async def collect(self, request: web.Request) -> web.Response:
        return await self._actions.answer(request, await self._actions.take(request, "collect-request", collect_ask))


def collect_ask(document: JsonObject) -> CollectAsk:
    """A checked collect-request document as a value."""
    args, told = document.get("args"), document.get("budget")
    budget: JsonObject = told if isinstance(told, Mapping) else {}

    def count(name: str) -> int | None:
        value = budget.get(name)
        return int(value) if isinstance(value, int | float) else None  # 5.0 is an integer to a schema

    return CollectAsk(
        service=str(document["service"]),
        operation=str(document["operation"]),
        args=args if isinstance(args, Mapping) else {},
        wish=Wish(pages=count("pages"), items=count("items"), bytes=count("bytes"), seconds=count("seconds")),
        cursor=text_or_none(document, "cursor"),
    )
