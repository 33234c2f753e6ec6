"""What the doctor says of how the vault is opened."""

import os
from pathlib import Path

import pytest

from broker.cli.doctor_finding import Finding, Level
from broker.cli.doctor_unlock import opening
from tests.fakes.pinentries import giving

BOTH = "passphrase+keyring"
DISPLAY = {"DISPLAY": ":0"}


def found(
    *methods: str, environ: dict[str, str] | None = None, program: str = "/nonexistent/pinentry"
) -> list[Finding]:
    return list(opening({"vault": {"methods": list(methods)}}, environ or {}, program=program))


@pytest.mark.parametrize(
    ("methods", "level", "words"),
    [
        (("passphrase",), Level.OK, "opened by passphrase"),
        ((BOTH,), Level.OK, "a vault whose keyring is lost is lost"),
        (("passphrase", BOTH), Level.WARNING, "guards no copy"),
    ],
)
def test_each_set_of_methods_is_told_by_its_weakest(methods: tuple[str, ...], level: Level, words: str) -> None:
    (finding,) = found(*methods)

    assert (level, True) == (finding.level, words in finding.message)


def test_a_keyring_that_is_enough_is_told_to_who_logs_in() -> None:
    (finding,) = found("keyring", "passphrase")

    told = finding.level is Level.WARNING and "any program of this session" in finding.message
    assert (os.geteuid() == 0 or os.geteuid() >= 1000) is told


def test_a_daemon_that_does_not_say_is_not_guessed_about() -> None:
    assert [] == found() == found("of another version") == list(opening({}, DISPLAY))


def test_a_display_wants_a_pinentry_that_is_to_be_trusted(tmp_path: Path) -> None:
    program = giving(tmp_path, "canary")
    assert ["unlock", "pinentry"] == [one.check for one in found("passphrase", environ=DISPLAY)]
    assert Level.WARNING is found("passphrase", environ=DISPLAY)[1].level
    assert Level.OK is found("passphrase", environ=DISPLAY, program=str(program))[1].level
    program.chmod(0o777)
    assert Level.WARNING is found("passphrase", environ=DISPLAY, program=str(program))[1].level
