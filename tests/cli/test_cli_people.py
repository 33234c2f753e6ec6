"""`approvers`, credentials that agents wait for, and the agent's own `request-credential`."""

from pathlib import Path
from typing import Any

import pytest

from broker.cli import credential_wants
from broker.client.approver import read_key_file
from broker.client.reasons_ready import READY_REASONS
from broker.contract.key_id import key_id
from broker.contract.wire import JsonValue, digest, parse_object
from tests.fakes.cards import NOW_MS, sample
from tests.fakes.command_line import LOG_ID, NONCE, PASSPHRASE, CommandLine
from tests.fakes.unix_daemon import Asked

WANT = "cr_0123456789ab"
PUBLIC = "1f" * 32
NAME = key_id(bytes.fromhex(PUBLIC))


def said(asked: Asked) -> Any:
    """The body of a request."""
    return parse_object(asked.body)


def want(**changes: JsonValue) -> dict[str, JsonValue]:
    return {
        "id": WANT,
        "state": "pending",
        "service": "github",
        "credential": "github",
        "agent": "codex",
        "created_at_ms": NOW_MS,
        "expires_at_ms": NOW_MS + 10**12,
        "joined": 1,
        **changes,
    }


def whole(**changes: JsonValue) -> dict[str, JsonValue]:
    return {
        **want(), "purpose": 'reading"\x1b[2J', "origins": ["https://api.github.com/x"], "is_ssh": False, **changes,
    }  # fmt: skip


