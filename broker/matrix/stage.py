"""What a channel has to bring to the runner: far sides to be armed, tables for the policy, and things done meanwhile.

One Stage each for HTTP, SSH and faults within the daemon. A run is one round of one case; its name is unique.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from broker.contract.wire import JsonObject
from broker.matrix.cases import Case
from broker.matrix.records import Seen

if TYPE_CHECKING:
    from broker.matrix.house import House

CANARY = "canary-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One round of a case. The name goes into paths; the token is the run's own canary."""

    case: Case
    name: str
    token: str = field(default_factory=lambda: f"{CANARY}{secrets.token_hex(16)}", repr=False)

    @property
    def credential(self) -> str:
        return f"matrix-{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnished:
    """What the house needs for a run: tables of services, the credential, and where it is bound to."""

    orders: Mapping[str, JsonObject]  # by role, see orders.py; `main` is the case's own request
    services: Mapping[str, JsonObject]
    origins: tuple[str, ...]
    kind: str = "bearer"
    secret: JsonObject = field(default_factory=dict)  # as `credential add` takes it; empty: the run's token
    files: Mapping[str, str] = field(default_factory=dict)  # beside the policy, such as a CA
    program: Sequence[str] = ()  # of the daemon, in the place of the plain one; runs of the same share it


class Stage(Protocol):
    """One channel of the matrix. Entered once, closed at the end."""

    def furnish(self, run: Run) -> Furnished:
        """Arm the far sides, and say what the house needs."""
        ...

    def meanwhile(self, run: Run, house: "House") -> None:
        """What happens while the agent acts; called in a thread of its own, and has to end by itself."""
        ...

    def afterwards(self, run: Run, house: "House") -> None:
        """Put right what the run broke, once its agents have ended."""
        ...

    def events(self, run: Run) -> tuple[Seen, ...]:
        """What the far sides wrote down of the run."""
        ...

    def close(self) -> None: ...
