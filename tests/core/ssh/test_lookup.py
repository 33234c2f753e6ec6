"""What an answer to a look-up proves; the scripts that give it run under real shells in tests/live."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.ssh.lookup import (
    MAX_COLLECTED,
    Spool,
    collect,
    look_up,
    parse,
    parse_collected,
    parse_spool,
    spool,
)
from broker.core.ssh.outcome import Finding, Found, StoreSeen
from broker.core.ssh.wrapper import SPOOL_BYTES

ID = "op_" + "a" * 44
SINCE = StoreSeen(path="/h/.doorward", id="store-id-1", boot="boot-1")


def told(word: str, status: str = "-", store: str = "store-id-1", boot: str = "boot-1", asked: str = ID) -> bytes:
    return f"\x1eDW1 found {asked} {word} {status} {store} {boot} /h/.doorward\n".encode()


def found(stdout: bytes, since: StoreSeen | None = SINCE) -> Finding:
    return parse(stdout, operation_id=ID, since=since)


@pytest.mark.parametrize(
    "word", ["running", "died", "died_reboot", "died_restart", "orphan", "other_host", "unreadable"]
)
def test_each_word_has_its_meaning_and_no_status(word: str) -> None:
    assert Finding(found=Found(word), store=SINCE) == found(told(word))
    assert Finding(found=Found(word), store=SINCE) == found(b"motd\n" + told(word, status="0").replace(b"\n", b"\r\n"))


def test_no_store_has_no_store() -> None:
    assert Finding(found=Found.NO_STORE) == found(told("no_store", store="-"))


@pytest.mark.parametrize("status", [0, 7, 255])
def test_an_end_has_a_status(status: int) -> None:
    assert Finding(found=Found.FINISHED, status=status, store=SINCE) == found(told("finished", str(status)))


@pytest.mark.parametrize("status", ["-", "", "x", "1234", "-1", "0x0"])
def test_an_end_without_a_number_is_unreadable(status: str) -> None:
    assert found(told("finished", status or "-")).found is Found.UNREADABLE


def test_never_started_takes_the_same_store_and_the_same_boot() -> None:
    assert Found.NEVER_STARTED is found(told("fenced")).found
    assert Found.FENCED_LATE is found(told("fenced"), None).found
    assert Found.FENCED_LATE is found(told("fenced", store="store-id-2")).found
    assert Found.FENCED_LATE is found(told("fenced", boot="boot-2")).found
    assert Found.FENCED_LATE is found(told("fenced", store="-")).found
    assert found(told("fenced", boot="b" * 129)).store is None, "what is kept has a bound"
    unknown_boot = StoreSeen(path="/h/.doorward", id="store-id-1", boot="-")
    assert Found.FENCED_LATE is found(told("fenced", boot="-"), unknown_boot).found


@pytest.mark.parametrize(
    "stdout",
    [
        b"",
        b"bash: line 1: exec: /bin/sh: not found\n",
        told("finished", "0", asked="op_" + "b" * 44),
        told("settled"),
        told("finished", "0")[1:],
        told("finished", "0")[:-1],
        told("finished", "0").replace(b"DW1", b"DW2"),
        look_up(ID, since=SINCE).encode(),  # an echo of what was sent
    ],
)
def test_what_is_no_answer_to_the_question_is_none(stdout: bytes) -> None:
    assert Finding(found=Found.NO_ANSWER) == found(stdout)


@given(st.binary(max_size=300))
def test_no_noise_settles_anything(stdout: bytes) -> None:
    assert found(stdout).found not in {Found.FINISHED, Found.NEVER_STARTED}


def test_lines_are_safe_for_every_login_shell() -> None:
    lines = (look_up(ID, since=SINCE), look_up(ID, since=None), collect([ID] * MAX_COLLECTED), spool(ID))
    for line in lines:
        assert line.startswith("exec /bin/sh -c '")
        assert not re.search(r"['!\n]|\\\\|[^ -~]|@[A-Z]", line[len("exec /bin/sh -c '") : -1])


@pytest.mark.parametrize("bad", ["op_$(reboot)", "../x", ""])
def test_ids_are_checked_before_they_stand_in_a_script(bad: str) -> None:
    with pytest.raises(ValueError, match="form"):
        look_up(bad, since=None)
    with pytest.raises(ValueError, match="form"):
        spool(bad)
    with pytest.raises(ValueError, match="form"):
        collect([bad])
    with pytest.raises(ValueError, match="form"):
        look_up(ID, since=StoreSeen(path="/h", id=f"$({bad})", boot="b"))


@pytest.mark.parametrize("number", [0, MAX_COLLECTED + 1])
def test_a_bounded_number_of_markers_is_collected_at_a_time(number: int) -> None:
    with pytest.raises(ValueError, match="at a time"):
        collect([ID] * number)


def test_how_many_were_collected_is_told_or_not() -> None:
    assert 3 == parse_collected(b"x\x1eDW1 collected 3\n")
    assert parse_collected(b"\x1eDW1 collected\n") is None


def spooled(head: str, content: bytes) -> Spool | None:
    return parse_spool(f"\x1eDW1 spool {ID} {head}\n".encode() + content, operation_id=ID)


def test_a_spool_is_read_by_its_sizes() -> None:
    assert Spool(stdout=b"out\n", stderr=b"\x1eerr", complete=True, cut=False) == spooled("4 4 whole", b"out\n\x1eerr")
    assert Spool(stdout=b"", stderr=b"", complete=False, cut=False) == spooled("0 0 open", b"")
    full = spooled(f"{SPOOL_BYTES} 0 whole", b"x" * SPOOL_BYTES)
    assert full is not None
    assert full.cut


def test_a_spool_that_is_cut_short_or_of_another_is_none() -> None:
    assert spooled("4 4 whole", b"out\n\x1eer") is None
    assert spooled("4 4 broken", b"out\n\x1eerr") is None
    assert parse_spool(f"\x1eDW1 spool {ID} 0 0 whole\n".encode(), operation_id="op_" + "b" * 44) is None
    assert parse_spool(b"", operation_id=ID) is None
