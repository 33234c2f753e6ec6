"""One change that trusting a policy makes: what it is about, what it was, what it becomes, and where that stands."""

from dataclasses import dataclass

from broker.contract.wire import JsonValue
from broker.core.policy.place import Place

LOOSENS, TIGHTENS, NEW_REACH = "loosens", "tightens", "new_reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One changed decision. `direction` is loosens, tightens or new_reach; `place` is the rule or service behind it."""

    direction: str
    subject: str
    was: str
    becomes: str
    place: Place | None = None
    rule: str | None = None  # that decides now, or did
    was_place: Place | None = None  # in the policy before
    is_gone: bool = False  # `place` is where it stood before

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "direction": self.direction,
            "subject": self.subject,
            "was": self.was,
            "becomes": self.becomes,
            "place": None if self.place is None else str(self.place),
            "rule": self.rule,
            "was_place": None if self.was_place is None else str(self.was_place),
        }
