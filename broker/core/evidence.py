"""Evidence: complete collections on record, and what they prove for a change.

A record counts for its own anchor, credential version, policy and arguments alone, and while it is fresh. Targets are
taken from the frozen request. Where records differ the one that speaks against the change is heard. Judges values;
storage is operations/evidence_store.py's business.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from broker.contract.reasons import WarningCode
from broker.contract.wire import JsonObject, JsonValue, digest
from broker.core.arguments import text_of
from broker.core.placeholders import Unfilled, filled
from broker.core.policy.declarations import Claim, EvidenceNeed, Visibility
from broker.core.policy.model import Operation

KEPT_MS = 86_400_000  # how long a collection may be leaned on at all; rules ask for less
_USUAL_MS = 3_600_000  # so long one is kept where no rule asks for longer, for what it says of what is missing
_NEVER_ONE_TARGET = frozenset(",*")  # an upstream may read several into it


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRecord:
    """One collection, as it was when it ended, complete or not.

    `args` are those asked with, without what only turns pages (see `asked_args`); `ids` are the rows' own, spelled by
    `id_text`; `collected_at_ms` is when the first page was asked for. Times are milliseconds since the epoch.
    """

    id: str = ""  # the store's to give
    anchor_id: str
    service: str
    operation: str  # its name within the service
    args: JsonObject
    credential: str | None
    credential_version: int | None
    policy_digest: str
    id_place: str | None  # the place in a row where its id stands
    ids: tuple[str, ...]
    count: int
    total: int | None  # as the upstream told it
    collected_at_ms: int
    expires_at_ms: int
    complete: bool
    reasons: tuple[JsonObject, ...] = ()  # as in an envelope's incomplete_reasons
    warnings: tuple[WarningCode, ...] = ()
    visibility: Visibility = Visibility.FULL
    scope: JsonObject | None = None
    snapshot: str | None = None
    pages: int = 1
    cursor: str | None = None  # where it could be read on

    @property
    def ids_digest(self) -> str:
        return digest("doorward/evidence/ids/v1", list(self.ids))


def kept_for_ms(longest_need_s: int) -> int:
    """How long a collection is kept on which rules lean for so long."""
    return min(KEPT_MS, max(_USUAL_MS, longest_need_s * 1000))


class Gap(StrEnum):
    """Why a need is not met: the codes of evidence_required."""

    NONE_RECORDED = "none_recorded"
    OTHER_ARGUMENTS = "other_arguments"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    REFUSED_WARNING = "refused_warning"
    TARGET_NOT_COVERED = "target_not_covered"
    TARGET_PRESENT = "target_present"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaning:
    """Who wants to lean on records, for what, and when."""

    anchor_id: str
    service: str
    args: JsonObject  # of the frozen request
    credential: str | None
    credential_version: int | None
    policy_digest: str
    now_ms: int
    hints: tuple[str, ...] = ()  # ids that the agent names: nothing else counts then, and none of them proves anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One need of a rule, and what there is for it. `record` is the one that was leaned on, or the nearest to it."""

    rule_id: str
    need: EvidenceNeed
    args: JsonObject | None  # to collect with; None where the request lacks what they are made of
    targets: tuple[str, ...]
    proven: tuple[str, ...]  # of the targets, what was seen to be as claimed
    unproven: tuple[str, ...]
    record: EvidenceRecord | None
    gap: Gap | None

    @property
    def is_met(self) -> bool:
        return self.gap is None


def asked_args(operation: Operation, args: JsonObject) -> JsonObject:
    """What a collection was asked with, less the arguments that only turn its pages."""
    paging = operation.pagination
    turning = set() if paging is None else {paging.param, paging.size_param}
    return {name: value for name, value in args.items() if name not in turning}


def id_text(value: JsonValue) -> str | None:
    """An id as records spell it; None where it is none."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def judge(rule_id: str, need: EvidenceNeed, leaning: Leaning, records: Sequence[EvidenceRecord]) -> Judged:
    """What the records prove for one need."""
    wanted = _wanted(need, leaning.args)
    targets = targets_of(need, leaning.args)
    mine = [record for record in records if _is_bound(record, need, leaning)]
    same = [record for record in mine if wanted is not None and _same(record.args, wanted)]
    fresh = [record for record in same if _is_fresh(record, need, leaning.now_ms)]
    hinted = [record for record in fresh if not leaning.hints or record.id in leaning.hints]
    sound = [record for record in hinted if _flaw(record, need) is None]
    nearest = _newest(sound) or _newest(hinted) or _newest(fresh) or _newest(same) or _newest(mine)
    proven = _proven(need, leaning.args, nearest if nearest in hinted else None, fresh)
    known = frozenset(proven)
    unproven = tuple(target for target in targets if target not in known)
    seen = _seen(nearest, fresh) if need.claim is Claim.ABSENT else frozenset()
    return Judged(
        rule_id=rule_id,
        need=need,
        args=wanted,
        targets=targets,
        proven=proven,
        unproven=unproven,
        record=nearest,
        gap=_gap(
            need,
            nearest,
            stages=(same, fresh, hinted),
            covered=bool(targets) and not unproven,
            contradicted=any(_folded(target) in seen for target in targets),
        ),
    )


def targets_of(need: EvidenceNeed, args: JsonObject) -> tuple[str, ...]:
    """The targets that `covers` names in a request; each once, in the request's order."""
    return tuple(dict.fromkeys(text_of(member) for member in _members(need, args)))


