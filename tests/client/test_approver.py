import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.approver import (
    ApproverError,
    ApproverKey,
    Keys,
    Secret,
    WrongPassphrase,
    calibrate,
    create_key_file,
    derive,
    finish_rewrap,
    read_key_file,
    stage_rewrap,
)
from broker.client.faults import ClientError
from broker.contract.kdf import MAX_ITERATIONS, REDUCED_FLOOR, STANDARD_FLOOR, KdfParams
from broker.contract.key_id import key_id
from broker.contract.statements import control_bytes, decision_bytes, policy_bytes, statement_bytes
from broker.contract.wire import JsonValue
from broker.vault.approver_keys import verify

LOG_ID = "doorward-log-5c1d"
KEK = Secret(b"k" * 32)
WRONG_KEK = Secret(b"w" * 32)
CHEAP = KdfParams(memory_kib=8192, iterations=1, lanes=1, salt=b"salt-of-16-bytes")
DECISION: dict[str, JsonValue] = {
    "approval_id": "ap_1",
    "request_digest": "sha256:1",
    "card_digest": "sha256:2",
    "decision": "approve",
    "choice": None,
    "scope": "once",
    "max_uses": 1,
    "max_age_s": None,
    "reason": None,
    "policy_digest": "sha256:3",
    "log_id": LOG_ID,
    "vault_term": 3,
    "nonce": "n",
    "decided_at_ms": 1,
}
STATEMENT: dict[str, JsonValue] = {
    "verb": "credential.add", "params": {"name": "a"}, "nonce": "n", "log_id": LOG_ID, "vault_term": 3,
}  # fmt: skip
CONTROL: dict[str, JsonValue] = {"nonce": "n", "pid": 7, "log_id": LOG_ID}
POLICY: dict[str, JsonValue] = {"policy_digest": "sha256:3", "counter": 1, "log_id": LOG_ID}


def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "approver.key"
    path.parent.mkdir(0o700)
    create_key_file(path, LOG_ID, CHEAP, KEK)
    return path


def test_one_passphrase_makes_two_keys_that_do_not_tell_of_each_other() -> None:
    keys = derive(Secret("canary-phrase"), CHEAP, floor=REDUCED_FLOOR)

    assert keys == derive(Secret("canary-phrase"), CHEAP, floor=REDUCED_FLOOR)
    assert keys.vault_kek != keys.approver_kek
    assert (32, 32) == (len(keys.vault_kek), len(keys.approver_kek))
    assert "canary" not in repr(keys)


@pytest.mark.parametrize(
    ("passphrase", "kdf"),
    [
        (Secret("canary-phrasf"), CHEAP),
        (Secret("canary-phrase"), replace(CHEAP, salt=b"other-16-bytes-x")),
        (Secret("canary-phrase"), replace(CHEAP, iterations=2)),
    ],
)
def test_passphrase_salt_and_cost_all_matter(passphrase: Secret, kdf: KdfParams) -> None:
    keys, others = (
        derive(Secret("canary-phrase"), CHEAP, floor=REDUCED_FLOOR),
        derive(passphrase, kdf, floor=REDUCED_FLOOR),
    )

    assert isinstance(keys, Keys)
    assert keys.vault_kek != others.vault_kek
    assert keys.approver_kek != others.approver_kek


def test_a_weak_derivation_is_refused_unless_asked_for() -> None:
    for weak in (CHEAP, replace(CHEAP, memory_kib=STANDARD_FLOOR.memory_kib), replace(CHEAP, iterations=8)):
        with pytest.raises(ApproverError, match="weaker"):
            derive(Secret("canary-phrase"), weak)


@pytest.mark.parametrize("length", [0, 1025])
def test_an_empty_or_endless_passphrase_is_refused(length: int) -> None:
    with pytest.raises(ApproverError, match="passphrase has"):
        derive(Secret(b"x" * length), CHEAP, floor=REDUCED_FLOOR)


@given(st.floats(0.0, 100.0))
def test_calibration_stays_within_floor_and_bounds(floor_took_s: float) -> None:
    kdf = calibrate(seconds_for=lambda _: floor_took_s)

    assert kdf.meets(STANDARD_FLOOR)
    assert kdf.memory_kib <= 256 * 1024
    assert kdf.iterations <= MAX_ITERATIONS
    cost = kdf.memory_kib * kdf.iterations / (STANDARD_FLOOR.memory_kib * STANDARD_FLOOR.iterations)
    assert cost == 1 or cost * floor_took_s <= 0.5 * 1.001


