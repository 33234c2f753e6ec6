"""The closed sets of the contract: categories, codes, retries, effects, gate states. Never renamed, never re-used.

Which codes belong to which category is data here (`CODES`), and tests hold it against the schemas.
"""

from enum import StrEnum


class Status(StrEnum):
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILURE = "failure"


class Category(StrEnum):
    SUCCESS = "success"
    PARTIAL = "partial"
    LOCAL_FAILURE = "local_failure"
    AUTHENTICATION_FAILED = "authentication_failed"
    AUTHORIZATION_DENIED = "authorization_denied"
    CONFIRMED_FAILURE = "confirmed_failure"
    COMMAND_FAILED = "command_failed"
    RATE_LIMITED = "rate_limited"
    MALFORMED_RESPONSE = "malformed_response"
    OUTCOME_UNKNOWN = "outcome_unknown"
    RECONCILE_REQUIRED = "reconcile_required"
    EVIDENCE_REQUIRED = "evidence_required"
    POLICY_DENIED = "policy_denied"
    VAULT_LOCKED = "vault_locked"
    SESSION_DENIED = "session_denied"
    CALL_DENIED = "call_denied"
    APPROVAL_TIMEOUT = "approval_timeout"
    APPROVAL_PENDING = "approval_pending"
    INVALID_REQUEST = "invalid_request"
    BROKER_UNAVAILABLE = "broker_unavailable"


class Retry(StrEnum):
    NEVER = "never"
    BOUNDED = "bounded"
    AFTER_DELAY = "after_delay"
    AFTER_HUMAN = "after_human"
    RECONCILE_FIRST = "reconcile_first"


class RemoteEffect(StrEnum):
    NONE = "none"
    APPLIED = "applied"
    UNKNOWN = "unknown"


class Effect(StrEnum):
    READ = "read"
    WRITE = "write"
    EXEC = "exec"


class NextAction(StrEnum):
    NONE = "none"
    RETRY = "retry"
    WAIT = "wait"
    RECONCILE = "reconcile"
    CONTINUE = "continue"
    COLLECT = "collect"
    ASK_HUMAN = "ask_human"
    FIX_REQUEST = "fix_request"


class GateState(StrEnum):
    NOT_NEEDED = "not_needed"
    GRANTED = "granted"
    PENDING = "pending"
    DENIED = "denied"
    EXPIRED = "expired"


class VaultState(StrEnum):
    LOCKED = "locked"
    UNLOCKING = "unlocking"
    READY = "ready"
    QUARANTINED = "quarantined"


class LockReason(StrEnum):
    """Why the vault was locked."""

    ASKED = "asked"  # by a human, or by whoever reaches the control socket
    IDLE = "idle"  # nobody did anything for as long as the limit says
    SCREEN_LOCKED = "screen_locked"
    SUSPEND = "suspend"
    STOP = "stop"  # the daemon ends


class ScrubState(StrEnum):
    NOT_NEEDED = "not_needed"
    DONE = "done"
    NOT_POSSIBLE = "not_possible"


class ApprovalRule(StrEnum):
    """What a rule asks for; later members are stricter."""

    NONE = "none"
    SESSION = "session"
    PER_CALL = "per_call"
    DENY = "deny"


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    VOID = "void"
    SUPERSEDED = "superseded"


class IncompleteCode(StrEnum):
    MORE_PAGES_AVAILABLE = "MORE_PAGES_AVAILABLE"
    RESULT_LIMIT_REACHED = "RESULT_LIMIT_REACHED"
    TIME_BUDGET_EXCEEDED = "TIME_BUDGET_EXCEEDED"
    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    VISIBILITY_RESTRICTED = "VISIBILITY_RESTRICTED"
    ITEM_FAILURES = "ITEM_FAILURES"
    OUTPUT_TRUNCATED = "OUTPUT_TRUNCATED"
    CURSOR_EXPIRED = "CURSOR_EXPIRED"
    SNAPSHOT_CHANGED = "SNAPSHOT_CHANGED"
    COMPLETENESS_UNVERIFIED = "COMPLETENESS_UNVERIFIED"
    IN_PROGRESS = "IN_PROGRESS"


