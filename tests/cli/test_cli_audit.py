"""`doorward audit verify`, `checkpoint` and `repair` as they are typed, with real logs and whatever else lies there."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_checkpoint_targets import note
from tests.fakes.command_line import CommandLine
from tests.fakes.logs import SmallLog, new_log, write_events

LIMIT_S = 20.0
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SmallLog:
    made = new_log(tmp_path_factory.mktemp("log"))
    with made.writer() as writer:
        write_events(writer, 60)
    return made


def verdict(cli: CommandLine, *arguments: object) -> tuple[int, dict[str, Any]]:
    """Exit code and answer; the exit code has to be the verdict's."""
    began = time.monotonic()
    code, out, err = cli.run("audit", "verify", "--json", *map(str, arguments))
    assert time.monotonic() - began < LIMIT_S
    assert "Traceback" not in err
    return code, json.loads(out)


def test_a_log_anywhere_is_held_against_what_is_given(cli: CommandLine, log: SmallLog) -> None:
    code, answer = verdict(cli, log.directory, "--pin", log.paths.pin, "--anchor", log.paths.anchor)

    assert (0, "OK", "file", True) == (code, answer["verdict"], answer["rung"], answer["pinned"])
    assert 40 == verdict(cli, log.directory, "--pin", log.paths.pin)[0]
    assert 40 == verdict(cli, *log.segments())[0]
    assert (43, False) == (
        verdict(cli, *log.segments()[:-1], "--anchor", log.paths.anchor)[0],
        verdict(cli, *log.segments())[1]["pinned"],
    )


def test_several_anchors_are_all_held_against(cli: CommandLine, log: SmallLog, tmp_path: Path) -> None:
    other = new_log(tmp_path / "other")

    assert 0 == verdict(cli, log.directory, "--anchor", log.paths.anchor, "--anchor", log.paths.anchor)[0]
    assert 49 == verdict(cli, log.directory, "--anchor", log.paths.anchor, "--anchor", other.paths.anchor)[0]


def test_a_pin_of_another_installation_is_another_log(cli: CommandLine, log: SmallLog, tmp_path: Path) -> None:
    other = new_log(tmp_path / "other")

    assert 49 == verdict(cli, log.directory, "--pin", other.paths.pin)[0]


def lay(place: Path, name: str) -> Path:
    """Something that is no pin, no anchor and no checkpoint."""
    path = place / name
    match name:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/etc/hostname")
        case "loop":
            path.symlink_to(path)
        case "empty":
            path.touch()
        case "not UTF-8":
            path.write_bytes(b"\xff\xfe\x00" * 40 + b"\n")
        case "deep":
            path.write_bytes(b"[" * 4000)
        case "huge":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case "other JSON":
            path.write_text('{"version":1}\n')
        case "device":
            return Path("/dev/zero")
        case "socket":
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
                made.bind(str(path))
        case unknown:
            raise ValueError(unknown)
    return path


KINDS = ["directory", "fifo", "link", "loop", "empty", "not UTF-8", "deep", "huge", "other JSON", "device", "socket"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", ["--pin", "--anchor", "--checkpoint"])
def test_knowledge_that_is_none_is_a_verdict(
    cli: CommandLine, log: SmallLog, tmp_path: Path, option: str, kind: str
) -> None:
    code, answer = verdict(cli, log.directory, option, lay(tmp_path, kind))

    assert (51, "UNREADABLE", None) == (code, answer["verdict"], answer["segment"])
    assert answer["note"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_that_is_no_log_is_a_verdict(cli: CommandLine, log: SmallLog, tmp_path: Path, kind: str) -> None:
    place = lay(tmp_path, kind)
    code, _ = verdict(cli, place, "--pin", log.paths.pin)

    assert (50 if kind == "directory" else 51) == code


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "device"])
def test_a_segment_that_is_something_else_is_a_verdict(
    cli: CommandLine, log: SmallLog, tmp_path: Path, kind: str
) -> None:
    shutil.copytree(log.directory, tmp_path / "audit")
    segment = tmp_path / "audit" / log.segments()[1].name
    segment.unlink()
    lay(tmp_path / "audit", kind).rename(segment)
    code, answer = verdict(cli, tmp_path / "audit", "--pin", log.paths.pin, "--anchor", log.paths.anchor)
    expected = {"empty": 43, "huge": 44, "not UTF-8": 44, "deep": 44, "other JSON": 44}

    assert (expected.get(kind, 51), segment.name) == (code, answer["segment"])


