"""The route by which an agent has a human asked for a credential takes a service, a purpose, and nothing else."""

from pathlib import Path

import pytest

from tests.fakes.faces import AgentFace

PATH = "/v1/credential-requests"
WISH: dict[str, object] = {"service": "market", "purpose": "counting what is left"}


async def test_a_wish_is_a_run_like_any_other(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.asks_a_human = True
        face.engine.may_end.clear()
        waiting = await face.ask("POST", PATH, {**WISH, "wait_s": 0})
        assert "approval_pending" == waiting.value["category"]
        face.engine.may_end.set()
        polled = await face.ask("GET", f"/v1/results/{waiting.value['correlation_id']}?wait_s=30")

        (wish,) = face.engine.wanted
        assert "no_rule" == polled.value["code"], "what the engine says"
    assert ("market", "counting what is left") == (wish.service, wish.purpose)
    assert wish.correlation_id == waiting.value["correlation_id"]
    assert wish.body_digest.startswith("sha256:")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"service": "market"}, 422),
        ({**WISH, "purpose": ""}, 422),
        ({**WISH, "purpose": "x" * 501}, 422),
        ({**WISH, "service": "https://evil.example"}, 422),
        ({**WISH, "origins": ["https://evil.example"]}, 422),
        ("no object", 400),
    ],
)
async def test_what_is_no_wish_reaches_nobody(tmp_path: Path, body: object, status: int) -> None:
    async with AgentFace(tmp_path) as face:
        told = await face.ask("POST", PATH, body)

        assert [] == face.engine.wanted
    assert (status, "invalid_request") == (told.status, told.value["category"])


async def test_a_one_shot_call_that_will_not_wait_is_pointed_to_run(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        told = await face.ask("POST", PATH, {**WISH, "wait_s": 0}, headers={"user-agent": "doorward-cli/1"})

        assert [] == face.engine.wanted
    assert 422 == told.status
    assert "doorward run" in told.value["message"]