class WarningCode(StrEnum):
    STALE_INDEX = "STALE_INDEX"
    PARTIAL_FIELD_SET = "PARTIAL_FIELD_SET"
    DEFAULT_SCOPE_APPLIED = "DEFAULT_SCOPE_APPLIED"
    NOT_FOUND_MAY_BE_HIDDEN = "NOT_FOUND_MAY_BE_HIDDEN"
    CLOCK_SKEW_SUSPECTED = "CLOCK_SKEW_SUSPECTED"
    UNTRUSTED_RETRY_AFTER = "UNTRUSTED_RETRY_AFTER"
    IDEMPOTENT_REPLAY = "IDEMPOTENT_REPLAY"
    IDEMPOTENCY_WINDOW_EXPIRED = "IDEMPOTENCY_WINDOW_EXPIRED"
    COUNT_ESTIMATED = "COUNT_ESTIMATED"
    COUNT_UNKNOWN = "COUNT_UNKNOWN"
    PARAMETER_IGNORED = "PARAMETER_IGNORED"
    NORMALIZED_BODY = "NORMALIZED_BODY"
    PROVIDER_NOTICE = "PROVIDER_NOTICE"
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"
    SCRUB_NOT_POSSIBLE = "SCRUB_NOT_POSSIBLE"


CODES: dict[Category, frozenset[str]] = {
    Category.SUCCESS: frozenset({"ok", "replayed", "reconciled"}),
    Category.PARTIAL: frozenset({"incomplete", "accepted", "item_failures"}),
    Category.LOCAL_FAILURE: frozenset(
        {
            "dns_failed", "address_refused", "connect_refused", "connect_timeout", "connect_failed", "tls_untrusted",
            "tls_name", "tls_expired", "tls_failed", "proxy_auth", "captive_portal", "clock_skew", "host_key_unknown",
            "host_key_changed", "host_key_revoked", "login_timeout", "channel_refused",
        }
    ),
    Category.AUTHENTICATION_FAILED: frozenset({"rejected", "expired", "revoked", "ssh_rejected"}),
    Category.AUTHORIZATION_DENIED: frozenset({"forbidden", "scope", "sso_required", "masked"}),
    Category.CONFIRMED_FAILURE: frozenset(
        {
            "client_error", "not_found", "conflict", "precondition", "remote_error", "redirect_not_followed",
            "declared",
        }
    ),
    Category.COMMAND_FAILED: frozenset({"exit_status", "exit_signal"}),
    Category.RATE_LIMITED: frozenset({"too_many", "quota"}),
    Category.MALFORMED_RESPONSE: frozenset(
        {
            "framing", "truncated", "decoding", "schema", "identity", "media_type", "empty", "too_large",
            "marker_missing",
        }
    ),
    Category.OUTCOME_UNKNOWN: frozenset(
        {
            "write_timeout", "first_byte_timeout", "total_timeout", "connection_lost", "server_error",
            "in_progress_conflict", "channel_lost", "still_running", "unrecorded",
        }
    ),
    Category.RECONCILE_REQUIRED: frozenset({"in_doubt"}),
    Category.EVIDENCE_REQUIRED: frozenset(
        {
            "none_recorded", "incomplete", "stale", "other_arguments", "target_not_covered", "target_present",
            "refused_warning", "target_changed",
        }
    ),
    Category.POLICY_DENIED: frozenset({"no_rule", "rule_denied"}),
    Category.VAULT_LOCKED: frozenset({"locked", "unlocking", "quarantined"}),
    Category.SESSION_DENIED: frozenset({"declined", "session_ended", "muted"}),
    Category.CALL_DENIED: frozenset({"declined", "denied_recently"}),
    Category.APPROVAL_TIMEOUT: frozenset(
        {"approval_expired", "no_approver", "approval_void", "withdrawn", "superseded"}
    ),
    Category.APPROVAL_PENDING: frozenset({"waiting"}),
    Category.INVALID_REQUEST: frozenset(
        {
            "unreadable", "schema", "unknown_service", "unknown_operation", "unknown_correlation_id",
            "request_id_conflict", "reserved_header", "bad_url", "body_too_large",
        }
    ),
    Category.BROKER_UNAVAILABLE: frozenset(
        {
            "not_running", "overloaded", "local_limit", "frozen", "shutting_down", "audit_unwritable", "disk_low",
            "internal",
        }
    ),
}  # fmt: skip
