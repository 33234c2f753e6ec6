"""Every key that a policy file may hold, table by table.

Loader, JSON Schema and documentation are held to these sets by tests. A key that is not in them is refused as unknown:
nothing in a policy is ever ignored.
"""

FILE = frozenset({"version", "rules", "agents", "limits", "services"})

RULE = frozenset(
    {
        "id", "approval", "reason", "agents", "services", "operations", "effects", "destructive", "methods", "paths",
        "hosts", "users", "commands", "shell", "input", "options", "max_uses", "max_age_s", "per", "expires_s",
        "arming_s", "in_doubt", "evidence", "precheck", "hours",
    }
)  # fmt: skip
AGENT = frozenset({"exe", "argv", "sha256"})
LIMITS = frozenset(
    {
        "prompts_per_minute", "pending_cards", "requests_per_minute", "max_uses", "max_age_s", "body_bytes",
        "denial_memory_s", "idle_lock_s",
    }
)  # fmt: skip
SERVICE = frozenset({"kind", "base_url", "credential", "headers", "ad_hoc", "probe", "tls", "defaults", "operations"})
SSH_SERVICE = frozenset(
    {
        "kind", "credential", "hosts", "user", "port", "host_keys", "known_hosts", "jump", "marker", "ad_hoc",
        "defaults", "operations",
    }
)  # fmt: skip
SSH_HOST = frozenset({"address", "port", "user", "host_keys", "known_hosts", "jump", "marker"})
SSH_SHARED = frozenset({"exit_map", "success_when", "marker", "max_bytes"})
SSH_OPERATION = SSH_SHARED | {
    "command", "effect", "hosts", "destructive", "title", "targets", "change_key", "expect_disconnect",
    "reconcile_command", "pipeline", "detach", "input", "never_provable",
}  # fmt: skip
EXIT_RULE = frozenset({"when", "category", "code", "retry", "remote_effect", "delay_s", "incomplete", "examples"})
SSH_EXAMPLE = frozenset({"exit_code", "stdout", "stderr"})
ANY_SERVICE = SERVICE | SSH_SERVICE
TLS = frozenset({"ca", "pin"})
SHARED = frozenset(
    {
        "success", "response", "identity", "errors", "rate_limit", "auth", "redirect", "gateway", "idempotency",
        "completeness", "pagination", "scope", "limits", "batch", "async", "warnings",
    }
)  # may stand in [services.X.defaults] as well  # fmt: skip
OPERATION = SHARED | {"request", "effect", "destructive", "title", "targets", "change_key", "reconcile", "mcp"}
REQUEST = frozenset({"method", "path", "query", "body", "required", "media", "fixed_query", "headers", "refused_words"})
SUCCESS = frozenset({"statuses", "when", "examples"})
RESPONSE = frozenset({"media", "headers", "schema", "body", "end_marker", "lenient_media"})
IDENTITY = frozenset({"path", "type", "must_equal", "fallback"})
ERROR = frozenset(
    {"when", "category", "code", "retry", "remote_effect", "use", "floor_s", "warn", "reasons", "examples"}
)
RATE_LIMIT = frozenset({"when", "delay", "default_s", "floor_s", "max_wait_s", "pace_from", "examples"})
DELAY = frozenset({"from", "kind", "parameter"})
AUTH = frozenset({"masked_statuses", "challenge", "login_redirect", "clock_codes", "clock_code", "human_remedy"})
REDIRECT = frozenset({"follow", "cross_host_credential"})
GATEWAY = frozenset({"reject_proof"})
WARNING = frozenset({"when", "code", "owner", "review_by", "examples"})
IDEMPOTENCY = frozenset(
    {
        "kind", "header", "param", "window_s", "replays_errors", "replay", "replay_ok_when", "replay_marker",
        "in_progress_when", "mismatch_when", "absent_is_success",
    }
)  # fmt: skip
PAGINATION = frozenset(
    {
        "kind", "token", "param", "end", "end_error_when", "expired_when", "restart", "stability", "size_param",
        "size", "counts", "first",
    }
)  # fmt: skip
PAGING_END = frozenset({"values", "absent"})
COMPLETENESS = frozenset(
    {
        "complete_when", "examples", "incomplete_when", "total", "estimated", "cap", "full_page_means_cut",
        "over_ask", "visibility", "consistency", "max_age_s", "never_provable", "items", "id",
    }
)  # fmt: skip
INCOMPLETE = frozenset({"when", "code", "retry", "examples"})
SCOPE = frozenset({"resource", "default_region", "snapshot", "defaults"})
OPERATION_LIMITS = frozenset({"max_pages", "max_items", "max_bytes", "deadlines"})
DEADLINES = frozenset({"connect_s", "write_s", "first_byte_s", "total_s"})
BATCH = frozenset(
    {
        "items", "item_ok", "item_retry", "item_delay", "failed_items", "resubmit_path", "request_count",
        "names_failures_only",
    }
)  # fmt: skip
ASYNC = frozenset({"poll", "done_when", "failed_when", "delay", "default_s"})
RECONCILE = frozenset({"operation", "args", "match", "not_before_s", "decides"})
DECIDES = frozenset({"one", "none", "many"})
MCP = frozenset({"expose", "name", "description"})
EVIDENCE = frozenset(
    {"from", "args", "claim", "covers", "id", "max_age_s", "refuse_warnings", "otherwise"}
)  # of a rule
PRECHECK = frozenset({"operation", "args", "expect"})
PROVEN = frozenset({"when", "examples"})  # a predicate and the examples that prove it
EXAMPLES = frozenset({"match", "no_match"})
EXAMPLE = frozenset({"status", "headers", "json", "text", "xml"})
