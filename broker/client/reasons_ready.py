"""The reasons for a no that need no typing. Each tells the agent what to do next, and blames nobody."""

READY_REASONS = (
    "Wrong target: check which one is meant, then ask for it.",
    "Too wide: ask for fewer at a time.",
    "Not now: go on with other work and do not ask again today.",
)
READY_NAMES = ("wrong-target", "too-wide", "not-now")
REASON_LIMIT = 200
