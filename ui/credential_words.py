"""What is known of a credential beside its metadata: its last use, whether its service took it, and who may use it.

A service took a credential where a request that carried it was answered as such; what else an answer says proves
nothing for it, and a refused log-in proves something against it. All of it is read from the log's rows and from checks
that this window asked for. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ui.list_messages import CheckedNews
from ui.paper import Role, Span
from ui.served_log import ActivityRow
from ui.served_policy import PolicyFacts

_TAKEN = frozenset({"success", "partial"})
_REFUSED = "authentication_failed"
_SIGNS = {"valid": ("+", Role.GOOD), "invalid": ("x", Role.NO), "unknown": ("?", Role.UNKNOWN)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The newest row in which it was used, and the newest that says whether it was taken."""

    last: ActivityRow
    judged: ActivityRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """valid, invalid or unknown; since when, and by what, is None where nothing is known."""

    verdict: str
    at_ms: int | None = None
    by: str = ""

    @property
    def span(self) -> Span:
        sign, role = _SIGNS.get(self.verdict, _SIGNS["unknown"])
        return Span(f"{sign} {self.verdict if self.verdict in _SIGNS else 'unknown'}", role)


def uses_of(rows: Iterable[ActivityRow]) -> dict[str, Use]:
    """By the name of the credential; `rows` are the newest first."""
    out: dict[str, Use] = {}
    for item in rows:
        if item.credential is None:
            continue
        judges = item if item.category in _TAKEN or item.category == _REFUSED else None
        known = out.get(item.credential)
        if known is None:
            out[item.credential] = Use(last=item, judged=judges)
        elif known.judged is None and judges is not None:
            out[item.credential] = Use(last=known.last, judged=judges)
    return out


def taken(name: str, uses: Mapping[str, Use], checks: tuple[CheckedNews, ...]) -> Taken:
    """By the latest word on it."""
    asked = next((one for one in checks if one.name == name), None)
    use = uses.get(name)
    judged = None if use is None else use.judged
    tells = asked is not None and (asked.verdict != "unknown" or judged is None)
    if asked is not None and tells and (judged is None or judged.at_ms <= asked.at_ms):
        return Taken(verdict=asked.verdict, at_ms=asked.at_ms, by=asked.message)
    if judged is None:
        return Taken(verdict="unknown")
    verdict = "invalid" if judged.category == _REFUSED else "valid"
    return Taken(verdict=verdict, at_ms=judged.at_ms, by="by a request of an agent")


def services_of(name: str, facts: PolicyFacts | None) -> list[str]:
    """The services that use it, by the policy in force."""
    told = () if facts is None else facts.services
    return sorted({service for service, _, credential, _ in told if credential == name})


def rules_of(services: list[str], facts: PolicyFacts | None) -> list[str]:
    """The rules that name one of these services; a rule that names none speaks of all of them."""
    told = () if facts is None else facts.rule_list
    return [rule.id for rule in told if {part.strip() for part in rule.about.split("·")} & {*services, "any service"}]