def test_a_wish_stands_in_the_list_of_approvals(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/approvals"] = (200, {"approvals": []})
        daemon.replies["GET /v1/credential-requests"] = (200, {"credential_requests": [want(), want(state="void")]})
        code, out, _ = cli.run("approvals", "list")

    assert 0 == code
    assert "nothing waits for you" == out.splitlines()[0]
    assert "credentials that agents wait for" == out.splitlines()[2]
    assert 1 == out.count(WANT)


def test_a_whole_wish_says_what_to_type_and_quotes_the_agent(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies[f"GET /v1/credential-requests/{WANT}"] = (200, whole())
        code, out, _ = cli.run("approvals", "show", WANT, passphrase=PASSPHRASE)

    assert 0 == code
    assert "To add   doorward credential add github --kind bearer --origin https://api.github.com" in out
    assert 'says: "reading\\"\\u{1b}[2J"' in out
    assert "! hidden characters in its words (1)" in out
    assert f"To deny  doorward approvals deny {WANT} --reason TEXT" in out


def test_the_command_is_made_of_the_policys_words_alone() -> None:
    key = whole(is_ssh=True, credential="web key; rm", origins=["ssh://u@h:22", "ssh://u@h:22", "ssh://u@i:22", 7])

    assert (
        "doorward credential add 'web key; rm' --kind ssh-key --origin ssh://u@h:22 --origin ssh://u@i:22"
    ) == credential_wants.command(key)
    assert "expires" not in credential_wants.lines_of(whole(state="provided", purpose="x"), NOW_MS)[0]


def test_a_wish_is_declined_with_a_ready_reason(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies[f"POST /v1/credential-requests/{WANT}/decline"] = (200, want(state="declined"))
        code, out, _ = cli.run("approvals", "deny", WANT, "--because", "not-now")

        assert {"reason": READY_REASONS[2]} == said(daemon.asked[-1])
    assert (0, True) == (code, out.startswith("declined: "))


def test_each_of_several_is_denied_by_itself(cli: CommandLine) -> None:
    ids = [f"ap_{number:012x}" for number in range(3)]
    with cli.control_daemon() as daemon:
        for name in (ids[0], ids[2]):
            answer: dict[str, JsonValue] = {"id": name, "state": "denied", "memory_s": 600}
            daemon.replies[f"POST /v1/approvals/{name}/decision"] = (200, answer)
        refused: dict[str, JsonValue] = {"error": {"code": "settled", "message": "This card is settled already."}}
        daemon.replies[f"POST /v1/approvals/{ids[1]}/decision"] = (409, refused)
        code, out, err = cli.run("approvals", "deny", *ids, "--because", "too-wide")

        assert [READY_REASONS[1]] * 3 == [said(asked)["reason"] for asked in daemon.asked]
    assert 1 == code
    said_of_each = "denied: nothing is sent; the same change is refused for 10 min without asking"
    assert [f"{name} {said_of_each}" for name in (ids[0], ids[2])] == out.splitlines()
    assert f"{ids[1]}: This card is settled already." in err


def test_reading_back_first_is_signed_as_that_choice(cli: CommandLine) -> None:
    cli.make_key()
    attempt: dict[str, JsonValue] = {
        "correlation_id": "op_1", "sent_at_ms": NOW_MS, "summary": "POST", "agent": "codex", "same_session": True,
        "read_back": "orders.list",
    }  # fmt: skip
    card = sample(doubts=[attempt], typed_word="site", log_id=LOG_ID)
    name = str(card["approval_id"])
    with cli.control_daemon() as daemon:
        daemon.replies[f"GET /v1/approvals/{name}"] = (
            200,
            {
                "id": name,
                "state": "pending",
                "card": card,
                "card_digest": digest("doorward/card/v1", card),
                "nonce": NONCE,
                "arming_ms": 0,
                "served_at_ms": NOW_MS,
                "expires_at_ms": NOW_MS,
                "joined": 1,
            },
        )
        daemon.replies[f"POST /v1/approvals/{name}/decision"] = (200, {"id": name, "state": "superseded"})
        code, out, _ = cli.run("approvals", "read-back", name, "--yes", passphrase=PASSPHRASE)

        assert ("read_back", "read_back") == (
            said(daemon.asked[-1])["choice"], said(daemon.asked[-1])["statement"]["choice"],
        )  # fmt: skip
    assert 0 == code
    assert "superseded: one read: orders.list" in out


def test_two_kinds_of_reason_are_usage(cli: CommandLine) -> None:
    assert 64 == cli.run("approvals", "deny", WANT, "--because", "not-now", "--reason", "no")[0]


def test_a_new_approver_key_is_made_and_never_made_over_one(cli: CommandLine, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    path = tmp_path / "mine.key"
    with cli.control_daemon():
        code, out, _ = cli.run("approvers", "new", str(path), "--kdf-cost", "least", passphrase="canary of another one")
        again = cli.run("approvers", "new", str(path), passphrase="canary of another one")

    file = read_key_file(path)
    assert (0, LOG_ID) == (code, file.log_id)
    assert f"doorward approvers enrol {file.public_key.hex()}" in out
    assert (1, True) == (again[0], "left as it is" in again[2])


def test_an_approver_is_enrolled_listed_and_removed(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/approvers"] = (200, {"key_id": NAME, "enrolled": True})
        daemon.replies[f"DELETE /v1/approvers/{NAME}"] = (200, {"key_id": NAME, "removed": True})
        listed: dict[str, JsonValue] = {"key_id": NAME, "public_key": PUBLIC, "enrolled_at_ms": NOW_MS}
        daemon.replies["GET /v1/approvers"] = (200, {"approvers": [listed]})
        enrolled = cli.run("approvers", "enrol", PUBLIC, "--yes", passphrase=PASSPHRASE)
        assert {"public_key": PUBLIC} == said(daemon.asked[-1])["statement"]["params"]
        removed = cli.run("approvers", "remove", NAME, "--yes", passphrase=PASSPHRASE)
        assert {"key_id": NAME} == said(daemon.asked[-1])["statement"]["params"]
        shown = cli.run("approvers", "list", passphrase=PASSPHRASE)
        monkeypatch.setattr("broker.cli.approvers.word", lambda _: "beef")
        mistyped = cli.run("approvers", "enrol", PUBLIC, passphrase=PASSPHRASE)

    assert [0, 0, 0, 1] == [told[0] for told in (enrolled, removed, shown, mistyped)]
    assert NAME in shown[1]
    assert "nothing was enrolled" in mistyped[2]
    assert 64 == cli.run("approvers", "enrol", "xyz", passphrase=PASSPHRASE)[0]


def test_another_key_file_is_used_where_it_is_named(cli: CommandLine, tmp_path: Path) -> None:
    cli.make_key()
    moved = tmp_path / "elsewhere"
    moved.mkdir(mode=0o700)
    cli.places.approver_key.rename(moved / "k")
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/approvers"] = (200, {"approvers": []})
        missing = cli.run("approvers", "list", passphrase=PASSPHRASE)
        found = cli.run("approvers", "list", "--approver-key", str(moved / "k"), passphrase=PASSPHRASE)

    assert (1, 0) == (missing[0], found[0])


def test_an_agent_asks_for_a_credential(cli: CommandLine) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/credential-requests"] = (
            200, {"category": "call_denied", "code": "declined", "status": "failure", "message": "no", "ok": False},
        )  # fmt: skip
        code, out, _ = cli.run("request-credential", "github", "--purpose", "to look", "--wait", "5", "--json")

        assert {"service": "github", "purpose": "to look", "wait_s": 5.0} == said(daemon.asked[0])
    assert 22 == code
    assert "declined" == parse_object(out.encode())["code"]
    assert 64 == cli.run("request-credential", "github")[0]