def test_half_a_segment_is_told_from_a_whole_one(cli: CommandLine, log: SmallLog, tmp_path: Path) -> None:
    shutil.copytree(log.directory, tmp_path / "audit")
    first, last = (tmp_path / "audit" / path.name for path in (log.segments()[0], log.segments()[-1]))
    known = ("--pin", log.paths.pin, "--anchor", log.paths.anchor)
    os.truncate(last, last.stat().st_size // 2)
    assert 43 == verdict(cli, tmp_path / "audit", *known)[0]
    os.truncate(first, first.stat().st_size // 2)
    assert 43 == verdict(cli, tmp_path / "audit", *known)[0]


def test_modes_that_keep_us_out_are_a_verdict(log: SmallLog) -> None:
    """As another user, since root may read everything; what is imported was imported before."""
    script = (
        "import os, sys; from broker.cli.main import main; main(['audit', 'verify', '/does/not/exist']);"
        "os.setresuid(65534, 65534, 65534) if os.geteuid() == 0 else None; sys.exit(main(sys.argv[1:]))"
    )
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        shutil.copytree(log.directory, place / "audit")
        shutil.copy(log.paths.pin, place / "pin")
        (place / "audit").chmod(0o755)
        for path in (place / "pin", place / "audit" / "00000001.seg"):
            path.chmod(0)
        for line, named in ((["audit"], "00000001.seg"), (["audit", "--pin", "pin"], "can't be read")):
            done = subprocess.run(
                [sys.executable, "-c", script, "audit", "verify", *line],
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            assert (51, True) == (done.returncode, named in done.stdout), done.stdout + done.stderr
            assert "Traceback" not in done.stderr


def test_an_anchor_of_our_own_that_is_damaged_is_told(cli: CommandLine) -> None:
    own_log(cli)
    cli.places.anchor_head.write_bytes(b"{}\n")
    code, answer = verdict(cli)

    assert (51, True) == (code, str(cli.places.anchor_head) in answer["note"])


def test_progress_is_drawn_on_a_terminal_alone(log: SmallLog) -> None:
    arguments = [sys.executable, "-m", "broker.cli", "audit", "verify", str(log.directory)]
    controller, terminal = os.openpty()
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=terminal, text=True) as child:
        assert child.stdout is not None
        out = child.stdout.read()
        assert 40 == child.wait(LIMIT_S)
    os.close(terminal)
    drawn = os.read(controller, 65536).decode()
    os.close(controller)
    piped = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=LIMIT_S)

    assert "checking " in drawn
    assert f"\r{'':<14}\r" == drawn[-16:]
    assert out.startswith("x" if "FORGED" in out else "+ OK_UNANCHORED")
    assert "" == piped.stderr


def test_progress_leaves_no_rest_before_the_verdict_on_a_damaged_log(tmp_path: Path) -> None:
    log = new_log(tmp_path / "log")
    with log.writer() as writer:
        write_events(writer, 60)
    segment = min(log.directory.glob("*.seg"))
    spoiled = bytearray(segment.read_bytes())
    spoiled[len(spoiled) // 2] ^= 1
    segment.write_bytes(spoiled)
    controller, terminal = os.openpty()
    arguments = [sys.executable, "-m", "broker.cli", "audit", "verify", str(log.directory)]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=terminal, check=False, timeout=LIMIT_S)
    os.close(terminal)
    drawn = os.read(controller, 65536).decode()
    os.close(controller)

    assert 44 == done.returncode
    assert f"\r{'':<14}\r" == drawn[-16:]


def own_log(cli: CommandLine) -> SmallLog:
    """A log where the command line's own state has it."""
    places = cli.places
    made = new_log(cli.home / "made")
    for source, target in ((made.paths.directory, places.audit), (made.paths.seeds, places.seeds)):
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        source.rename(target)
    places.anchor_head.parent.mkdir(mode=0o700)
    made.paths.pin.rename(places.pin)
    made.paths.anchor.rename(places.anchor_head)
    return made


class TestCheckpoint:
    def answered(self, cli: CommandLine, **more: object) -> Any:
        daemon = cli.control_daemon()
        answer = {"note": note().decode(), "size": 7, "countersigned": True, **more}
        daemon.replies["POST /v1/audit/checkpoint"] = (200, answer)
        return daemon

    def test_the_note_is_printed_as_it_is(self, cli: CommandLine) -> None:
        with self.answered(cli):
            assert (0, note().decode(), "") == cli.run("audit", "checkpoint")

    def test_it_is_kept_where_it_was_asked_to_be(self, cli: CommandLine, tmp_path: Path) -> None:
        with self.answered(cli), contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as log:
            log.bind(str(tmp_path / "log"))
            code, out, err = cli.run(
                "audit", "checkpoint", "--to", str(tmp_path / "kept"), "--syslog-address", str(tmp_path / "log")
            )
            assert (0, note().decode()) == (code, out)
            assert log.recv(65536).startswith(b"<85>1 ")
        assert note() == (tmp_path / "kept").read_bytes()
        assert 2 == err.count(": kept")

    def test_a_target_that_fails_fails_the_verb_and_the_note_is_printed_all_the_same(
        self, cli: CommandLine, tmp_path: Path
    ) -> None:
        line = (
            "--to",
            str(tmp_path / "kept"),
            "--syslog-address",
            "/does/not/exist",
            "--webhook",
            "http://127.0.0.1:1/",
        )
        with self.answered(cli):
            code, out, err = cli.run("audit", "checkpoint", *line)
            assert (1, note().decode()) == (code, out)
            assert (1, 2) == (err.count(": kept"), err.count(": NOT kept"))
            code, out, _ = cli.run("audit", "checkpoint", "--json", *line)
            told = json.loads(out)
        assert 1 == code
        assert ["file", "syslog", "webhook"] == [row["kind"] for row in told["kept"]]
        assert [True, False, False] == [row["fault"] is None for row in told["kept"]]

    def test_a_webhook_that_may_not_be_is_refused_before_anything_is_asked(self, cli: CommandLine) -> None:
        with self.answered(cli) as daemon:
            assert 64 == cli.run("audit", "checkpoint", "--webhook", "http://one.example/")[0]
            assert [] == daemon.asked

    def test_an_answer_that_is_no_note_is_told(self, cli: CommandLine) -> None:
        with self.answered(cli, note="hello"):
            code, out, err = cli.run("audit", "checkpoint")
        assert (1, "", True) == (code, out, "no checkpoint" in err)

    def test_without_a_daemon_there_is_none(self, cli: CommandLine) -> None:
        assert 31 == cli.run("audit", "checkpoint")[0]


class TestRepairRefuses:
    """What is no unfinished write, each with the word for it; nothing is changed."""

    def refused(self, cli: CommandLine) -> tuple[int, str]:
        before = {path: path.read_bytes() for path in cli.home.rglob("*") if path.is_file()}
        code, out, err = cli.run("audit", "repair")
        assert before == {path: path.read_bytes() for path in cli.home.rglob("*") if path.is_file()}
        assert "Traceback" not in err
        return code, out + err

    def test_a_whole_log(self, cli: CommandLine) -> None:
        own_log(cli)
        code, told = self.refused(cli)
        assert (0, True) == (code, "nothing to repair" in told)

    def test_an_altered_one(self, cli: CommandLine) -> None:
        own_log(cli)
        path = cli.places.audit / "00000001.seg"
        content = bytearray(path.read_bytes())
        content[300] ^= 1
        path.write_bytes(content)
        code, told = self.refused(cli)
        assert (44, True, True) == (code, "ALTERED" in told, "vault readopt" in told)

    def test_a_shortened_one(self, cli: CommandLine) -> None:
        own_log(cli)
        path = cli.places.audit / "00000001.seg"
        os.truncate(path, path.stat().st_size - 1)
        code, told = self.refused(cli)
        assert (43, True, True) == (code, "TRUNCATED" in told, "vault readopt" in told)

    def test_none_at_all(self, cli: CommandLine) -> None:
        assert 51 == self.refused(cli)[0]

    @pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"device", "empty"}])
    def test_something_else(self, cli: CommandLine, kind: str) -> None:
        own_log(cli)
        path = cli.places.audit / "00000001.seg"
        path.unlink()
        lay(cli.home, kind).rename(path)
        began = time.monotonic()
        code, out, err = cli.run("audit", "repair")
        assert code in {43, 44, 51}, out + err
        assert time.monotonic() - began < LIMIT_S

    def test_one_that_is_written_to(self, cli: CommandLine) -> None:
        own_log(cli)
        with cli.control_daemon():
            code, _, err = cli.run("audit", "repair")
        assert (1, True) == (code, "a daemon runs" in err)
