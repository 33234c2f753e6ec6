"""Rules as rows: what each is about, in words."""

from broker.core.policy.hours import Moment
from broker.core.policy.listing import about, rule_rows
from tests.fakes.policies import SHOP, policy_of

RULES = """
[[rules]]
id = "b"
approval = "deny"
destructive = true
hours = ["22:00-06:00"]
reason = "not by night"

[[rules]]
id = "a"
approval = "session"
agents = ["unidentified", "claude-*"]
services = ["shop"]
operations = ["orders.*"]
effects = ["read", "write"]
methods = ["GET"]
paths = ["/a/**"]
hosts = ["api.*"]
users = ["root"]
destructive = false

[[rules]]
id = "c"
approval = "per_call"
"""


def test_every_rule_has_a_row_whether_it_speaks_or_rests() -> None:
    rows = rule_rows(policy_of(SHOP, RULES).at(Moment(weekday=0, minute=720)))

    assert [
        ("a", "session", True, "p1.toml:10"),
        ("b", "deny", False, "p1.toml:3"),
        ("c", "per_call", True, "p1.toml:23"),
    ] == [(row["id"], row["approval"], row["active"], row["place"]) for row in rows if isinstance(row, dict)]


def test_what_a_rule_is_about_is_told_in_words() -> None:
    told = {rule.id: about(rule) for rule in policy_of(SHOP, RULES).rules}

    assert (
        "unidentified, claude-* · shop · orders.* · read, write · not destructive · GET · /a/** · api.* · as root"
        == told["a"]
    )
    assert ("destructive · 22:00-06:00", "anything") == (told["b"], told["c"])
