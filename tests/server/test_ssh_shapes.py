"""Checked SSH documents as values."""

import pytest

from broker.contract.wire import JsonObject
from broker.core.resolve import HttpAsk
from broker.core.ssh.frozen import SshDeadlines
from broker.core.ssh.resolve import SshAsk
from broker.server.shapes import ShapeError
from broker.server.ssh_shapes import asked, deadlines_of, get_ask, put_ask, ssh_ask

USUAL = SshDeadlines()


def test_a_command_is_text_or_bytes() -> None:
    assert SshAsk(host="web-1", command=b"echo \xc3\xa9", stdin=b"in") == ssh_ask(
        {"host": "web-1", "command": "echo é", "stdin": "in"}
    )
    assert SshAsk(host="web-1", command=b"echo \xff", pty=True) == ssh_ask(
        {"host": "web-1", "command_b64": "ZWNobyD/", "pty": True}
    )


def test_words_and_operations_are_taken_as_they_are() -> None:
    assert SshAsk(host="web-1", argv=("ls", "-l")) == ssh_ask({"host": "web-1", "argv": ["ls", "-l"]})
    assert SshAsk(host="web-1", operation="restart", args={"unit": "nginx"}) == ssh_ask(
        {"host": "web-1", "operation": "restart", "args": {"unit": "nginx"}}
    )


@pytest.mark.parametrize("field", ["command_b64", "stdin_b64"])
def test_what_is_no_base64_is_told(field: str) -> None:
    with pytest.raises(ShapeError):
        ssh_ask({"host": "web-1", field: "%"})


def test_an_upload_has_its_mode_in_octal_and_its_content_from_the_document_or_from_frames() -> None:
    document: JsonObject = {"host": "web-1", "path": "/srv/a", "mode": "0640", "content": "text"}
    told, framed, bare = put_ask(document).put, put_ask(document, b"\xff").put, put_ask(
        {"host": "web-1", "path": "/srv/a"}
    ).put  # fmt: skip

    assert told is not None
    assert framed is not None
    assert bare is not None
    assert (b"text", 0o640) == (told.content, told.mode)
    assert b"\xff" == framed.content
    assert (b"", None) == (bare.content, bare.mode)


def test_a_download_in_frames_may_be_large() -> None:
    document: JsonObject = {"host": "web-1", "path": "/srv/a"}

    assert ("/srv/a", False) == (get_ask(document).get, get_ask(document).takes_large)
    assert get_ask(document, framed=True).takes_large


@pytest.mark.parametrize(
    ("action", "document"),
    [
        ("ssh", {"host": "web-1", "command": "uptime"}),
        ("ssh_put", {"host": "web-1", "path": "/a", "content": "b"}),
        ("ssh_get", {"host": "web-1", "path": "/a"}),
        ("http", {"service": "market", "method": "GET", "path": "/stalls"}),
    ],
)
def test_each_action_has_its_own_kind_of_value(action: str, document: JsonObject) -> None:
    assert (HttpAsk if action == "http" else SshAsk) is type(asked(action, document))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, USUAL),
        ({"total_s": 5}, SshDeadlines(connect_s=5.0, login_s=5.0, exec_s=5.0, idle_s=5.0, total_s=5.0)),
        ({"total_s": 3600}, SshDeadlines(idle_s=3600.0, total_s=3600.0)),
        ({"total_s": 3600, "idle_s": 30}, SshDeadlines(idle_s=30.0, total_s=3600.0)),
        ({"connect_s": 2}, SshDeadlines(connect_s=2.0, idle_s=max(USUAL.idle_s, USUAL.total_s))),
    ],
)
def test_deadlines_never_outlast_the_total(told: JsonObject | None, expected: SshDeadlines) -> None:
    assert expected == deadlines_of({} if told is None else {"deadline": told})
