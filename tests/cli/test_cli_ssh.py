"""`doorward ssh`: what it asks for, what it passes on to the byte, and what it exits with."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from broker.cli.main import main
from broker.client.places import Places
from broker.contract.exits import EXIT_CODES
from broker.contract.frames import DATA, END, HEAD, MEDIA, PREFIX_BYTES, data, pack, unpack_prefix
from broker.contract.schemas import schema
from broker.contract.wire import JsonValue, dump
from tests.fakes.command_line import CommandLine
from tests.fakes.envelopes import envelope
from tests.fakes.unix_daemon import RawServer

SSH: dict[str, JsonValue] = {
    "host": "web-3", "port": 22, "user": "deploy", "host_key": "known_hosts", "exit_status": 0, "exit_signal": None,
    "stdout_bytes": 2, "stderr_bytes": 0, "output_complete": True, "stdout": "a\n", "stderr": "", "marker": "finished",
    "transfer": None,
}  # fmt: skip


def answered(**changes: JsonValue) -> dict[str, JsonValue]:
    of_ssh = {key: value for key, value in changes.items() if key in SSH}
    return envelope() | {key: value for key, value in changes.items() if key not in SSH} | {"ssh": SSH | of_ssh}


def framed(*frames: bytes, chunk: int = 7) -> bytes:
    """A chunked answer; its chunks end nowhere near the frames' ends."""
    body = b"".join(frames)
    pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {MEDIA}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def asked(cli: CommandLine, route: str, *line: str) -> dict[str, JsonValue]:
    with cli.agent_daemon() as daemon:
        daemon.replies[f"POST {route}"] = (200, answered())
        code, _, err = cli.run("ssh", *line)

        assert (0, "") == (code, err)
        (body,) = daemon.bodies(f"POST {route}")
    assert isinstance(body, dict)
    return body


@pytest.mark.parametrize(
    ("line", "request_body"),
    [
        (("web-3", "--", "uptime -p"), {"command": "uptime -p"}),
        (("web-3", "--", "echo \udcff"), {"command_b64": "ZWNobyD/"}),
        (("web-3", "--", "tail", "-n", "5", "a b"), {"argv": ["tail", "-n", "5", "a b"]}),
        (("web-3", "--", "echo", "--json"), {"argv": ["echo", "--json"]}),
        (
            ("web-3", "--operation", "restart", "unit=nginx", "x=a=b"),
            {"operation": "restart", "args": {"unit": "nginx", "x": "a=b"}},
        ),
        (
            ("web-3", "--pty", "--request-id", "r1", "--reason", "why", "--wait", "0", "--deadline", "2.5", "--", "x"),
            {
                "command": "x",
                "pty": True,
                "request_id": "r1",
                "reason": "why",
                "wait_s": 0,
                "deadline": {"total_s": 2.5},
            },
        ),
    ],
)
def test_the_line_says_what_is_asked_for(
    cli: CommandLine, line: tuple[str, ...], request_body: dict[str, JsonValue]
) -> None:
    body = asked(cli, "/v1/ssh/stream", *line)

    assert {"host": "web-3", **request_body} == body
    jsonschema_rs.validator_for(schema("ssh-request")).validate(body)


def test_with_json_the_envelope_alone_is_asked_for(cli: CommandLine) -> None:
    assert "x" == asked(cli, "/v1/ssh", "web-3", "--json", "--", "x")["command"]


@pytest.mark.parametrize(
    "line",
    [
        (),
        ("web-3",),
        ("web-3", "uptime"),
        ("web-3", "--"),
        ("web-3", "uptime", "--", "x"),
        ("web-3", "--operation", "restart", "--", "x"),
        ("web-3", "--operation", "restart", "unit"),
        ("web-3", "--operation", "restart", "u=1", "u=2"),
        ("web-3", "--", "a", "\udcff"),
        ("put", "x"),
        ("put", "/nonexistent/file", "web-3:/a"),
        ("put", "-", "web-3"),
        ("put", "-", ":/a"),
        ("get", "web-3"),
        ("get",),
        ("get", "web-3:/a", "b", "c"),
    ],
)
def test_a_line_that_says_no_one_thing_is_usage(cli: CommandLine, line: tuple[str, ...]) -> None:
    code, out, err = cli.run("ssh", *line)

    assert (64, "") == (code, out)
    assert err


def test_output_is_passed_on_to_the_byte_on_its_own_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    places = Places({"DOORWARD_HOME": str(tmp_path)})
    monkeypatch.setenv("DOORWARD_HOME", str(tmp_path))
    answer = framed(
        pack(HEAD, b'{"correlation_id":"op_1"}'),
        data("stdout", b"\xff\x00\x1b[2J"),
        data("stderr", b"warned"),
        data("stdout", b"end"),
        pack(END, dump(answered(stdout="", stdout_bytes=8))),
    )
    with RawServer(Path(places.agent_socket), answer):
        code = main(["ssh", "web-3", "--", "x"])
    told = capfdbinary.readouterr()

    assert (0, b"\xff\x00\x1b[2Jend", b"warned") == (code, told.out, told.err)


