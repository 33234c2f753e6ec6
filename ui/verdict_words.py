"""What the verdicts on the log say, the daemon's own and that of a verifier of its own, in rows. Pure.

Whatever is not well is said in capitals, with file and offset, and with what is still proven.
"""

from broker.client.card_words import clock_time
from ui.dates import minute
from ui.paper import Paper, Role, Row, Span, row, wrap
from ui.served import Status
from ui.served_log import SaidVerdict
from ui.world import World

WELL = frozenset({"OK", "OK_UNANCHORED"})
TROUBLE = {"unwritable": "CAN'T BE WRITTEN", "disk_low": "DISK NEARLY FULL"}
_RUNGS = {
    "none": "nothing",
    "outside": "a copy outside",
    "vault": "the vault",
    "keyring": "the keyring",
    "file": "the anchor file",
}


def audit_word(paper: Paper, status: Status) -> str | None:
    """What is wrong with the log, in a word; None where it is well, or nothing is known against it yet."""
    if status.audit_trouble is not None:
        return TROUBLE.get(status.audit_trouble, "OUT OF ORDER")
    if status.audit_verdict is not None and status.audit_verdict not in WELL and not status.audit_known:
        return paper.foreign(status.audit_verdict, limit=24)
    return None if status.audit_anchored and status.audit_verdict != "OK_UNANCHORED" else "UNANCHORED"


def verdict_rows(world: World, paper: Paper) -> list[tuple[str, Row]]:
    """Labels and rows: the verifier's own word where there is one, else the daemon's."""
    said, again = world.verdict, (Span("   "), Span("v", Role.KEY), Span(" checks again"))
    if world.verifying:
        return [("Verdict", row("a verifier of its own is at work"))]
    if said is None or said.at_ms < world.status.audit_verified_at_ms:
        first = _verdict(paper, world.status)
        if not world.status.audit_known:
            return [("Verdict", (*first, *again))]
        held = f"  held against: {paper.foreign(world.status.audit_rung or 'none', limit=24)}"
        return [("Verdict", first), ("", (Span(held), *again))]
    if not said.verdict:
        return [("Verdict", (Span("! the verifier could not be run", Role.LOOK), *again))]
    return _said_rows(said, paper, again)


def _said_rows(said: SaidVerdict, paper: Paper, again: Row) -> list[tuple[str, Row]]:
    held = _RUNGS.get(said.rung, paper.foreign(said.rung, limit=24))
    at = f"checked {minute(said.at_ms)} in {said.took_s:.1f} s"
    name = paper.foreign(said.verdict, limit=24)
    if said.verdict in WELL:
        sign = Span("+ ", Role.GOOD) if said.verdict == "OK" else Span("! ", Role.LOOK)
        return [
            ("Verdict", (sign, Span(f"{name}, whole log, {at}"), *again)),
            ("", row(f"  held against {held}; {said.records:,} records")),
        ]
    where = f"{paper.foreign(said.segment or 'the log', limit=40)} offset {said.offset} record {said.seq}"
    proven = "nothing" if said.proven_to is None else f"all up to record {said.proven_to}"
    notes = wrap(paper.foreign(said.note, limit=300), paper.width - 16)
    return [
        ("Verdict", (Span(f"! {name}", Role.DANGER), Span(f"  {at}"), *again)),
        ("", row(f"  {where}; proven is {proven}")),
        *(("", row(f"  {line}")) for line in notes[:3]),
    ]


def _verdict(paper: Paper, status: Status) -> Row:
    if status.audit_verifying is not None:
        return row(f"verifying, {status.audit_verifying} % done")
    if status.audit_verdict is None:
        return row("not made yet")
    said = paper.foreign(status.audit_verdict, limit=24)
    held = f"held against: {paper.foreign(status.audit_rung or 'none', limit=24)}"
    at = clock_time(status.audit_verified_at_ms)
    if status.audit_verdict in WELL:
        sign = Span("+ ", Role.GOOD) if status.audit_verdict == "OK" else Span("! ", Role.LOOK)
        return row(sign, f"{said} at {at}, {held}")
    if status.audit_known:
        return row(f"{said} at {at}: damage that was taken over; the rest is whole")
    return row(Span(f"! {said} at {at}", Role.DANGER), "  see the warnings")
