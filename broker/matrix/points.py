"""The fault points: where something breaks, and in which ways it can break there.

One table for the case format, the fault servers and the daemon under fault. A pair that is not in it is refused when
a case file is read.
"""

HTTP = {
    "before_connect": ("dns_failure", "refused"),
    "during_connect": ("timeout",),
    "during_tls": ("bad_certificate", "wrong_name", "expired"),
    "during_headers": ("reset", "close"),
    "during_request_body": ("reset", "close", "stall", "early_answer"),
    "after_request_sent": ("reset", "close", "silence"),
    "after_commit": ("reset", "close", "delay", "silence"),
    "during_status_line": ("close", "reset", "garbage"),
    "during_response_headers": ("close", "reset", "stall"),
    "during_response_body": ("reset", "close", "chunk_cut", "stall", "gzip_cut"),
    "on_reused_connection": ("close", "reset"),
}
SSH = {
    "dns": ("dns_failure",),
    "refused": ("refused",),
    "banner_timeout": ("silence",),
    "host_key_changed": ("changed",),
    "host_key_unknown": ("unknown",),
    "auth_failed": ("rejected",),
    "channel_refused": ("refused",),
    "after_command_started": ("transport_cut", "server_killed", "daemon_killed"),
    "killed_remotely": ("after_start_marker",),
    "exit_nonzero": ("exit",),
    "signal": ("signal",),
    "flood": ("flood",),
    "silence": ("silence",),
}
DAEMON = {
    "at_step": ("kill",),  # `step` says which, `side` whether before or after it
    "at_audit_write": ("disk_full", "fsync_error", "kill"),
    "clock": ("jump",),  # by `seconds`
}
STEPS = (
    "1_request", "2_vault", "3_policy", "3_decided", "4_ledger", "5_evidence", "6_gate", "6_card", "6_answer",
    "7_recheck", "8_ledger", "8_intent", "9_send", "9_outcome", "9_result", "9_ledger", "9_answer",
)  # fmt: skip
WRITES = (
    "action.requested", "policy.decided", "approval.requested", "approval.decided", "dispatch.started",
    "remote.answered", "transport.failed", "deadline.expired", "action.result",
)  # fmt: skip
CHANNELS = {"http": HTTP, "ssh": SSH, "daemon": DAEMON}


def channel_of(point: str) -> str | None:
    """Whose point it is; None for one that nobody knows."""
    return next((channel for channel, points in CHANNELS.items() if point in points), None)


def steps_of(point: str) -> tuple[str, ...]:
    """What `step` of a fault may name there; of a clock the write at which it jumps."""
    return STEPS if point == "at_step" else WRITES if point in DAEMON else ()


def kinds_of(point: str) -> tuple[str, ...]:
    """In which ways it can break there; the first is meant where a case names none."""
    channel = channel_of(point)
    return () if channel is None else CHANNELS[channel][point]