@pytest.mark.parametrize(("remote", "flag", "code"), [(3, True, 3), (3, False, None), (0, True, 0), (300, True, 255)])
def test_the_commands_own_status_is_the_exit_code_where_asked_for(
    cli: CommandLine, remote: int, *, flag: bool, code: int | None
) -> None:
    category = "success" if remote == 0 else "confirmed_failure"
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/ssh/stream"] = (200, answered(exit_status=remote, category=category, ok=remote == 0))
        told, out, err = cli.run("ssh", "web-3", *(["--remote-exit"] if flag else []), "--", "x")

    assert (EXIT_CODES[category] if code is None else code) == told
    assert "a\n" == out
    assert (category == "success") is (err == "")


def test_an_answer_that_breaks_off_is_no_success(cli: CommandLine) -> None:
    whole = framed(pack(HEAD, b"{}"), data("stdout", b"half"))
    with RawServer(Path(cli.places.agent_socket), whole):
        code, _, err = cli.run("ssh", "web-3", "--request-id", "r1", "--", "x")

    assert 0 != code
    assert "r1" in err


@pytest.mark.parametrize(
    "frame", [b"X\0\0\0\1a", pack(b"D", b"\x07a"), pack(b"D", b""), b"H\xff\xff\xff\xff"], ids=repr
)
def test_an_answer_that_is_not_made_of_frames_is_no_success(cli: CommandLine, frame: bytes) -> None:
    with RawServer(Path(cli.places.agent_socket), framed(frame, pack(END, dump(answered())))):
        code, _, err = cli.run("ssh", "web-3", "--", "x")

    assert 0 != code
    assert "not usable" in err


def test_a_file_is_put_from_here(cli: CommandLine, tmp_path: Path) -> None:
    local = tmp_path / "site.conf"
    local.write_bytes(b"\xff\x00")
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/ssh/put"] = (200, answered())
        code, _, err = cli.run("ssh", "put", str(local), "web-3:/etc/nginx/a:b", "--mode", "0640")
        (told,) = daemon.asked

    kind, length = unpack_prefix(told.body[:PREFIX_BYTES])
    head, rest = told.body[PREFIX_BYTES : PREFIX_BYTES + length], told.body[PREFIX_BYTES + length :]
    assert ((0, ""), MEDIA, HEAD) == ((code, err), told.headers["content-type"], kind)
    assert {"host": "web-3", "path": "/etc/nginx/a:b", "mode": "0640"} == json.loads(head)
    assert pack(DATA, b"\xff\x00") == rest


def got(content: bytes | None, **changes: JsonValue) -> bytes:
    frames = [pack(HEAD, b"{}")]
    frames += [] if content is None else [data("stdout", content)]
    return framed(*frames, pack(END, dump(answered(stdout="", **changes))), chunk=4096)


@pytest.mark.parametrize("content", [b"\xff\x00", None])
def test_a_file_is_got_whole_for_its_owner_alone(cli: CommandLine, tmp_path: Path, content: bytes | None) -> None:
    local = tmp_path / "error.log"
    with RawServer(Path(cli.places.agent_socket), got(content)):
        code, out, _ = cli.run("ssh", "get", "web-3:/var/log/error.log", str(local))

    assert (0, f"got {local}\n") == (code, out)
    assert (content or b"", 0o600) == (local.read_bytes(), local.stat().st_mode & 0o777)
    assert [local] == [*tmp_path.glob("error*")]


def test_what_is_not_whole_leaves_nothing_and_what_was_there_stays(cli: CommandLine, tmp_path: Path) -> None:
    local = tmp_path / "error.log"
    local.write_bytes(b"before")
    with RawServer(Path(cli.places.agent_socket), got(b"half", category="outcome_unknown", ok=False)):
        code, _, _ = cli.run("ssh", "get", "web-3:/var/log/error.log", str(local))

    assert 0 != code
    assert (b"before", [local]) == (local.read_bytes(), [*tmp_path.glob("error*")])


def test_a_file_that_is_here_already_is_not_guessed_over(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "error.log").write_bytes(b"before")

    assert 64 == cli.run("ssh", "get", "web-3:/var/log/error.log")[0]


def test_explain_asks_for_the_same(cli: CommandLine) -> None:
    told = {"decision": "allow", "rule": "r", "gate": "none", "agent": "codex"}
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/explain"] = (200, told)
        code, out, _ = cli.run("explain", "ssh", "web-3", "--json", "--", "systemctl", "restart", "nginx")
        (body,) = daemon.bodies("POST /v1/explain")

    assert 0 == code
    assert told == json.loads(out)
    request = {"host": "web-3", "argv": ["systemctl", "restart", "nginx"]}
    assert {"action": "ssh", "request": request} == body
    jsonschema_rs.validator_for(schema("explain-request")).validate(body)
