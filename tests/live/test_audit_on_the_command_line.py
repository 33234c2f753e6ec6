"""`doorward audit show` and `export` as they are typed, beside a running daemon and without one."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.audit.reader import hash_of
from broker.contract.kdf import KdfParams
from tests.live.house import PASSPHRASE, House, until
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

TIP = {"service": "open", "method": "POST", "path": "/tips", "body": {"cents": 5}}
LOCKED = 30


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    kdf = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=1, salt=os.urandom(16))
    with serving() as upstream, House(tmp_path / "h", kdf=kdf) as made:
        yield made.init().open(origin=upstream.origin)


def some_work(house: House, times: int = 3, name: str = "one") -> None:
    """Tips that need nobody, and a change that the human denies."""
    with house.agent() as agent:
        for _ in range(times):
            agent.act(**TIP)
        asked = agent.begin_act(service="shop", operation="orders.create", args={"name": name})
        house.human.deny(house.human.wait_for_card(), "not \u202enow")
        agent.end_act(asked)


@contextmanager
def typed(house: House, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    reading, writing = os.pipe()
    os.write(writing, PASSPHRASE.encode() + b"\n")
    os.close(writing)
    words = [sys.executable, "-I", "-m", "broker.cli", "audit", *arguments, "--passphrase-fd", str(reading)]
    with subprocess.Popen(
        words, env=house.environ, pass_fds=(reading,), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(reading)
        try:
            yield process
        finally:
            process.kill()


def run(house: House, *arguments: str, code: int = 0) -> tuple[str, str]:
    with typed(house, *arguments) as process:
        out, err = process.communicate(timeout=60)
    assert code == process.returncode, (out, err)
    assert "Traceback" not in err
    return out, err


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_show_finds_what_is_asked_for(house: House) -> None:
    some_work(house)
    out, _ = run(house, "show", "--since", "1h", "--category", "call_denied")
    (line,) = out.splitlines()
    assert "action.result" in line
    assert "category call_denied" in line

    by_service = lines_of(run(house, "show", "--json", "--operation", "shop", "--limit", "500")[0])
    assert {"policy.decided", "action.result"} <= {event["event"] for event in by_service}
    assert 1 == len({event["correlation_id"] for event in by_service})
    assert "no such event" in run(house, "show", "--agent", "nobody")[0]
    assert "no such event" in run(house, "show", "--until", "1h")[0]
    last = run(house, "show", "--limit", "3")[0].splitlines()
    assert 4 == len(last)
    assert "there may be more: --before-seq" in last[-1]
    before = last[-1].rsplit(" ", 1)[1]
    assert before in run(house, "show", "--after-seq", str(int(before) - 1), "--limit", "1")[0]


def test_words_of_others_can_not_reorder_what_is_shown(house: House) -> None:
    some_work(house)
    text, _ = run(house, "show", "--event", "approval.decided")
    machine, _ = run(house, "show", "--event", "approval.decided", "--json")

    assert "\u202e" not in text + machine
    assert "reason not \\u{202e}now" in text
    assert "not \u202enow" == lines_of(machine)[-1]["fields"]["reason"]


def test_show_works_without_a_daemon_and_says_what_a_lock_keeps(house: House) -> None:
    house.human.client.lock()
    assert "the vault is locked" in run(house, "show", code=LOCKED)[1]
    house.stop()
    assert "daemon.stopped" in run(house, "show", "--event", "daemon.stopped")[0]


def test_show_follows_through_a_crash_and_a_lock_until_it_is_interrupted(house: House) -> None:
    with typed(house, "show", "--follow", "--event", "action.result", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told, said = followed(process.stdout), followed(process.stderr)
        until(lambda: any("control.opened" == event["event"] for event in house.human.events("control.opened")))
        some_work(house, 1)
        first = [json.loads(told.get(timeout=20)) for _ in range(2)]
        house.kill()
        assert "the daemon is gone" in said.get(timeout=20)
        house.start()
        assert "the vault is locked" in said.get(timeout=20)
        house.human.unlock()
        house.human.open_session()
        assert "reading the log again" in said.get(timeout=20)
        some_work(house, 1)
        second = [json.loads(told.get(timeout=20)) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(20)

    assert ["success", "call_denied"] * 2 == [event["fields"]["category"] for event in [*first, *second]]
    assert sorted({event["seq"] for event in [*first, *second]}) == [event["seq"] for event in [*first, *second]]


def followed(stream: Any) -> "queue.SimpleQueue[str]":
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in stream:
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    return lines


def test_an_export_holds_each_event_once_with_its_hash_and_ends_with_the_signed_head(
    house: House, tmp_path: Path
) -> None:
    target, note = tmp_path / "events.jsonl", tmp_path / "note"
    some_work(house)
    run(house, "export", "--to", str(target))
    *events, head = lines_of(target.read_text(encoding="utf-8"))

    assert 0o600 == target.stat().st_mode & 0o777
    assert {house.log_id} == {line["log_id"] for line in [*events, head]}
    assert sorted({line["seq"] for line in events}) == [line["seq"] for line in events]
    assert {"vault.created", "action.result"} <= {line["event"] for line in events}
    assert all(line["h"] == hash_of(house.places.audit, line["seq"]) for line in events)
    assert (events[-1]["seq"], events[-1]["h"]) == (head["seq"], head["h"])
    note.write_text(head["checkpoint"], encoding="utf-8")
    assert "OK" == json.loads(run(house, "verify", "--checkpoint", str(note), "--json")[0])["verdict"]
    with open(target, encoding="utf-8") as read:  # noqa: PTH123 - as any reader of such files does it
        assert [line["seq"] for line in map(json.loads, read) if "event" in line] == [line["seq"] for line in events]


def test_an_export_goes_on_where_it_ended_whatever_a_crash_left(house: House, tmp_path: Path) -> None:
    target = tmp_path / "events.jsonl"
    some_work(house)
    run(house, "export", "--to", str(target))
    before = target.read_bytes()
    target.write_bytes(before[: before[: len(before) // 2].rfind(b"\n") + 40])  # in the midst of a line
    run(house, "export", "--to", str(target), "--resume")
    some_work(house, name="two")  # the same is refused without a card for a while
    run(house, "export", "--to", str(target), "--resume")
    events = [line for line in lines_of(target.read_text(encoding="utf-8")) if "event" in line]
    whole = [line for line in lines_of(run(house, "export")[0]) if "event" in line]

    assert sorted({line["seq"] for line in events}) == [line["seq"] for line in events]
    assert whole[: len(events)] == events
    assert "is there already" in run(house, "export", "--to", str(target), code=1)[1]


def test_an_export_to_the_next_program_goes_on_from_its_cursor(house: House) -> None:
    some_work(house)
    *first, head = lines_of(run(house, "export")[0])
    *second, _ = lines_of(run(house, "export", "--after", head["cursor"])[0])

    assert first[-1]["seq"] < second[0]["seq"]
    if shutil.which("jq") is not None:
        told = subprocess.run(
            ["jq", "-r", "select(.event) | .event"],  # noqa: S607 - found on the path like any reader's tools
            input="\n".join(json.dumps(line) for line in first),
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        assert [line["event"] for line in first] == told.stdout.split()


def test_a_log_that_was_put_back_is_not_gone_on_with(house: House, tmp_path: Path) -> None:
    target = tmp_path / "events.jsonl"
    some_work(house)
    run(house, "export", "--to", str(target))
    *lines, head = lines_of(target.read_text(encoding="utf-8"))
    other = {**head, "h": "0" * 64}
    target.write_text("".join(json.dumps(line) + "\n" for line in [*lines, other]), encoding="utf-8")
    before = target.read_bytes()
    _, err = run(house, "export", "--to", str(target), "--resume", code=48)
    assert "ROLLBACK" in err
    _, err = run(house, "export", "--after", f"{1 << 40}:{'0' * 64}", code=48)
    assert "is not there any more" in err
    stranger = {**head, "log_id": "0" * 16}
    assert before == target.read_bytes()
    target.write_text(json.dumps(stranger) + "\n", encoding="utf-8")
    assert "WRONG_LOG" in run(house, "export", "--to", str(target), "--resume", code=49)[1]


def test_an_export_writes_into_nothing_that_is_not_its_own(house: House, tmp_path: Path) -> None:
    notes, link, shared = tmp_path / "notes", tmp_path / "link", tmp_path / "shared"
    notes.write_text("my words\nand no more", encoding="utf-8")
    notes.chmod(0o600)
    link.symlink_to(tmp_path / "elsewhere")
    shared.write_text("", encoding="utf-8")
    shared.chmod(0o644)
    for path in (notes, link, shared, tmp_path):
        run(house, "export", "--to", str(path), "--resume", code=1)

    assert "my words\nand no more" == notes.read_text(encoding="utf-8")
    assert not (tmp_path / "elsewhere").exists()
    assert (
        64
        == subprocess.run(
            [sys.executable, "-I", "-m", "broker.cli", "audit", "export", "--resume"],
            env=house.environ,
            capture_output=True,
            check=False,
            timeout=30,
        ).returncode
    )
