from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from broker.contract.reasons import Effect
from broker.contract.schemas import schema
from broker.contract.wire import JsonObject, WireError, canonical
from broker.core.card import BODY_SHOWN_BYTES, SessionFacts, Setting, card_digest, draw, read_back_of, typed_word
from broker.core.effects import effect_word
from broker.core.frozen import FrozenRequest
from broker.core.identity import UNIDENTIFIED
from broker.core.ledger import Doubt
from broker.core.policy.declarations import Follow, Redirect
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Ask, Limits
from broker.core.resolve import HttpAsk, resolve
from broker.core.ssh.frozen import Exec
from broker.core.ssh.model import MarkerMode
from tests.fakes import hosts, market

OP = "op_" + "0" * 44
SETTING = Setting(
    approval_id="ap_0123456789ab",
    correlation_id=OP,
    log_id="log-1",
    vault_term=3,
    policy_digest=market.DIGEST,
    credential_version=2,
    created_at_ms=1_000_000,
    limits=Limits(),
)
SESSION = SessionFacts(id="se_1", opened_at_ms=900_000, calls=14, denied=1, label="site work")
DOUBT = Doubt(
    correlation_id="op_" + "1" * 44,
    session_id="se_1",
    agent="claude-code",
    operation="market.notes.send",
    summary="POST https://api.market.example/notes/n1/send",
    sent_at_ms=950_000,
)


def frozen(ask: HttpAsk = market.CREATE) -> FrozenRequest:
    request = resolve(market.POLICY, ask)
    assert isinstance(request, FrozenRequest)
    return request


def drawn(
    ask: HttpAsk = market.CREATE,
    *,
    request: FrozenRequest | None = None,
    doubts: tuple[Doubt, ...] = (),
    says: str | None = None,
    agent: str = "claude-code",
) -> dict[str, Any]:
    """The card of a request, held against its schema."""
    request = request or frozen(ask)
    caller = market.agent(name=agent)
    decision = evaluate(market.POLICY, caller, request)
    assert isinstance(decision, Ask)
    card = draw(
        setting=SETTING, caller=caller, session=SESSION, frozen=request, ask=decision, says=says, doubts=doubts
    )  # fmt: skip
    faults = [fault.message for fault in jsonschema_rs.validator_for(schema("card"), offline=True).iter_errors(card)]
    assert [] == faults
    return dict(card)


def test_a_card_tells_what_exactly_would_be_sent() -> None:
    request = frozen()
    card = drawn()

    assert card["target"] == {
        "method": "POST",
        "url": "https://api.market.example/stalls/s1/orders",
        "plain_http": False,
    }
    assert request.digest == card["exact"]["request_digest"]
    assert [list(pair) for pair in request.headers] == card["exact"]["headers"]
    assert card["body"]["text"] == '{"name":"leek","note":"fresh"}'


def test_a_card_names_the_credential_and_never_holds_it() -> None:
    card = drawn()

    assert card["uses"] == {"credential": "market", "version": 2}
    assert market.TOKEN.encode() not in canonical(card)


@pytest.mark.parametrize(
    ("ask", "word", "operation"),
    [
        (market.CREATE, "WRITE", "orders.create"),
        (market.CANCEL, "DELETE", "orders.cancel"),
        (market.JOB, "RUN", "jobs.run"),
        (market.LISTING, "READ", "prices.list"),
    ],
)
def test_the_first_word_says_what_it_does(ask: HttpAsk, word: str, operation: str) -> None:
    summary = drawn(ask)["summary"]

    assert (word, "market", operation) == (summary["effect"], summary["service"], summary["operation"])
    assert word == effect_word(frozen(ask).effect, destructive=frozen(ask).destructive)


def test_a_card_expires_when_the_rule_says() -> None:
    card = drawn()

    assert (1_000_000, 1_120_000, 1500) == (card["created_at_ms"], card["expires_at_ms"], card["arming_ms"])


def test_a_card_says_who_asks_and_what_is_only_their_word() -> None:
    card = drawn(says="the customer wants leek")
    who = card["who"]

    assert ("claude-code", True, "/opt/agent", 4711) == (who["agent"], who["identified"], who["exe"], who["pid"])
    assert [{"pid": 4711, "name": "agent", "anchors": True}] == who["chain"]
    assert ("se_1", 14, 1, "site work") == (who["session_id"], who["calls"], who["denied"], who["label"])
    assert who["says"] == "the customer wants leek"
    assert "leek" not in str({**card, "who": None, "body": None})


def test_an_unnamed_agent_is_said_to_be_one() -> None:
    who = drawn(agent=UNIDENTIFIED)["who"]

    assert (UNIDENTIFIED, False) == (who["agent"], who["identified"])


def test_a_card_says_why_it_asks() -> None:
    why = drawn()["why"]

    assert ("buy", "per_call", ["buy"], "market.toml", 7) == (
        why["rule"], why["gate"], why["rules"], why["file"], why["line"],
    )  # fmt: skip
    assert market.DIGEST == why["policy"]


def test_a_rule_for_sessions_offers_one_with_its_bounds() -> None:
    session = drawn(market.LISTING)["yes"]["session"]

    assert (True, 3, 60, None) == (
        session["offered"], session["max_uses"], session["max_age_s"], session["why_not"],
    )  # fmt: skip
    assert session["what"] == "any request under rule look"


def test_a_rule_for_each_call_offers_no_session() -> None:
    session = drawn()["yes"]["session"]

    assert (False, "this rule asks each time") == (session["offered"], session["why_not"])