def test_calibration_measures_this_machine_and_takes_a_fresh_salt() -> None:
    one, two = (calibrate(target_s=0.001, floor=REDUCED_FLOOR) for _ in range(2))

    assert one.salt != two.salt
    assert one.meets(REDUCED_FLOOR)


def test_calibration_takes_memory_first() -> None:
    kdf = calibrate(target_s=0.5, seconds_for=lambda _: 0.1)

    assert (256 * 1024, 3) == (kdf.memory_kib, kdf.iterations)
    assert 15 == calibrate(target_s=0.5, seconds_for=lambda _: 0.025).iterations


def test_a_key_file_is_private_and_comes_back(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    with ApproverKey.load(path, KEK) as key:
        assert (LOG_ID, CHEAP) == (key.log_id, read_key_file(path).kdf)
        assert key.public_key == read_key_file(path).public_key
        assert key_id(key.public_key) == key.key_id == read_key_file(path).key_id
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert {"version", "log_id", "kdf", "public_key", "nonce", "wrapped"} == json.loads(path.read_bytes()).keys()


def test_creation_tells_the_public_key_and_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "approver.key"
    public_key = create_key_file(path, LOG_ID, CHEAP, KEK)
    before = path.read_bytes()
    with pytest.raises(ApproverError, match="already"):
        create_key_file(path, LOG_ID, CHEAP, KEK)

    assert before == path.read_bytes()
    assert public_key == ApproverKey.load(path, KEK).public_key


def test_a_wrong_passphrase_opens_nothing(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    for kek in (WRONG_KEK, Secret(b"short")):
        with pytest.raises(WrongPassphrase) as wrong:
            ApproverKey.load(path, kek)
        assert isinstance(wrong.value, ClientError)


@pytest.mark.parametrize(
    "changed",
    [
        {"log_id": "another-log"},
        {"public_key": "c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0c2FsdHNhbHQ="},
        {"nonce": "bm9uY2Vub25jZW5v"},
        {"wrapped": "c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0"},
    ],
)
def test_a_key_is_bound_to_its_log_and_public_key(tmp_path: Path, changed: dict[str, str]) -> None:
    path = key_file(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changed))
    with pytest.raises(WrongPassphrase):
        ApproverKey.load(path, KEK)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b"x" * 9000,
        {"version": 2},
        {"surprise": 1},
        {"log_id": 7},
        {"public_key": "c2FsdA=="},
        {"public_key": 7},
        {"nonce": "?"},
        {"wrapped": ""},
        {"kdf": {}},
        {"kdf": {**CHEAP.to_json(), "memory_kib": 1 << 30}},
        {"kdf": {**CHEAP.to_json(), "memory_kib": 64}},
    ],
)
def test_a_file_that_is_no_approver_key_is_refused(tmp_path: Path, content: bytes | dict[str, object]) -> None:
    path = key_file(tmp_path)
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_bytes()) | content).encode()
    path.write_bytes(content)
    with pytest.raises(ApproverError, match="no approver key"):
        ApproverKey.load(path, KEK)


def put_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda path: path.chmod(0o644), "chmod 600"),
        (lambda path: path.parent.chmod(0o770), "nobody else"),
        (lambda path: os.link(path, path.with_name("second")), "one name"),
        (lambda path: path.symlink_to(path.rename(path.with_name("moved"))), "plain file"),
        (put_a_fifo, "plain file"),
        (lambda path: path.unlink(), "doorward init"),
        (lambda path: path.parent.rename(path.parent.with_name("gone")), "doorward setup"),
        (lambda path: path.parent.symlink_to(path.parent.rename(path.parent.with_name("real"))), "directory"),
    ],
)
def test_a_file_that_is_not_ours_alone_is_refused(tmp_path: Path, harm: Callable[[Path], object], words: str) -> None:
    path = key_file(tmp_path)
    harm(path)
    with pytest.raises(ApproverError, match=words):
        ApproverKey.load(path, KEK)


