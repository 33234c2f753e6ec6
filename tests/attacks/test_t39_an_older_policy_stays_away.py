"""T39: an older policy, correctly signed once, comes back by neither its files nor its signature nor a restart."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from broker.client.approver import ApproverKey
from tests.live.house import House, open_house
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

LOOSE = 'version = 1\n[[rules]]\nid = "more"\nservices = ["shop"]\noperations = ["POST"]\napproval = "none"\n'
TIP = {"service": "shop", "method": "POST", "path": "/tips"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The loose policy was trusted under counter 2, and the strict one after it under 3."""
    with serving() as upstream, open_house(tmp_path_factory.mktemp("t39") / "h", origin=upstream.origin) as one:
        strict = (one.places.policies / "shop.toml").read_text()
        loose = strict.replace('approval = "per_call"', 'approval = "none"')
        one.human.write_policy("shop.toml", loose)
        one.human.trust()
        one.human.write_policy("shop.toml", strict)
        one.human.trust()
        one.human.write_policy("shop.toml", loose)  # who runs as the user has put it back
        yield one


def body(house: House, *, counter: int, signed: int, log_id: str | None = None, key: ApproverKey | None = None) -> Any:
    """What trusts the files as they lie there, with a signature for another counter, log or key."""
    digest = house.human.client.policy_pending()["digest"]
    values = {"policy_digest": digest, "counter": signed, "log_id": log_id or house.log_id}
    signature = (key or house.key).sign_policy(values)
    return {"policy_digest": digest, "counter": counter, "signature": base64.b64encode(signature).decode()}


def asks(house: House) -> bool:
    """Whether a human would be asked about a change, as the strict policy wants it."""
    told: Any = house.human.client.explain(TIP)
    return bool(told["decision"] == "per_call")


def test_its_files_alone_change_nothing_and_are_shown_as_a_loosening(house: House) -> None:
    pending: Any = house.human.client.policy_pending()

    assert asks(house)
    assert 3 == house.human.client.policy()["counter"]
    assert (False, "changed") == (pending["same"], pending["state"])
    assert "loosens" in {change["direction"] for change in pending["changes"]}


@pytest.mark.parametrize(
    ("counter", "signed", "code"),
    [(2, 2, "changed"), (3, 3, "changed"), (4, 2, "bad_signature"), (4, 3, "bad_signature"), (5, 5, "changed")],
)
def test_its_signature_under_another_counter_is_refused(house: House, counter: int, signed: int, code: str) -> None:
    status, told = house.human.ask("POST", "/v1/policy/trust", body(house, counter=counter, signed=signed))

    assert (status >= 400, code) == (True, told["error"]["code"])
    assert asks(house)


@pytest.mark.parametrize("which", ["log", "key"])
def test_a_signature_for_another_log_or_by_another_key_is_refused(house: House, which: str) -> None:
    log_id = "0" * 32 if which == "log" else house.log_id
    key = ApproverKey(log_id=log_id, seed=house._seed if which == "log" else bytes(32))
    told = house.human.ask("POST", "/v1/policy/trust", body(house, counter=4, signed=4, log_id=log_id, key=key))[1]

    assert "bad_signature" == told["error"]["code"]
    assert asks(house)


def test_a_lock_and_a_restart_bring_back_what_was_trusted_last(house: House) -> None:
    house.human.client.lock()
    house.human.unlock()
    house.human.open_session()
    assert asks(house)

    house.kill()
    house.start().open()
    assert (True, 3) == (asks(house), house.human.client.policy()["counter"])


def test_files_that_were_swapped_after_they_were_shown_are_not_trusted(house: House) -> None:
    pending: Any = house.human.client.policy_pending()
    signed = body(house, counter=4, signed=4)
    house.human.write_policy("more.toml", LOOSE)
    told = house.human.ask("POST", "/v1/policy/trust", signed)[1]
    (house.places.policies / "more.toml").unlink()

    assert "changed" == told["error"]["code"]
    assert pending["digest"] == signed["policy_digest"]
    assert asks(house)
