"""Patterns over commands: word by word, and options where a rule lets nobody see them."""

import pytest

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.policy.match import Facts, command_of, first_mismatch
from broker.core.policy.model import Rule
from broker.core.policy.place import Place
from broker.core.ssh.commands import command_fits


@pytest.mark.parametrize(
    ("pattern", "command", "any_word", "no_option"),
    [
        ("systemctl restart *", "systemctl restart nginx", True, True),
        ("systemctl restart *", "systemctl restart --force", True, False),
        ("systemctl restart *", "systemctl restart", False, False),
        ("systemctl restart *", "systemctl restart a b", False, False),
        ("systemctl --force *", "systemctl --force nginx", True, True),
        ("systemctl restart *", "systemctl restart '-x'", True, False),
        ("systemctl restart *", "systemctl restart -", True, False),
        ("systemctl restart *", "systemctl restart --", True, False),
        ("df **", "df", True, True),
        ("df **", "df /srv /var", True, True),
        ("df **", "df /srv -h", True, False),
        ("df -h **", "df -h /srv", True, True),
        ("df **", "du /srv", False, False),
        ("df * **", "df /srv", True, True),
        ("df * **", "df", False, False),
        ("df * **", "df -a /srv", True, False),
        ("df", "df; id", False, False),
    ],
)
def test_a_star_is_an_option_only_where_that_is_meant(
    pattern: str,
    command: str,
    any_word: bool,  # noqa: FBT001 - verdicts
    no_option: bool,  # noqa: FBT001 - verdicts
) -> None:
    asked = command_of(command.encode())

    assert any_word == command_fits(pattern, asked, shell=False)
    assert no_option == command_fits(pattern, asked, shell=False, options=False)


@pytest.mark.parametrize(
    ("approval", "options", "matches"),
    [
        (ApprovalRule.NONE, False, False),
        (ApprovalRule.NONE, True, True),
        (ApprovalRule.SESSION, False, True),
        (ApprovalRule.PER_CALL, False, True),
        (ApprovalRule.DENY, False, True),
    ],
)
def test_what_restrains_and_what_is_shown_takes_options_and_what_nobody_sees_does_not(
    approval: ApprovalRule,
    options: bool,  # noqa: FBT001 - of the rule
    matches: bool,  # noqa: FBT001 - a verdict
) -> None:
    rule = Rule(id="r", approval=approval, commands=("rm *",), options=options, place=Place(file="p.toml", line=1))
    facts = Facts(
        agent="a", service="s", operation="exec", effect=Effect.EXEC, destructive=False, method="", host="h",
        segments=None, command=command_of(b"rm -rf"),
    )  # fmt: skip

    assert (None if matches else "commands") == first_mismatch(rule, facts)
