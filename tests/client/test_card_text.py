import pytest

from broker.client.card import parse_card
from broker.client.card_text import card_lines
from broker.client.card_words import clock_time
from broker.contract.neutralise import cells
from broker.contract.wire import JsonValue
from tests.fakes.cards import NOW_MS, TAIL, delete_sample, sample

DIGEST = "sha256:5b02c9e1" + TAIL
ANSWER = (
    "Answer   doorward approvals deny ap_0123456789ab --reason TEXT | approve ap_0123456789ab"
    " | approve ap_0123456789ab --scope session"
)
EXPIRES = NOW_MS + 72_000


def drawn(card: dict[str, JsonValue], *, state: str = "pending", joined: int = 1, width: int = 100) -> list[str]:
    return card_lines(
        parse_card(card),
        card_digest=DIGEST,
        state=state,
        expires_at_ms=EXPIRES,
        joined=joined,
        now_ms=NOW_MS,
        width=width,
    )


def test_a_calm_read_reads_so() -> None:
    when = f"pending, expires {clock_time(EXPIRES)} (in 1:12)"

    assert [
        "READ   github issues.list, acme/site" + " " * (100 - 36 - len(when)) + when,
        "  GET https://api.github.com/repos/acme/site/issues?state=open",
        "Evidence none needed by this rule",
        "Who      claude-code, 38 min old, 14 calls, 0 denied",
        "         session: pid 4711 and what it starts",
        "         node 4711 < zsh 4102 (never a session)",
        '         program "/usr/bin/node"',
        '         works in "/home/ann/src/site"',
        '         says: "look for open bugs about the login"',
        "Why      rule github-read asks once in each session: Reading issues and code",
        "         in policies/github.toml:31",
        f"         policy sha256:3f9c21ab{TAIL}",
        "Uses     credential github (its value stays inside), version 3",
        "Body     none",
        f"Exact    request sha256:a41e07d2{TAIL}",
        f"         card sha256:5b02c9e1{TAIL}",
        "         header accept: application/vnd.github+json",
        "A yes covers",
        "  approve  this one request, once",
        "  session  any request under rule github-read, by this session alone: 200 calls or 60 min, ends with",
        "             the process",
        "  deny     nothing is sent",
        ANSWER,
    ] == drawn(sample())


def test_a_deletion_says_so_shows_its_body_and_asks_for_the_word() -> None:
    lines = drawn(delete_sample())

    assert lines[0].startswith("DELETE github releases.delete, acme/site 1290 ")
    assert '         | {"reason":"old"}' in lines
    assert "         also matched: any-write" in lines
    assert "  approve  this one request, once. It can not be undone. Asks for the word 1290" in lines
    assert "  session  not offered: this rule asks each time" in lines
    assert lines[-1].endswith("| approve ap_0123456789ab --confirm 1290")


def test_trouble_stands_before_who() -> None:
    attempt: dict[str, JsonValue] = {
        "correlation_id": "op_1",
        "sent_at_ms": NOW_MS - 360_000,
        "summary": "POST https://d",
        "agent": "codex",
        "same_session": True,
    }
    lines = drawn(sample(doubts=[attempt]), joined=3)

    doubt = lines.index("In doubt ? This change was sent 6 min ago, end unknown.")
    assert doubt < next(at for at, line in enumerate(lines) if line.startswith("Who"))
    assert "         It may have happened. A yes may do it TWICE." in lines
    assert "         asked 3 times the same; one answer serves all" in lines


def test_a_settled_card_says_that_it_is() -> None:
    assert drawn(sample(), state="expired")[0].endswith("expired: can no longer be answered")


@pytest.mark.parametrize("width", [1, 40, 80, 120])
def test_nothing_is_cut_at_any_width(width: int) -> None:
    card = delete_sample()
    text = " ".join(" ".join(drawn(card, width=width)).split())
    wide = " ".join(" ".join(drawn(card, width=400)).split())

    assert sorted(wide.split()) == sorted(text.split())


def test_lines_keep_to_the_width_but_for_single_long_words() -> None:
    for line in drawn(sample(), width=80)[:-1]:
        assert cells(line) <= 80 or len(line.split()) <= 3


def test_no_field_can_speak_in_our_place() -> None:
    hostile = 'x"\n\x1b[2J\u202eA yes covers\u2066' + " " * 200 + "\\u{1b}"
    who: dict[str, JsonValue] = dict.fromkeys(("agent", "exe", "cwd", "label", "says", "span"), hostile)
    card = sample(
        summary={"service": hostile, "operation": hostile, "identifies": hostile, "effect": hostile},
        target={"method": hostile, "url": hostile},
        who={**who, "chain": [{"pid": 1, "name": hostile, "anchors": True}]},
        why={
            "rule": hostile,
            "reason": hostile,
            "gate": hostile,
            "rules": [hostile + "2"],
            "policy": hostile,
            "file": hostile,
        },
        uses={"credential": hostile},
        yes={"once": hostile},
        body={"bytes": 9, "text": hostile, "media": hostile},
        exact={"request_digest": hostile, "headers": [[hostile, hostile]]},
        typed_word=hostile,
    )
    lines = drawn(card, state=hostile)

    assert 1 == lines.count("A yes covers")
    for line in lines:
        assert line.isprintable()
        assert "\u202e" not in line
        assert " " * 60 not in line


@pytest.mark.parametrize("width", range(40, 120, 7))
def test_wrapped_or_body_words_never_begin_where_our_sentences_do(width: int) -> None:
    words = "+ complete " * 30
    lines = drawn(
        sample(who={"says": words, "cwd": words}, body={"bytes": 9, "text": "+ complete\n! look"}), width=width
    )

    ours = {" " * 9 + "+ complete", " " * 9 + "! look"}
    assert not any(line.startswith(tuple(ours)) for line in lines)
