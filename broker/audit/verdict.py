"""What `audit verify` can say: the closed set of verdicts, their exit codes, and the rung that was reached."""

from dataclasses import dataclass
from enum import StrEnum

from broker.contract.wire import JsonObject


class VerdictName(StrEnum):
    OK = "OK"
    OK_UNANCHORED = "OK_UNANCHORED"
    TORN_TAIL = "TORN_TAIL"
    TORN_OR_TAMPERED = "TORN_OR_TAMPERED"
    TRUNCATED = "TRUNCATED"
    ALTERED = "ALTERED"
    REORDERED = "REORDERED"
    GAP = "GAP"
    FORGED_SIGNATURE = "FORGED_SIGNATURE"
    ROLLBACK = "ROLLBACK"
    WRONG_LOG = "WRONG_LOG"
    EMPTY_OR_MISSING = "EMPTY_OR_MISSING"
    UNREADABLE = "UNREADABLE"


EXIT_CODES = {
    VerdictName.OK: 0,
    VerdictName.OK_UNANCHORED: 40,
    VerdictName.TORN_TAIL: 41,
    VerdictName.TORN_OR_TAMPERED: 42,
    VerdictName.TRUNCATED: 43,
    VerdictName.ALTERED: 44,
    VerdictName.REORDERED: 45,
    VerdictName.GAP: 46,
    VerdictName.FORGED_SIGNATURE: 47,
    VerdictName.ROLLBACK: 48,
    VerdictName.WRONG_LOG: 49,
    VerdictName.EMPTY_OR_MISSING: 50,
    VerdictName.UNREADABLE: 51,
}
TORN = frozenset({VerdictName.TORN_TAIL, VerdictName.TORN_OR_TAMPERED})


class Rung(StrEnum):
    """Which knowledge from outside the log directory the log was held against, from weak to strong."""

    NONE = "none"
    FILE = "file"  # another directory of the same user
    KEYRING = "keyring"
    VAULT = "vault"  # sealed with the credentials
    OUTSIDE = "outside"  # where nobody on this machine can change it


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`segment`, `offset` and `seq` are the place of the first bad record, or the end of what was proven."""

    verdict: VerdictName
    rung: Rung
    pinned: bool
    live: bool
    segment: str | None
    offset: int | None
    seq: int | None
    proven_to: int | None  # the last record under a signature that was checked
    records: int  # how many those are
    note: str

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def to_json(self) -> JsonObject:
        return {
            "verdict": self.verdict.value,
            "rung": self.rung.value,
            "pinned": self.pinned,
            "live": self.live,
            "segment": self.segment,
            "offset": self.offset,
            "seq": self.seq,
            "proven_to": self.proven_to,
            "records": self.records,
            "note": self.note,
        }
