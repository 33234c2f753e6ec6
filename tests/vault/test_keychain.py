"""The OS keyring behind a child that may be killed, with a real Secret Service and a real session bus."""

import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from keyring.backends.chainer import ChainerBackend
from keyring.backends.fail import Keyring as FailKeyring
from keyring.backends.null import Keyring as NullKeyring
from keyring.backends.SecretService import Keyring as SecretServiceKeyring

from broker.core.secret import Secret
from broker.daemon.keychain_process import command
from broker.vault import keychain_backend
from broker.vault.keychain import Keychain, KeychainError, KeychainFault, environment
from tests.fakes.keyrings import SessionKeyring
from tests.fakes.vaults import StillClock
from tests.live.house import until

pytestmark = pytest.mark.live
VALUE = Secret(b"canary-kept\0\xff")
ENOUGH_S = 30.0


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SessionKeyring]:
    with SessionKeyring(tmp_path / "k") as made:
        yield made


@pytest.fixture
def keychain(session: SessionKeyring) -> Iterator[Keychain]:
    made = Keychain(command(), session.environ)
    yield made
    made.close()


def fault_of(keychain: Keychain) -> tuple[KeychainFault, str]:
    """How a call fails, and in which words."""
    with pytest.raises(KeychainError) as told:
        keychain.put("item", VALUE)
    assert "canary" not in str(told.value)
    return told.value.fault, str(told.value)


def test_what_is_put_is_kept_over_a_restart_of_everything(session: SessionKeyring, keychain: Keychain) -> None:
    assert keychain.look() is None
    assert keychain.get("item") is None
    keychain.put("item", Secret(b"older"))
    keychain.put("item", VALUE)
    keychain.close()
    session.end()
    session.start()
    again = Keychain(command(), session.environ)
    assert VALUE == again.get("item")
    again.remove("item")
    again.remove("item")
    assert again.get("item") is None
    again.close()


def test_a_locked_collection_is_told_at_once_and_nothing_prompts(session: SessionKeyring, keychain: Keychain) -> None:
    keychain.put("item", VALUE)
    session.lock()

    assert KeychainFault.LOCKED == fault_of(keychain)[0], "and not silent: it was told within the time of a call"
    assert KeychainFault.LOCKED == keychain.look()


