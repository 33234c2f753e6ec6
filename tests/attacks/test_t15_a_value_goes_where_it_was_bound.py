"""A credential that was removed and added again under its name is another one: nothing of the former is used for it."""

from pathlib import Path

from broker.core.credential import BearerSecret
from broker.core.secret import Secret
from broker.daemon.custody import Custody
from broker.vault import Vault
from tests.fakes.vaults import KEK, NOW_MS, bearer, new_vault

OLD, NEW = "canary-former-token-0123", "canary-present-token-4567"


def test_work_in_flight_lends_its_value_to_no_later_credential_of_the_name(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        custody = Custody(vault)
        before = vault.add_credential(bearer("a", OLD, "https://old.example"), now_ms=NOW_MS).version
        with custody.lease("a", before):  # an answer is waited for while a human replaces the credential
            vault.remove_credential("a")
            after = vault.add_credential(bearer("a", NEW, "https://new.example"), now_ms=NOW_MS).version
            with custody.lease("a", after):
                assert BearerSecret(token=Secret(NEW)) == custody.secret_of("a", after)
            assert BearerSecret(token=Secret(OLD)) == custody.secret_of("a", before)


def test_an_answer_is_scrubbed_of_the_value_that_was_sent(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        custody = Custody(vault)
        before = vault.add_credential(bearer("a", OLD), now_ms=NOW_MS).version
        with custody.lease("a", before) as secrets:
            assert b"[redacted]" == secrets.clean(OLD.encode()).data
        vault.remove_credential("a")
        after = vault.add_credential(bearer("a", NEW), now_ms=NOW_MS).version

        with custody.lease("a", after) as secrets:
            assert b"[redacted]" == secrets.clean(NEW.encode()).data
