"""`doorward listen` up to where it becomes the relay: what it refuses, and what it leaves behind."""

import socket
from pathlib import Path

import pytest

from tests.fakes.command_line import PASSPHRASE, CommandLine


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["listen", "place"], "--for"),
        (["listen", "--for", "box"], "PATH"),
        (["listen", "--for", "Box", "place"], "NAME"),
        (["listen", "--for", "unidentified", "place"], "NAME"),
        (["listen", "--for", "box", "--mode", "777", "place"], "--mode"),
    ],
)
def test_an_unusable_line_is_usage(cli: CommandLine, words: list[str], why: str) -> None:
    code, _, err = cli.run(*words)

    assert (64, True) == (code, why in err)


def test_without_a_daemon_nothing_is_made(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    code, _, _ = cli.run("listen", "--for", "box", str(path))

    assert 31 == code
    assert not path.exists()


def test_where_the_daemon_says_no_no_socket_is_left(cli: CommandLine, tmp_path: Path) -> None:
    cli.make_key()
    path = tmp_path / "agent.sock"
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/listeners"] = (409, {"error": {"code": "exists", "message": "no"}})
        code, _, err = cli.run("listen", "--for", "box", str(path), passphrase=PASSPHRASE)
        body = daemon.bodies("POST /v1/listeners")[0]

    assert (1, "doorward: no\n") == (code, err)
    assert ("listener.open", {"name": "box"}) == (body["statement"]["verb"], body["statement"]["params"])
    assert not path.exists()


@pytest.mark.parametrize("kind", ["file", "live", "long", "nowhere"])
def test_nothing_is_replaced_but_what_nobody_listens_on(cli: CommandLine, tmp_path: Path, kind: str) -> None:
    cli.make_key()
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as other, cli.control_daemon() as daemon:
        if kind == "file":
            path.write_text("kept", encoding="ascii")
        elif kind == "live":
            other.bind(str(path))
            other.listen(1)
        elif kind == "long":
            path = tmp_path / ("x" * 108)
        else:
            path = tmp_path / "no" / "such" / "place"
        code, _, err = cli.run("listen", "--for", "box", str(path), passphrase=PASSPHRASE)

        assert [] == daemon.bodies("POST /v1/listeners")
    why = {"file": "is no socket", "live": "somebody listens", "long": "107 bytes", "nowhere": "can't be made"}
    assert (64 if kind == "long" else 1, True) == (code, why[kind] in err)
    assert kind != "file" or "kept" == path.read_text(encoding="ascii")
