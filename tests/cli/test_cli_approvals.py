import base64
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.client.approver import read_key_file
from broker.contract.statements import decision_bytes
from broker.contract.wire import JsonValue, digest, dump, parse_json, parse_object
from broker.vault import verify
from tests.fakes.cards import NOW_MS, delete_sample, gap_sample, sample
from tests.fakes.command_line import LOG_ID, NONCE, PASSPHRASE, CommandLine
from tests.fakes.unix_daemon import Asked, UnixDaemon

ID = "ap_0123456789ab"
DECISION = f"POST /v1/approvals/{ID}/decision"
NO_WANTS: tuple[int, dict[str, JsonValue]] = (200, {"credential_requests": []})


def listed(**changes: JsonValue) -> dict[str, JsonValue]:
    return {
        "id": ID,
        "state": "pending",
        "created_at_ms": NOW_MS,
        "expires_at_ms": NOW_MS + 10**12,
        "effect": "READ",
        "operation": "github.issues.list",
        "target": "acme/site\x1b",
        "agent": "codex",
        "gate": "session",
        "rules": [],
        "evidence_state": "not_needed",
        "joined": 1,
        **changes,
    }


def serve(daemon: UnixDaemon, card: dict[str, JsonValue], **changes: JsonValue) -> None:
    daemon.replies[f"GET /v1/approvals/{ID}"] = (
        200,
        {
            "id": ID,
            "state": "pending",
            "card": card,
            "card_digest": digest("doorward/card/v1", card),
            "nonce": NONCE,
            "arming_ms": 0,
            "served_at_ms": NOW_MS,
            "expires_at_ms": NOW_MS,
            "joined": 1,
            **changes,
        },
    )
    daemon.replies[DECISION] = (200, {"id": ID, "state": "approved"})