def test_without_a_bus_or_a_service_it_is_absent(session: SessionKeyring, tmp_path: Path) -> None:
    nowhere = {**session.environ, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/none"}
    for environ in ({}, nowhere):
        alone = Keychain(command(), environ)
        assert KeychainFault.ABSENT == fault_of(alone)[0]
        alone.close()


def test_a_bus_that_died_is_absent_and_one_that_came_back_is_used(session: SessionKeyring, keychain: Keychain) -> None:
    keychain.put("item", VALUE)
    session.end_bus()
    assert KeychainFault.ABSENT == fault_of(keychain)[0], "and not silent: it was told within the time of a call"
    session.end()


def test_a_hung_service_costs_five_seconds_once_and_is_left_alone_after_that(session: SessionKeyring) -> None:
    clock = StillClock()
    keychain = Keychain(command(), session.environ, monotonic_s=lambda: time.monotonic() + clock.now_s)
    keychain.put("item", VALUE)
    session.hang()
    assert (KeychainFault.SILENT, "the keyring is silent: no answer within 5 s") == fault_of(keychain)
    assert (
        KeychainFault.SILENT,
        "the keyring is silent: it gave no answer before, and is not asked again yet",
    ) == fault_of(keychain)
    session.go_on()
    clock.now_s += 301.0
    assert VALUE == keychain.get("item")
    keychain.close()


def test_a_child_that_was_killed_is_started_once_more(keychain: Keychain) -> None:
    keychain.put("item", VALUE)
    assert keychain._child is not None
    keychain._child.process.kill()
    assert VALUE == keychain.get("item")


def test_closing_ends_a_call_that_hangs(session: SessionKeyring) -> None:
    keychain = Keychain(command(), session.environ, call_s=100 * ENOUGH_S)
    keychain.put("item", VALUE)
    session.hang()
    told: list[KeychainFault] = []
    caller = threading.Thread(target=lambda: told.append(fault_of(keychain)[0]), daemon=True)
    caller.start()
    until(keychain._turn.locked)
    keychain.close()
    caller.join(ENOUGH_S)
    assert [KeychainFault.SILENT] == told, "long before its own time was over"
    assert keychain._child is None


CHILDREN = {
    "garbage": "print('no json', flush=True); input(); input()",
    "endless": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "gone": "",
    "other": 'print(\'{"fault": "new word", "why": "w"}\', flush=True); input(); input()',
}


@pytest.mark.parametrize("kind", CHILDREN)
def test_a_child_that_answers_nonsense_is_a_fault_like_any_other(kind: str) -> None:
    keychain = Keychain([sys.executable, "-I", "-c", CHILDREN[kind]], {}, call_s=2.0)
    fault, _ = fault_of(keychain)
    keychain.close()

    assert (KeychainFault.REFUSED if kind == "other" else KeychainFault.SILENT) == fault


FORGETS = """
import sys
for line in sys.stdin:
    print('{"value": %s}' % sys.argv[1] if '"get"' in line else '{"value": null}', flush=True)
"""


@pytest.mark.parametrize("given_back", ["null", '"b2xkZXI="', '"not base64"', '"QUJ\\u00e9"'])
def test_what_comes_back_changed_is_refused(given_back: str) -> None:
    keychain = Keychain([sys.executable, "-I", "-c", FORGETS, given_back], {})
    assert KeychainFault.REFUSED == fault_of(keychain)[0]
    keychain.close()


LOOK = """
import json, os, sys
for line in sys.stdin:
    found = {"env": dict(os.environ), "fds": sorted(map(int, os.listdir("/proc/self/fd"))), "cwd": os.getcwd()}
    print(json.dumps({"fault": "refused", "why": json.dumps(found)}), flush=True)
"""


def test_the_child_sees_the_way_to_the_bus_and_inherits_nothing() -> None:
    """T27."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)  # noqa: FBT003 - its own signature
    wanted = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/none", "XDG_RUNTIME_DIR": "/none"}
    noise = {"GITHUB_TOKEN": "canary-1", "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "HOME": "/root"}
    keychain = Keychain([sys.executable, "-I", "-c", LOOK], {**wanted, **noise})
    with pytest.raises(KeychainError) as told:
        keychain.get("item")
    keychain.close()
    os.close(reading)
    os.close(writing)
    found: dict[str, Any] = json.loads(str(told.value).partition(": ")[2])
    found["env"].pop("LC_CTYPE", None)  # the interpreter's own

    assert {"env": wanted, "cwd": "/"} == {name: found[name] for name in ("env", "cwd")}
    assert [0, 1, 2] == [number for number in found["fds"] if number < 3]
    assert len(found["fds"]) == 4  # and the directory that it lists


def test_the_bus_of_the_login_is_found_without_its_variable(session: SessionKeyring, tmp_path: Path) -> None:
    runtime = tmp_path / "k" / "r"
    address = session.environ["DBUS_SESSION_BUS_ADDRESS"].partition(",")[0]
    assert {"XDG_RUNTIME_DIR": str(runtime)} == environment({"XDG_RUNTIME_DIR": str(runtime)})
    (runtime / "bus").symlink_to(address.removeprefix("unix:path="))
    found = environment({"XDG_RUNTIME_DIR": str(runtime)})
    keychain = Keychain(command(), found)

    assert f"unix:path={runtime}/bus" == found["DBUS_SESSION_BUS_ADDRESS"]
    assert keychain.look() is None
    keychain.close()


def test_no_other_backend_is_ever_used() -> None:
    kinds: tuple[Callable[[], Any], ...] = (FailKeyring, NullKeyring, ChainerBackend)
    for kind in kinds:
        with pytest.raises(ValueError, match="no keyring that is used here"):
            keychain_backend.refuse_untrusted(kind())
    trusted = SecretServiceKeyring()  # type: ignore[no-untyped-call]  # its base class has an untyped __init__
    assert trusted is keychain_backend.refuse_untrusted(trusted)


def test_requests_that_make_no_sense_get_an_answer(session: SessionKeyring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", session.environ["DBUS_SESSION_BUS_ADDRESS"])
    answers = io.BytesIO()
    keychain_backend.serve(io.BytesIO(b'no json\n{"do":"dance"}\n{"do":"put","item":"x"}\n{"do":"look"}\n'), answers)
    told = [json.loads(line) for line in answers.getvalue().splitlines()]

    assert ["refused", "refused", "refused", None] == [answer.get("fault") for answer in told]