def test_a_key_file_is_not_made_through_a_symlink_or_where_others_write(tmp_path: Path) -> None:
    (tmp_path / "approver.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ApproverError):
        create_key_file(tmp_path / "approver.key", LOG_ID, CHEAP, KEK)
    assert not (tmp_path / "elsewhere").exists()
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(ApproverError, match="nobody else"):
        create_key_file(open_to_all / "approver.key", LOG_ID, CHEAP, KEK)


@pytest.mark.parametrize(
    ("sign", "spell", "values"),
    [
        (ApproverKey.sign_decision, decision_bytes, DECISION),
        (ApproverKey.sign_statement, statement_bytes, STATEMENT),
        (ApproverKey.sign_control, control_bytes, CONTROL),
        (ApproverKey.sign_policy, policy_bytes, POLICY),
    ],
)
def test_what_is_signed_is_verified_as_itself_and_as_nothing_else(
    tmp_path: Path,
    sign: Callable[[ApproverKey, dict[str, JsonValue]], bytes],
    spell: Callable[[dict[str, JsonValue]], bytes],
    values: dict[str, JsonValue],
) -> None:
    key = ApproverKey.load(key_file(tmp_path), KEK)
    keys = (key.public_key,)
    signature = sign(key, values)

    assert key.key_id == verify(keys, spell(values), signature)
    for name in values:
        changed = {**values, name: "other"}
        assert verify(keys, spell(changed), signature) is None
    for other in (decision_bytes(DECISION), statement_bytes(STATEMENT), control_bytes(CONTROL), policy_bytes(POLICY)):
        assert (other == spell(values)) == (verify(keys, other, signature) is not None)


def test_nothing_is_signed_for_another_log_or_of_another_form(tmp_path: Path) -> None:
    key = ApproverKey.load(key_file(tmp_path), KEK)
    elsewhere: list[dict[str, JsonValue]] = [{**DECISION, "log_id": "another-log"}, {"nonce": "n"}]
    for values in elsewhere:
        with pytest.raises(ApproverError, match="another log"):
            key.sign_decision(values)
    odd: list[dict[str, JsonValue]] = [{**DECISION, "surprise": 1}, {**DECISION, "max_age_s": 1.5}, {"log_id": LOG_ID}]
    for values in odd:
        with pytest.raises(ApproverError, match="can't be signed"):
            key.sign_decision(values)


def test_a_wiped_key_signs_nothing(tmp_path: Path) -> None:
    key = ApproverKey.load(key_file(tmp_path), KEK)
    key.wipe()
    key.wipe()
    with pytest.raises(ApproverError, match="passphrase"):
        key.sign_decision(DECISION)

    assert bytearray() == key._seed


def test_another_passphrase_keeps_the_key(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    before = read_key_file(path).public_key
    fresh_kdf = replace(CHEAP, salt=b"other-16-bytes-x")
    path.with_name("approver.key.new").write_bytes(b"left by a crash")
    with pytest.raises(WrongPassphrase):
        stage_rewrap(path, WRONG_KEK, Secret(b"f" * 32), fresh_kdf)
    stage_rewrap(path, KEK, Secret(b"f" * 32), fresh_kdf)
    assert CHEAP == read_key_file(path).kdf, "the file stays until the vault has taken it"
    finish_rewrap(path)

    assert (before, fresh_kdf) == (read_key_file(path).public_key, read_key_file(path).kdf)
    assert before == ApproverKey.load(path, Secret(b"f" * 32)).public_key
    with pytest.raises(WrongPassphrase):
        ApproverKey.load(path, KEK)
    assert ["approver.key"] == [file.name for file in path.parent.iterdir()]
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)


def test_a_file_that_names_another_public_key_than_its_own_is_refused(tmp_path: Path) -> None:
    file = read_key_file(key_file(tmp_path))
    claimed = replace(file, public_key=b"2" * 32)
    with file.opened(KEK) as key:
        claimed = replace(claimed, wrapped=key.wrapped(KEK, claimed.nonce, claimed._bound_to()))
    with pytest.raises(WrongPassphrase, match="names"):
        claimed.opened(KEK)


def test_a_passphrase_change_that_can_not_be_written_keeps_the_old_one(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    path.with_name("approver.key.new").mkdir()
    with pytest.raises(ApproverError, match="replaced"):
        stage_rewrap(path, KEK, WRONG_KEK, CHEAP)

    assert LOG_ID == ApproverKey.load(path, KEK).log_id
