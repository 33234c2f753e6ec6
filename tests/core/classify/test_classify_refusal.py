"""Refusals of the credential, read where the operation declares how."""

from dataclasses import replace

import pytest

from broker.contract.reasons import Effect
from broker.core.policy.declarations import Auth, Gateway
from broker.core.policy.model import Operation
from tests.fakes.answers import JSON, answer, classified, judged
from tests.fakes.https_calls import frozen, operation

AUTH = Auth(
    challenge="headers.www-authenticate",
    login_redirect=("/login*", "/sso/*"),
    clock_codes=("RequestTimeTooSkewed",),
    clock_code="json.code",
    human_remedy=("headers.x-remedy",),
)
DECLARED: Operation = replace(operation(), auth=AUTH, gateway=Gateway(reject_proof=(521,)))
CHALLENGE = "www-authenticate"


@pytest.mark.parametrize(
    ("status", "headers", "body", "told"),
    [
        (401, [(CHALLENGE, 'Bearer realm="a", error="invalid_token", error_description="expired"')], b"{}",
         "authentication_failed expired never"),
        (401, [(CHALLENGE, 'Bearer error="invalid_token"')], b"{}", "authentication_failed rejected never"),
        (401, [(CHALLENGE, "Bearer error=insufficient_scope")], b"{}", "authorization_denied scope never"),
        (403, [(CHALLENGE, 'Bearer error="insufficient_scope", scope="a"')], b"{}",
         "authorization_denied scope never"),
        (401, [(CHALLENGE, "Basic"), (CHALLENGE, 'Bearer error="insufficient_claims"')], b"{}",
         "authentication_failed rejected after_human"),
        (401, [(CHALLENGE, 'Bearer error="invalid_token"'), ("x-remedy", "do")], b"{}",
         "authentication_failed rejected after_human"),
        (401, [(CHALLENGE, "Bearer")], b"{}", "authentication_failed rejected never"),
        (401, [("x-remedy", "do that")], b"{}", "authentication_failed rejected after_human"),
        (403, [("x-remedy", "do that")], b"{}", "authorization_denied forbidden after_human"),
        (400, [("x-remedy", "do that")], b"{}", "confirmed_failure client_error never"),
        (403, [], b'{"code": "RequestTimeTooSkewed"}', "local_failure clock_skew bounded"),
        (403, [], b'{"code": "Other"}', "authorization_denied forbidden never"),
        (302, [("location", "/login?next=x")], b"{}", "authentication_failed rejected never"),
        (302, [("location", "http://other.example/sso/in")], b"{}", "authentication_failed rejected never"),
        (302, [("location", "/elsewhere")], b"{}", "confirmed_failure redirect_not_followed never"),
        (302, [("location", "http://[broken")], b"{}", "confirmed_failure redirect_not_followed never"),
        (302, [], b"{}", "confirmed_failure redirect_not_followed never"),
    ],
)  # fmt: skip
def test_a_refusal_is_read_as_declared(status: int, headers: list[tuple[str, str]], body: bytes, told: str) -> None:
    category, code, retry, _ = judged(frozen(declared=DECLARED), answer(status, body, JSON, *headers))

    assert told == f"{category.value} {code} {retry.value}"


def test_what_a_human_has_to_do_stands_in_the_grounds_alone() -> None:
    seen = classified(frozen(declared=DECLARED), answer(401, b"{}", JSON, ("x-remedy", "sign in at https://x")))

    assert "sign in at https://x" == seen.grounds["remedy"]
    assert "sign in" not in seen.verdict.message


@pytest.mark.parametrize(
    ("status", "told"), [(521, "confirmed_failure bounded none"), (522, "outcome_unknown after_human unknown")]
)
def test_only_a_declared_status_proves_that_a_request_was_not_handed_on(status: int, told: str) -> None:
    category, _, retry, effect = judged(frozen(method="POST", declared=DECLARED, effect=Effect.WRITE), answer(status))

    assert told == f"{category.value} {retry.value} {effect.value}"