@pytest.mark.parametrize(("per", "words"), [("service", " in this service"), ("operation", " for this operation")])
def test_a_narrower_scope_is_said_in_words(per: str, words: str) -> None:
    request = frozen(market.LISTING)
    decision = evaluate(market.POLICY, market.agent(), request)
    assert isinstance(decision, Ask)
    asked = replace(decision, rule=replace(decision.rule, per=per))
    card: Any = draw(
        setting=SETTING, caller=market.agent(), session=SESSION, frozen=request, ask=asked, says=None
    )  # fmt: skip

    assert f"any request under rule look{words}" == card["yes"]["session"]["what"]


def test_a_repeat_in_doubt_offers_no_session_and_wants_a_word() -> None:
    card = drawn(market.SEND, doubts=(DOUBT, replace(DOUBT, session_id="se_2")))

    assert (False, "an earlier attempt is in doubt") == (
        card["yes"]["session"]["offered"], card["yes"]["session"]["why_not"],
    )  # fmt: skip
    assert card["yes"]["once"] == "sending it a second time, once"
    assert [True, False] == [doubt["same_session"] for doubt in card["doubts"]]
    assert card["typed_word"] == "n1"


@pytest.mark.parametrize(
    ("targets", "identifies", "path", "word"),
    [
        (("acme/site 1290",), "", "/x", "1290"),
        (("first", "o-7"), "", "/x", "o-7"),
        ((), "acme/site", "/x", "site"),
        ((), "", "/orders/o-8", "o-8"),
    ],
)
def test_the_word_to_type_is_the_last_of_the_target(
    targets: tuple[str, ...], identifies: str, path: str, word: str
) -> None:
    request = replace(frozen(market.CANCEL), targets=targets, identifies=identifies, path=path)

    assert word == typed_word(request, in_doubt=False)


@pytest.mark.parametrize("odd", ["", "/", "größe", "a\\b", "x" * 25, "a\x07b"])
def test_a_target_that_is_hard_to_type_gives_way_to_the_digest(odd: str) -> None:
    request = replace(frozen(market.CANCEL), targets=(odd,) if odd else (), identifies="", path="/")

    assert request.digest.removeprefix("sha256:")[:8] == typed_word(request, in_doubt=False)


def test_a_plain_write_needs_no_word() -> None:
    assert typed_word(frozen(), in_doubt=False) is None
    assert typed_word(frozen(), in_doubt=True) == "s1"


def body_card(body: bytes) -> dict[str, Any]:
    shown: dict[str, Any] = drawn(request=replace(frozen(), body=body))["body"]
    return shown


def test_a_short_body_is_shown_whole() -> None:
    body = body_card(b"abc")

    assert (3, "abc", False) == (body["bytes"], body["text"], body["cut"])


def test_no_body_is_no_text() -> None:
    assert (0, None, False) == (body_card(b"")["bytes"], body_card(b"")["text"], body_card(b"")["cut"])


def test_bytes_that_are_no_text_are_a_size_and_a_digest() -> None:
    body = body_card(b"\xff\x00")

    assert body["text"] is None
    assert len(body["sha256"]) == 64


def test_a_long_body_is_cut_between_characters() -> None:
    body = body_card(b"a" * (BODY_SHOWN_BYTES - 1) + "ü".encode() * 10)

    assert body["cut"] is True
    assert "a" * (BODY_SHOWN_BYTES - 1) == body["text"]


def test_a_short_body_that_ends_in_half_a_character_is_no_text() -> None:
    assert body_card(b"abc\xc3")["text"] is None


def test_plain_http_is_said() -> None:
    request = frozen()
    plain = replace(request, service=replace(request.service, scheme="http"))

    assert drawn(request=plain)["target"]["plain_http"] is True


def test_the_digest_of_a_card_covers_all_of_it() -> None:
    card: JsonObject = drawn()

    assert card_digest(card) == card_digest(dict(sorted(card.items())))
    for name in card:
        assert card_digest(card) != card_digest({**card, name: "other"}), name


def test_a_card_holds_no_fraction() -> None:
    with pytest.raises(WireError, match="integers only"):
        card_digest({**drawn(), "v": 1.5})


def test_exec_is_run_and_a_destructive_one_is_delete() -> None:
    assert effect_word(Effect.WRITE, destructive=True) == "DELETE"
    assert effect_word(Effect.EXEC, destructive=False) == "RUN"


def test_what_could_tell_of_an_earlier_attempt_is_named() -> None:
    marked = hosts.frozen(hosts.command("systemctl restart nginx"))
    assert isinstance(marked.action, Exec)
    unmarked = replace(marked, action=replace(marked.action, marker=MarkerMode.OFF))

    assert "prices.list" == read_back_of(frozen(market.CREATE))
    assert None is read_back_of(frozen(market.CANCEL)) is read_back_of(frozen(market.AD_HOC))
    assert "its marker on the host" == read_back_of(marked)
    assert None is read_back_of(unmarked) is read_back_of(hosts.frozen(hosts.get("/etc/hostname")))


def test_a_read_that_may_be_sent_on_says_so() -> None:
    asked = frozen(market.LISTING)
    assert asked.declared is not None
    following = replace(asked.declared, redirect=Redirect(follow=Follow.SAME_HOST_GET_ONLY))

    assert "this one request, once" == drawn(request=asked)["yes"]["once"]
    assert (
        "this request, once, and up to 5 hops on its host"
        == (drawn(request=replace(asked, declared=following))["yes"]["once"])
    )
