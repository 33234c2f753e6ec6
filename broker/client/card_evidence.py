"""The part of a card on evidence: what each need leans on, targets with and without proof, and the other ways."""

from dataclasses import dataclass

from broker.client.card_fields import Fields

COLLECT, LIMIT = "collect", "limit"
COMPLETE, NOT_NEEDED = "complete", "not_needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a collection is not complete; `by` is who cut it."""

    code: str
    message: str
    limit: int | None
    unit: str | None
    by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    id: str
    count: int
    total: int | None
    complete: bool
    collected_at_ms: int
    pages: int
    resumable: bool
    warnings: tuple[str, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """`state` is complete, or says why the need is not met."""

    rule: str
    source: str
    claim: str  # present | absent
    state: str
    max_age_s: int
    proven: tuple[str, ...]
    unproven: tuple[str, ...]
    record: Record | None

    @property
    def is_met(self) -> bool:
        return self.state == COMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    rule: str
    operation: str
    expect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    needed: bool
    state: str
    items: tuple[Need, ...] = ()
    looks: tuple[Look, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def has_gap(self) -> bool:
        return any(not one.is_met for one in self.items)

    @property
    def proven_targets(self) -> int:
        """How many targets are proven by every need that leaves one open."""
        open_ones = [set(one.proven) for one in self.items if one.unproven]
        return len(set.intersection(*open_ones)) if open_ones else 0


def read_evidence(part: Fields) -> Evidence:
    return Evidence(
        needed=part.flag("needed"),
        state=part.text("state"),
        items=tuple(_need(item) for item in part.parts("items")),
        looks=tuple(
            Look(rule=item.text("rule"), operation=item.text("operation"), expect=item.text("expect"))
            for item in part.parts("looks")
        ),
        choices=part.texts("choices"),
    )


def _need(part: Fields) -> Need:
    record = part.part_or_none("record")
    return Need(
        rule=part.text("rule"),
        source=part.text("from"),
        claim=part.text("claim"),
        state=part.text("state"),
        max_age_s=part.integer("max_age_s"),
        proven=part.texts("proven"),
        unproven=part.texts("unproven"),
        record=None if record is None else _record(record),
    )


def _record(part: Fields) -> Record:
    return Record(
        id=part.text("id"),
        count=part.integer("count"),
        total=part.integer_or_none("total"),
        complete=part.flag("complete"),
        collected_at_ms=part.integer("collected_at_ms"),
        pages=part.integer("pages"),
        resumable=part.flag("resumable"),
        warnings=part.texts("warnings"),
        reasons=tuple(_reason(item) for item in part.parts("reasons")),
    )


def _reason(part: Fields) -> Reason:
    return Reason(
        code=part.text("code"),
        message=part.text("message"),
        limit=part.integer_or_none("limit"),
        unit=part.text_or_none("unit"),
        by=part.text_or_none("by"),
    )
