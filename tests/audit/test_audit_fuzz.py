"""Random changes of a log, of what is known of it outside, and of what stands in its place.

No change is called whole, no bytes make the verifier fall over or hang, and whoever hashes anew is found as well.
"""

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.audit import AuditError
from broker.audit.checkpoint import parse_note, parse_notes
from broker.audit.ladder import HeldAnchor
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import EXIT_CODES, Rung, Verdict, VerdictName
from broker.audit.verify import verify
from tests.fakes.forger import Forger, Raw
from tests.fakes.logs import SmallLog
from tests.vectors.audit.scenes import Scene, endorsed_again, whole

LIMIT_CPU_S = 5.0  # of the processor: a machine that is busy elsewhere makes no verifier slow
ANYWHERE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=[whole, endorsed_again], ids=["whole", "endorsed-again"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    made = Scene(tmp_path_factory.mktemp("fuzz") / "log")
    request.param(made)
    return made


def verdicts(log: SmallLog, scene: Scene) -> tuple[Verdict, ...]:
    """With the anchor, with all rungs, with the checkpoints, with the pin alone, with nothing."""
    began_s = time.process_time()
    ladder = [HeldAnchor(rung=Rung.FILE, anchor=log.anchor), HeldAnchor(rung=Rung.VAULT, anchor=scene.older)]
    notes = b"\n".join(scene.notes)
    told = (
        verify(log.directory, pin=log.pin, anchors=ladder[:1]),
        verify(log.directory, pin=log.pin, anchors=ladder, checkpoint=notes),
        verify(log.directory, pin=log.pin, checkpoint=notes),
        verify(log.directory, pin=log.pin),
        verify(log.directory, pin=None),
    )
    assert time.process_time() - began_s < LIMIT_CPU_S
    assert all(EXIT_CODES[verdict.verdict] == verdict.exit_code for verdict in told)
    return told


def changed(data: st.DataObject, content: bytes) -> bytes:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        length = data.draw(st.integers(1, 600))
        match data.draw(st.sampled_from(["flip", "cut", "delete", "insert", "zero", "copy", "number"])):
            case "flip":
                content = content[:at] + bytes(byte ^ 1 << at % 8 for byte in content[at : at + 1]) + content[at + 1 :]
            case "cut":
                content = content[:at]
            case "delete":
                content = content[:at] + content[at + length :]
            case "insert":
                content = content[:at] + data.draw(st.binary(min_size=1, max_size=64)) + content[at:]
            case "copy":
                start = data.draw(st.integers(0, max(len(content) - 1, 0)))
                content = content[:at] + content[start : start + length] + content[at:]
            case "number":
                number = data.draw(st.sampled_from([0, 1, 15, 16, 0xFFFF, 1 << 20, (1 << 31) - 1, (1 << 32) - 1]))
                content = content[:at] + number.to_bytes(4, "big") + content[at + 4 :]
            case _:
                content = content[:at] + bytes(len(content[at : at + length])) + content[at + length :]
    return content


@ANYWHERE
@given(data=st.data())
def test_no_change_of_the_files_is_called_whole(scene: Scene, data: st.DataObject) -> None:
    log = scene.log
    before = {path: path.read_bytes() for path in log.segments()}
    after = dict(before)
    for path in data.draw(st.lists(st.sampled_from(list(before)), min_size=1, max_size=2, unique=True)):
        after[path] = changed(data, before[path])
    if data.draw(st.booleans()):
        one, two = data.draw(st.permutations(list(before)))[:2]
        after[one], after[two] = after[two], after[one]
    if after == before:
        return
    try:
        for path, content in after.items():
            path.write_bytes(content)
        anchored, ladder, noted, alone, unpinned = verdicts(log, scene)
    finally:
        for path, content in before.items():
            path.write_bytes(content)

    assert VerdictName.OK not in {anchored.verdict, ladder.verdict, alone.verdict, unpinned.verdict}
    shorter = _only_cut_at_the_end(before, after)
    assert shorter or VerdictName.OK is not noted.verdict
    assert shorter or VerdictName.OK_UNANCHORED not in {alone.verdict, unpinned.verdict}
    assert not shorter or anchored.verdict in {VerdictName.TRUNCATED, VerdictName.FORGED_SIGNATURE}


def _only_cut_at_the_end(before: dict[Path, bytes], after: dict[Path, bytes]) -> bool:
    """What no knowledge but that of a later state can tell from an older log."""
    *closed, last = sorted(before)
    return all(before[path] == after[path] for path in closed) and before[last].startswith(after[last])


@ANYWHERE
@given(data=st.data())
def test_whoever_hashes_anew_without_a_key_is_found(scene: Scene, data: st.DataObject, tmp_path: Path) -> None:
    log = scene.log
    target = tmp_path / str(time.monotonic_ns())
    forger = Forger(log.directory, target, pin=log.pin, anchor=log.anchor)
    records = forger.records
    victim = data.draw(st.sampled_from(records[:-1]))
    drop = data.draw(st.booleans())
    at = data.draw(st.integers(0, len(victim.payload) - 1))
    payload = victim.payload[:at] + bytes([victim.payload[at] ^ 1]) + victim.payload[at + 1 :]

    def change(record: Raw) -> Raw | None:
        if record != victim:
            return record
        return None if drop else replace(record, payload=payload)

    forger.rechain(change)
    if all(path.read_bytes() == (log.directory / path.name).read_bytes() for path in forger.files):
        return  # the hash before a SEGMENT is what hashing anew sets right
    bad = {VerdictName.OK, VerdictName.OK_UNANCHORED}
    told = forger.verdict(anchored=True), forger.verdict(anchored=False)

    assert not bad & {verdict.verdict for verdict in told}, (victim, [verdict.to_json() for verdict in told])


@ANYWHERE
@given(data=st.data())
def test_any_bytes_in_the_place_of_a_segment_get_a_verdict(scene: Scene, data: st.DataObject, tmp_path: Path) -> None:
    content, start = data.draw(st.binary(max_size=4096)), data.draw(st.integers(0, 400))
    pinned, second = data.draw(st.booleans()), data.draw(st.booleans())
    directory = tmp_path / str(time.monotonic_ns())
    directory.mkdir()
    first = scene.log.segments()[0].read_bytes()
    (directory / "00000001.seg").write_bytes(first if second else first[:start] + content)
    if second:
        (directory / "00000002.seg").write_bytes(content)
    verdict = verify(directory, pin=scene.log.pin if pinned else None)

    assert VerdictName.OK is not verdict.verdict


@ANYWHERE
@given(data=st.data())
def test_any_bytes_in_the_place_of_what_was_kept_outside_are_weighed_or_refused(
    scene: Scene, data: st.DataObject, tmp_path: Path
) -> None:
    log, path = scene.log, tmp_path / "kept"
    for load, content in ((Pin.load, log.paths.pin.read_bytes()), (Anchor.load, log.anchor.pack())):
        path.write_bytes(data.draw(st.binary(max_size=600)) if data.draw(st.booleans()) else changed(data, content))
        with suppress(AuditError):
            load(path)
    notes = changed(data, b"\n".join(scene.notes))
    verdict = verify(log.directory, pin=log.pin, checkpoint=notes)

    assert VerdictName.OK is not verdict.verdict or parse_notes(notes) is not None
    assert parse_note(notes) is None or parse_notes(notes) is not None


@ANYWHERE
@given(data=st.data())
def test_a_note_that_was_changed_never_vouches_for_a_log(scene: Scene, data: st.DataObject) -> None:
    """But for the lines of keys that are not the log's, which anybody may add."""
    note = scene.notes[0]
    notes = changed(data, note)
    fresh, old = parse_notes(notes), parse_note(note)
    assert old is not None
    if fresh is None or any((one.origin, one.size, one.root) == (old.origin, old.size, old.root) for one in fresh):
        return

    assert VerdictName.OK is not verify(scene.log.directory, pin=scene.log.pin, checkpoint=notes).verdict