def test_the_list_needs_no_passphrase_and_is_neutralised(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/approvals"] = (200, {"approvals": [listed(), listed(state="denied")]})
        daemon.replies["GET /v1/credential-requests"] = NO_WANTS
        code, out, _ = cli.run("approvals", "list")
        cli.run("approvals", "list", "--state", "all")

        asked = [one.target for one in daemon.asked if "approvals" in one.target]
        assert ["/v1/approvals?state=pending", "/v1/approvals"] == asked
    assert 0 == code
    assert "Id               Effect  Operation           Target           Agent  Left or state" == out.splitlines()[0]
    assert out.splitlines()[2] == f"{ID}  READ    github.issues.list  acme/site\\u{{1b}}  codex  denied"


def test_several_of_a_kind_are_numbered(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        pair = [listed(group="g1", group_size=2), listed(group="g2", group_size=1), listed(group="g1", group_size=2)]
        daemon.replies["GET /v1/approvals"] = (200, {"approvals": [*pair, listed(state="denied", group_size=2)]})
        _, out, _ = cli.run("approvals", "list", "--state", "denied")

    words = ["(1 of 2)", "", "(2 of 2)", ""]
    assert words == ["".join(re.findall(r"\(\d of \d\)", line)) for line in out.splitlines()[1:]]


def test_a_state_that_there_is_not_is_usage(cli: CommandLine) -> None:
    code, _, err = cli.run("approvals", "list", "--state", "bogus")

    assert (64, True) == (code, "superseded" in err)


def test_an_empty_list_says_so(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/approvals"] = (200, {"approvals": []})
        daemon.replies["GET /v1/credential-requests"] = NO_WANTS

        assert "nothing waits for you\n" == cli.run("approvals", "list")[1]
        as_json = cli.run("approvals", "list", "--json")[1]
        assert {"approvals": [], "credential_requests": []} == parse_object(as_json.encode())


def test_following_prints_one_line_for_each_change(cli: CommandLine) -> None:
    states = iter(["pending", "pending", "approved", "approved"])
    want: dict[str, JsonValue] = {"id": "cr_1", "service": "github", "credential": "github", "agent": "codex"}
    wants = iter([{**want, "state": "pending"}, {**want, "state": "declined"}])
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/approvals"] = lambda _: (200, {"approvals": [listed(state=next(states))]})
        daemon.replies["GET /v1/credential-requests"] = lambda _: (200, {"credential_requests": [next(wants)]})
        daemon.replies["GET /v1/events"] = (200, b"")
        with EventServer(Path(cli.places.control_socket), daemon):
            code, out, _ = cli.run("approvals", "list", "--follow")

    assert 31 == code  # the fake ends its stream; a lost daemon is not silence
    assert [
        f"{ID} pending  READ   github.issues.list acme/site\\u{{1b}} (codex)",
        "cr_1 pending  CREDENTIAL github for github (codex)",
        f"{ID} approved READ   github.issues.list acme/site\\u{{1b}} (codex)",
        "cr_1 declined CREDENTIAL github for github (codex)",
    ] == out.splitlines()


WANTED = b'event: credential_request\ndata: {"id":"cr_1","state":"declined"}\n\n'


class EventServer:
    """Stands in front of a fake daemon: the first connection gets four events and is closed, others pass on."""

    def __init__(self, path: Path, behind: UnixDaemon) -> None:
        self._path = path
        self._moved = path.with_name("behind.sock")
        path.rename(self._moved)
        behind.path = self._moved
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(5)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._path.unlink()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(link,), daemon=True).start()

    def _one(self, link: socket.socket) -> None:
        with link:
            first = link.recv(65536)
            if b"/v1/events" in first:
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                link.sendall(
                    head + b": hi\n\n" + b"event: approval\ndata: {}\n\n" * 2 + b"event: status\ndata: {}\n\n" + WANTED
                )
                return
            with socket.socket(socket.AF_UNIX) as behind:
                behind.connect(str(self._moved))
                while first:
                    behind.sendall(first)
                    link.sendall(behind.recv(1 << 20))
                    first = link.recv(65536)


def test_show_draws_the_whole_card(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        serve(daemon, delete_sample())
        code, out, _ = cli.run("approvals", "show", ID, passphrase=PASSPHRASE)
        _, machine, _ = cli.run("approvals", "show", ID, "--json", passphrase=PASSPHRASE)

    assert 0 == code
    assert out.startswith("DELETE github releases.delete, acme/site 1290")
    assert '         | {"reason":"old"}\n' in out
    assert delete_sample() == parse_json(machine.encode())


@pytest.mark.parametrize("scope", ["once", "session"])
def test_a_yes_is_signed_by_the_approver_over_the_card_that_was_shown(cli: CommandLine, scope: str) -> None:
    cli.make_key()
    card = sample(log_id=LOG_ID)
    with cli.control_daemon() as daemon:
        serve(daemon, card)
        code, out, _ = cli.run(
            "approvals", "approve", ID, "--yes", "--scope", scope, "--reason", "fine", passphrase=PASSPHRASE
        )
        body = daemon.bodies(DECISION)[0]

    assert 0 == code
    assert out.startswith("READ   github issues.list")
    assert "approved: " in out.splitlines()[-1]
    statement = body["statement"]
    assert (digest("doorward/card/v1", card), scope, "fine") == tuple(
        statement[name] for name in ("card_digest", "scope", "reason")
    )
    key = read_key_file(cli.places.approver_key).public_key
    assert verify((key,), decision_bytes(statement), base64.b64decode(body["signature"]))


def test_a_yes_waits_for_the_arming_time(cli: CommandLine) -> None:
    cli.make_key()
    at: dict[str, float] = {}

    def timed(name: str, reply: tuple[int, object]) -> Callable[[Asked], tuple[int, object]]:
        def handler(_: Asked) -> tuple[int, object]:
            at[name] = time.monotonic()
            return reply

        return handler

    with cli.control_daemon() as daemon:
        serve(daemon, sample(log_id=LOG_ID), arming_ms=300)
        card = daemon.replies[f"GET /v1/approvals/{ID}"]
        assert isinstance(card, tuple)
        daemon.replies[f"GET /v1/approvals/{ID}"] = timed("shown", card)
        daemon.replies[DECISION] = timed("decided", (200, {"state": "approved"}))
        cli.run("approvals", "approve", ID, "--yes", passphrase=PASSPHRASE)

    assert at["decided"] - at["shown"] >= 0.3


def test_a_card_with_a_word_needs_the_word(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        serve(daemon, {**delete_sample(), "log_id": LOG_ID})

        assert 1 == cli.run("approvals", "approve", ID, "--yes", passphrase=PASSPHRASE)[0]
        assert 1 == cli.run("approvals", "approve", ID, "--confirm", "129", passphrase=PASSPHRASE)[0]
        assert [] == daemon.bodies(DECISION)
        assert 0 == cli.run("approvals", "approve", ID, "--confirm", "1290", passphrase=PASSPHRASE)[0]
        assert "1290" == daemon.bodies(DECISION)[0]["confirm"]


@pytest.mark.parametrize(
    ("card", "changes", "line"),
    [
        (sample(log_id=LOG_ID), {"state": "expired"}, []),
        ({**delete_sample(), "log_id": LOG_ID}, {}, ["--scope", "session"]),
        (sample(log_id="another"), {}, []),
        (sample(log_id=LOG_ID, surprise=1), {}, []),
        (sample(log_id=LOG_ID), {"card_digest": "sha256:" + "0" * 64}, []),
    ],
)
def test_what_cannot_be_approved_is_not(
    cli: CommandLine, card: dict[str, JsonValue], changes: dict[str, JsonValue], line: list[str]
) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        serve(daemon, card, **changes)
        code, _, err = cli.run("approvals", "approve", ID, "--yes", *line, passphrase=PASSPHRASE)

        assert [] == daemon.bodies(DECISION)
    assert code in {1, 31}
    assert err.startswith("doorward: ")


def test_with_json_the_card_goes_to_stderr_and_the_answer_to_stdout(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        serve(daemon, sample(log_id=LOG_ID))
        _, out, err = cli.run("approvals", "approve", ID, "--yes", "--json", passphrase=PASSPHRASE)

    assert {"id": ID, "state": "approved"} == parse_object(out.encode())
    assert err.startswith("READ ")


def test_a_yes_that_came_too_late_is_exit_1(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        serve(daemon, sample(log_id=LOG_ID))
        daemon.replies[DECISION] = (409, {"error": {"code": "settled", "message": "It expired."}})

        code, _, err = cli.run("approvals", "approve", ID, "--yes", passphrase=PASSPHRASE)

    assert (1, "doorward: It expired.\n") == (code, err)


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("collect", "superseded: reading on for up to 60 s; then this card comes again"),
        ("limit", "superseded: a new card for the 2 proven targets; this one ends"),
    ],
)
def test_another_way_is_signed_over_the_card_that_was_shown(cli: CommandLine, choice: str, told: str) -> None:
    cli.make_key()
    card = gap_sample(log_id=LOG_ID)
    with cli.control_daemon() as daemon:
        serve(daemon, card)
        daemon.replies[DECISION] = (200, {"id": ID, "state": "superseded"})
        code, out, _ = cli.run("approvals", choice, ID, "--yes", passphrase=PASSPHRASE)
        body = daemon.bodies(DECISION)[0]

    assert (0, told) == (code, out.splitlines()[-1])
    assert (choice, choice, "once") == (body["choice"], body["statement"]["choice"], body["scope"])
    assert "confirm" not in body
    key = read_key_file(cli.places.approver_key).public_key
    assert verify((key,), decision_bytes(body["statement"]), base64.b64decode(body["signature"]))


def test_a_way_that_is_not_offered_is_not_taken(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        serve(daemon, sample(log_id=LOG_ID))
        code, _, err = cli.run("approvals", "collect", ID, "--yes", passphrase=PASSPHRASE)
        assert (1, True) == (code, "offers no collect" in err)
        serve(daemon, gap_sample(log_id=LOG_ID), state="expired")
        code, _, err = cli.run("approvals", "limit", ID, "--yes", passphrase=PASSPHRASE)
        assert (1, True) == (code, "can no longer be answered" in err)
        assert [] == daemon.bodies(DECISION)


def test_a_no_needs_no_passphrase_and_carries_the_words(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies[DECISION] = (200, {"id": ID, "state": "denied"})
        code, out, _ = cli.run("approvals", "deny", ID, "--reason", "Too wide.", "--end-session")

        assert [{"decision": "deny", "reason": "Too wide.", "end_session": True}] == daemon.bodies(DECISION)
    assert (0, "denied: nothing is sent; its session is ended\n") == (code, out)


def test_a_no_to_a_settled_card_is_exit_1(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies[DECISION] = (200, {"id": ID, "state": "approved"})

        assert 1 == cli.run("approvals", "deny", ID)[0]


def test_dump_and_parse_agree_on_the_samples() -> None:
    assert sample() == parse_json(dump(sample()))
