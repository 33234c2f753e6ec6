"""The frozen request: what was asked, resolved and spelled out once, before anybody decides about it.

Nothing is parsed, joined, defaulted or templated after this value exists; the card shows it, the digest names it,
the executor sends it. A credential appears as its name alone.
"""

import hashlib
from dataclasses import dataclass, field

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject, JsonValue, digest
from broker.core.collect.budget import Budget
from broker.core.policy.model import Operation, Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds allowed per phase; total bounds them all."""

    connect_s: float = 5.0
    write_s: float = 10.0
    first_byte_s: float = 20.0
    total_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkBound:
    """The request is the first of a walk over pages: how far that may go, and which earlier one it goes on with."""

    budget: Budget
    cursor: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        return {**self.budget.to_json(), "cursor": self.cursor}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenRequest:
    """One HTTP request as it will be sent, less the credential.

    `url` is canonical (lower-case scheme and host, explicit port left out where it is the default, encoded path and
    query); `headers` has lower-case names in sending order; `operation` is `service.name`, ad hoc `service.METHOD`.
    """

    service: Service
    operation: str
    declared: Operation | None
    method: str
    url: str
    host: str
    port: int
    path: str  # as sent, percent-encoded, without the query
    query: str  # as sent, without the question mark
    headers: tuple[tuple[str, str], ...]
    body: bytes
    effect: Effect
    destructive: bool
    args: JsonObject = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    identifies: str = ""  # what names the target on the card's summary line
    deadlines: Deadlines = field(default_factory=Deadlines)
    walk: WalkBound | None = None
    _hashed: tuple[bytes, str] = field(init=False, repr=False, compare=False)  # asked for often, and may be large
    _digested: tuple[tuple[object, ...], str] = field(init=False, repr=False, compare=False, default=((), ""))

    def __post_init__(self) -> None:
        self._hash()

    @property
    def body_sha256(self) -> str:
        """Of the body as it is now: a hash is kept for that very object alone."""
        body, found = self._hashed
        return found if body is self.body else self._hash()

    def _hash(self) -> str:
        found = hashlib.sha256(self.body).hexdigest()
        object.__setattr__(self, "_hashed", (self.body, found))
        return found

    @property
    def digest(self) -> str:
        """Of the request as it is now: asked for at every step, so it is kept for these very values alone."""
        values = (
            self.service, self.operation, self.method, self.url, self.headers, self.body, self.effect,
            self.destructive, self.targets, self.walk,
        )  # fmt: skip
        kept, found = self._digested
        if kept != values:
            found = digest("doorward/request/v1", self.to_json())
            object.__setattr__(self, "_digested", (values, found))
        return found

    @property
    def is_write(self) -> bool:
        return self.effect is not Effect.READ

    @property
    def is_open(self) -> bool:
        """Whether the service lets it be asked for at all."""
        return self.declared is not None or self.method in self.service.ad_hoc

    @property
    def subject(self) -> str:
        """What is worked on, where the operation has no words for it."""
        return self.path

    @property
    def summary(self) -> str:
        """One line for lists: what is done to what, without the query."""
        return f"{self.method} {self.url.split('?', 1)[0]}"

    @property
    def target(self) -> str:
        """One line for lists of cards, with the query."""
        return f"{self.method} {self.url}"

    @property
    def bound_urls(self) -> tuple[str, ...]:
        """Where the credential is shown; a binding has to cover each."""
        return (self.url,)

    @property
    def total_s(self) -> float:
        return self.deadlines.total_s

    def to_json(self) -> dict[str, JsonValue]:
        """The canonical description that the digest covers."""
        return {
            "channel": "http",
            "service": self.service.name,
            "operation": self.operation,
            "method": self.method,
            "url": self.url,
            "headers": [list(pair) for pair in self.headers],
            "body": {"len": len(self.body), "sha256": self.body_sha256},
            "effect": self.effect.value,
            "destructive": self.destructive,
            "credential": self.service.credential,
            "targets": list(self.targets),
            **({} if self.walk is None else {"walk": self.walk.to_json()}),
        }