def _members(need: EvidenceNeed, args: JsonObject) -> Sequence[JsonValue]:
    try:
        value = filled(need.covers, args)
    except Unfilled:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _wanted(need: EvidenceNeed, args: JsonObject) -> JsonObject | None:
    try:
        return {name: filled(value, args) for name, value in need.args.items()}
    except Unfilled:
        return None


def _is_bound(record: EvidenceRecord, need: EvidenceNeed, leaning: Leaning) -> bool:
    """Whether the record was made for this anchor, under all that holds now, by the operation that the rule names."""
    return (
        record.anchor_id == leaning.anchor_id
        and (record.service, record.operation) == (leaning.service, need.operation)
        and (record.credential, record.credential_version) == (leaning.credential, leaning.credential_version)
        and record.policy_digest == leaning.policy_digest
        and record.id_place is not None
        and record.id_place.removeprefix("json.") == need.id.removeprefix("json.")
    )


def _is_fresh(record: EvidenceRecord, need: EvidenceNeed, now_ms: int) -> bool:
    """A record from the future is none: the clock was set, and nobody knows how old it is."""
    age_ms = now_ms - record.collected_at_ms
    return 0 <= age_ms <= min(need.max_age_s * 1000, KEPT_MS) and now_ms < record.expires_at_ms


def _flaw(record: EvidenceRecord, need: EvidenceNeed) -> Gap | None:
    """What keeps a fresh record of the right collection from proving anything."""
    absent = need.claim is Claim.ABSENT
    if not record.complete or (absent and record.visibility is Visibility.FILTERED):
        return Gap.INCOMPLETE
    refused = {*need.refuse_warnings, *([WarningCode.STALE_INDEX] if absent else [])}
    return Gap.REFUSED_WARNING if refused.intersection(record.warnings) else None


def _gap(
    need: EvidenceNeed,
    nearest: EvidenceRecord | None,
    *,
    stages: tuple[Sequence[EvidenceRecord], ...],
    covered: bool,
    contradicted: bool,
) -> Gap | None:
    same, fresh, hinted = stages
    if nearest is None:
        return Gap.NONE_RECORDED
    if not same:
        return Gap.OTHER_ARGUMENTS
    if not fresh:
        return Gap.STALE
    if not hinted:
        return Gap.NONE_RECORDED
    flaw = _flaw(nearest, need)
    if flaw is not None or covered:
        return flaw
    return Gap.TARGET_PRESENT if contradicted else Gap.TARGET_NOT_COVERED


def _proven(
    need: EvidenceNeed, args: JsonObject, record: EvidenceRecord | None, fresh: Sequence[EvidenceRecord]
) -> tuple[str, ...]:
    """The targets that the record shows as claimed and that no later one shows otherwise."""
    if record is None:
        return ()
    targets = dict.fromkeys(text for member in _members(need, args) if (text := id_text(member)) is not None)
    if need.claim is Claim.PRESENT:
        sound = [other for other in _since(record, fresh) if _flaw(other, need) is None]
        lists = [set(other.ids) for other in (record, *sound)]
        return tuple(target for target in targets if all(target in ids for ids in lists))
    if _flaw(record, need) is not None:
        return ()
    seen = _seen(record, fresh)
    return tuple(target for target in targets if _is_one(target) and _folded(target) not in seen)


def _since(record: EvidenceRecord, fresh: Sequence[EvidenceRecord]) -> list[EvidenceRecord]:
    return [other for other in fresh if other.collected_at_ms >= record.collected_at_ms]


def _seen(record: EvidenceRecord | None, fresh: Sequence[EvidenceRecord]) -> frozenset[str]:
    """Every id that was seen in the record or since, as loosely as an upstream may compare."""
    records = () if record is None else (record, *_since(record, fresh))
    return frozenset(_folded(one) for other in records for one in other.ids)


def _is_one(target: str) -> bool:
    """Whether no upstream could take the text for more than one thing, or for a pattern."""
    return bool(target.strip()) and target.isprintable() and not _NEVER_ONE_TARGET.intersection(target)


def _folded(text: str) -> str:
    """As loosely as an upstream may compare: what looks alike is not absent."""
    plain = unicodedata.normalize("NFKC", text).casefold().strip()
    return plain.lstrip("0") or "0" if plain.isascii() and plain.isdigit() else plain


def _newest(records: Iterable[EvidenceRecord]) -> EvidenceRecord | None:
    return max(records, key=lambda record: (record.collected_at_ms, record.id), default=None)


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Equal arguments; `7` and `"7"` are, for in a path or a query they spell the same."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_same(left, right) for left, right in zip(one, other, strict=True))
    if isinstance(one, Mapping | list | tuple) or isinstance(other, Mapping | list | tuple):
        return False
    return text_of(one) == text_of(other)
