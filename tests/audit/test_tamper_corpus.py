"""Every way of changing a log that we know of, each with its exact verdict and place, with and without the anchor."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.audit import AuditError
from broker.audit.ladder import HeldAnchor
from broker.audit.verdict import EXIT_CODES, Rung, Verdict, VerdictName
from broker.audit.verify import verify
from tests.fakes.forger import CHECKPOINT, COMMIT, END, EPOCH, EVENT, FIELDS, RECOVERY, SEGMENT, Forger, Raw
from tests.tampering import chains, files, records
from tests.tampering.corpus import (
    ALTERED,
    CASES,
    FORGED,
    NOWHERE,
    OK,
    ROLLBACK,
    TRUNCATED,
    UNANCHORED,
    UNSURE,
    WRONG_LOG,
    Base,
    Place,
    at,
    ends,
    make_base,
)

MODULES = (chains, files, records)  # importing them enters their cases


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def forger(base: Base, tmp_path: Path) -> Forger:
    return Forger(base.frozen, tmp_path / "audit", pin=base.log.pin, anchor=base.anchor)


def told(verdict: Verdict) -> tuple[VerdictName, int, Place]:
    return verdict.verdict, verdict.exit_code, Place(verdict.segment, verdict.offset, verdict.seq)


def expected(name: VerdictName, place: Place) -> tuple[VerdictName, int, Place]:
    return name, EXIT_CODES[name], place


def judge(
    forger: Forger, with_anchor: VerdictName, without: VerdictName, place: Place, alone: Place | None = None
) -> None:
    anchored, by_itself = forger.verdict(anchored=True), forger.verdict(anchored=False)

    assert expected(with_anchor, place) == told(anchored), anchored.to_json()
    assert expected(without, place if alone is None else alone) == told(by_itself), by_itself.to_json()


def test_the_untouched_log_is_whole_and_holds_every_record_type(forger: Forger) -> None:
    judge(forger, OK, UNANCHORED, ends(forger.records[-1]))
    assert {SEGMENT, EPOCH, EVENT, COMMIT, CHECKPOINT, RECOVERY, END} == {record.kind for record in forger.records}
    assert len(forger.files) >= 3


def test_the_corpus_is_as_large_as_it_has_to_be() -> None:
    assert len(CASES) + len(MIDDLE) * len(FIELDS) >= 56
    assert len(CASES) >= 56  # without counting each bit


MIDDLE: dict[str, Callable[[Forger], Raw]] = {
    "first segment": lambda forger: forger.first(SEGMENT),
    "second segment": lambda forger: forger.first(SEGMENT, after=1),
    "first epoch": lambda forger: forger.first(EPOCH),
    "epoch": lambda forger: forger.first(EPOCH, after=8),
    "event": lambda forger: forger.first(EVENT, after=12),
    "last event": lambda forger: forger.last(EVENT),
    "commit": lambda forger: forger.first(COMMIT, after=12),
    "checkpoint": lambda forger: forger.first(CHECKPOINT),
    "recovery": lambda forger: forger.first(RECOVERY),
    "end": lambda forger: forger.first(END),
}


@pytest.mark.parametrize("field", list(FIELDS))
@pytest.mark.parametrize("where", list(MIDDLE))
def test_a_flipped_bit_in_any_field_of_any_record_type_is_an_alteration(forger: Forger, where: str, field: str) -> None:
    record = MIDDLE[where](forger)
    forger.flip(record, field)

    judge(forger, ALTERED, ALTERED, at(record))


@pytest.mark.parametrize(
    ("field", "without"),
    [
        ("length", ALTERED),
        ("type", UNSURE),  # a CHECKPOINT may be 64 bytes long, so this is a whole frame with a wrong hash
        ("flags", ALTERED),
        ("reserved", ALTERED),
        ("epoch", UNSURE),
        ("seq", ALTERED),
        ("payload", UNSURE),
        ("hash", UNSURE),
    ],
)
def test_a_flipped_bit_in_the_last_record_is_told_from_a_torn_write_by_the_anchor(
    forger: Forger, field: str, without: VerdictName
) -> None:
    record = forger.last(COMMIT)
    forger.flip(record, field)

    judge(forger, ALTERED, without, at(record))


@pytest.mark.parametrize("name", list(CASES))
def test_verdict_and_place_are_exact_when(base: Base, forger: Forger, name: str) -> None:
    case = CASES[name]
    found = case.mutation(forger, base)
    place, alone = (found, found) if isinstance(found, Place) else found

    judge(forger, case.anchored, case.alone, place, alone)


# What the rungs above the anchor file see.


def held(forger: Forger, *anchors: HeldAnchor, note: bytes | None = None) -> Verdict:
    return verify(forger.directory, pin=forger.pin, anchors=anchors, checkpoint=note)


def test_an_older_copy_with_its_own_older_anchor_passes_at_this_rung(base: Base, tmp_path: Path) -> None:
    forger = chains.older_with_its_anchor(base, tmp_path / "audit")

    judge(forger, OK, UNANCHORED, ends(forger.records[-1]))


@pytest.mark.parametrize("rung", [Rung.KEYRING, Rung.VAULT, Rung.OUTSIDE])
def test_an_older_copy_with_its_anchor_is_told_by_every_higher_rung(base: Base, tmp_path: Path, rung: Rung) -> None:
    forger = chains.older_with_its_anchor(base, tmp_path / "audit")
    file = HeldAnchor(rung=Rung.FILE, anchor=forger.anchor)
    verdict = held(forger, file, HeldAnchor(rung=rung, anchor=base.anchor))

    assert (TRUNCATED, Rung.FILE, rung.value in verdict.note) == (verdict.verdict, verdict.rung, True)


def test_an_older_copy_with_its_anchor_is_told_by_a_checkpoint(base: Base, tmp_path: Path) -> None:
    forger = chains.older_with_its_anchor(base, tmp_path / "audit")
    verdict = held(forger, HeldAnchor(rung=Rung.FILE, anchor=forger.anchor), note=base.note)

    assert (TRUNCATED, Rung.FILE) == (verdict.verdict, verdict.rung)


@pytest.mark.parametrize("rung", [Rung.FILE, Rung.KEYRING, Rung.VAULT, Rung.OUTSIDE])
def test_a_second_history_is_told_by_every_rung(base: Base, tmp_path: Path, rung: Rung) -> None:
    fork = Forger(base.fork, tmp_path / "audit", pin=base.log.pin, anchor=base.anchor)
    verdict = held(fork, HeldAnchor(rung=rung, anchor=base.anchor))

    assert expected(ROLLBACK, Place(f"{base.anchor.segment:08d}.seg", base.anchor.offset, base.anchor.seq)) == told(
        verdict
    )
    assert Rung.NONE is verdict.rung


def test_a_second_history_is_told_by_a_checkpoint(base: Base, tmp_path: Path) -> None:
    fork = Forger(base.fork, tmp_path / "audit", pin=base.log.pin, anchor=base.anchor)
    size = int(base.note.split(b"\n")[1])

    assert expected(ROLLBACK, Place(None, None, size - 1)) == told(held(fork, note=base.note))


def test_the_strongest_rung_that_fits_is_named(base: Base, forger: Forger) -> None:
    ladder = [HeldAnchor(rung=rung, anchor=base.older_anchor) for rung in (Rung.KEYRING, Rung.VAULT)]
    file = HeldAnchor(rung=Rung.FILE, anchor=base.anchor)

    assert (OK, Rung.FILE) == (held(forger, file).verdict, held(forger, file).rung)
    assert Rung.KEYRING is held(forger, file, ladder[0]).rung
    assert Rung.VAULT is held(forger, ladder[1], file, ladder[0]).rung
    assert Rung.OUTSIDE is held(forger, file, *ladder, note=base.note).rung


def test_what_an_older_rung_can_not_know_is_still_torn_or_tampered(base: Base, forger: Forger) -> None:
    forger.append(bytes(100))

    assert UNSURE is held(forger, HeldAnchor(rung=Rung.VAULT, anchor=base.older_anchor)).verdict


def test_a_rewritten_old_epoch_is_named_at_its_first_bad_commit(base: Base, forger: Forger) -> None:
    victim = forger.first(EVENT, after=14)
    commit = forger.first(COMMIT, after=victim.seq)
    before = [record for record in forger.records if record.kind == COMMIT and record.seq < victim.seq][-1]
    forger.rechain(
        lambda record: replace(record, payload=bytes(80)) if record == victim else record, resign=base.todays_key
    )
    verdict = forger.verdict(anchored=True)

    assert (FORGED, commit.seq, before.seq) == (verdict.verdict, verdict.seq, verdict.proven_to)


def test_a_pin_of_another_log_fails_at_record_zero(base: Base, forger: Forger) -> None:
    wrong = replace(base.log.pin, root_key="00" * 32)
    verdict = forger.verdict(anchored=True, pin=wrong)

    assert expected(WRONG_LOG, Place("00000001.seg", 0, 0)) == told(verdict)
    assert verdict.proven_to is None


def test_an_anchor_of_another_log_is_said_so(base: Base, forger: Forger) -> None:
    forger.anchor = replace(base.anchor, log_id="00" * 8)

    judge(forger, WRONG_LOG, UNANCHORED, NOWHERE, ends(forger.records[-1]))


def test_an_anchor_with_another_hash_is_a_rollback(base: Base, forger: Forger) -> None:
    forger.anchor = replace(base.anchor, head="00" * 32)
    anchor = base.anchor

    judge(
        forger,
        ROLLBACK,
        UNANCHORED,
        Place(f"{anchor.segment:08d}.seg", anchor.offset, anchor.seq),
        ends(forger.records[-1]),
    )


def test_a_second_writer_is_refused_while_the_first_one_lives(base: Base, tmp_path: Path) -> None:
    del tmp_path
    with base.log.writer(), pytest.raises(AuditError, match="in use by another writer"):
        base.log.open()
