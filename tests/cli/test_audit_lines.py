"""How one event reads on a line: whole into a pipe, without what nobody reads on a terminal."""

from broker.cli.audit_show import line_of
from broker.contract.wire import JsonObject

ID = "op_" + "0193a1b2c3d4" * 3 + "00112233"
WORDS = "to look at it again, " * 4
EVENT: JsonObject = {
    "seq": 7,
    "at_ms": 1_796_000_000_000,
    "event": "policy.decided",
    "correlation_id": ID,
    "session_id": None,
    "fields": {
        "digest": "sha256:" + "ab" * 32,
        "signature": "cd" * 64,
        "gate": {"vault": "ready"},
        "reason": WORDS,
        "rules": ["github-read"],
    },
}


def test_a_terminal_gets_no_digests_and_objects_and_the_whole_id() -> None:
    line = line_of(EVENT, short=True)

    assert "digest sha256:abababab...  signature cdcdcdcd...  gate {...}" in line
    assert f"reason {WORDS[:60]}...  rules github-read  {ID}" in line


def test_a_pipe_gets_all_of_it() -> None:
    line = line_of(EVENT)

    assert "ab" * 32 in line
    assert '{"vault":"ready"}' in line
    assert "..." not in line
