"""What a policy file may spell and this version does not carry out. It is refused by name, and never ignored.

Whoever builds one of these takes its line out, and nothing else has to be changed to let it in.
"""

from broker.core.policy.keys import COMPLETENESS, OPERATION, RECONCILE, RULE

KEYS: dict[frozenset[str], frozenset[str]] = {
    RULE: frozenset({"hours"}),
    OPERATION: frozenset({"mcp"}),
    COMPLETENESS: frozenset({"over_ask"}),
    RECONCILE: frozenset({"decides"}),
}
WORDS: dict[str, frozenset[str]] = {  # by key, values of it
    "redirect.follow": frozenset({"same_host_get_only"}),
}
