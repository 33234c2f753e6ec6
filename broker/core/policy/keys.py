"""Every key that a policy file may hold, table by table, and those that are known and not in force in this version.

Loader, JSON Schema and documentation are held to these sets by tests. A key that stands in neither is refused as
unknown, one of `UNSUPPORTED` with a sentence of its own: nothing in a policy is ever ignored.
"""

FILE = frozenset({"version", "rules", "agents", "limits", "services"})

RULE = frozenset(
    {
        "id", "approval", "reason", "agents", "services", "operations", "effects", "destructive", "methods", "paths",
        "hosts", "users", "commands", "shell", "max_uses", "max_age_s", "per", "expires_s", "arming_s", "in_doubt",
    }
)  # fmt: skip
AGENT = frozenset({"exe", "argv", "sha256"})
LIMITS = frozenset(
    {
        "prompts_per_minute", "pending_cards", "requests_per_minute", "max_uses", "max_age_s", "body_bytes",
        "denial_memory_s",
    }
)  # fmt: skip
SERVICE = frozenset({"kind", "base_url", "credential", "headers", "ad_hoc", "tls", "defaults", "operations"})
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
    "reconcile_command", "pipeline", "detach", "never_provable",
}  # fmt: skip
EXIT_RULE = frozenset({"when", "category", "code", "retry", "remote_effect", "delay_s", "incomplete", "examples"})
SSH_EXAMPLE = frozenset({"exit_code", "stdout", "stderr"})
ANY_SERVICE = SERVICE | SSH_SERVICE
TLS = frozenset({"ca", "pin"})
SHARED = frozenset(
    {"success", "response", "identity", "errors", "rate_limit", "idempotency", "completeness", "limits"}
)  # may stand in [services.X.defaults] as well
OPERATION = SHARED | {"request", "effect", "destructive", "title", "targets", "change_key", "reconcile"}
REQUEST = frozenset({"method", "path", "query", "body", "required"})
SUCCESS = frozenset({"statuses", "when", "examples"})
RESPONSE = frozenset({"media", "headers"})
IDENTITY = frozenset({"path", "type"})
ERROR = frozenset({"when", "category", "code", "retry", "remote_effect", "use", "floor_s", "warn", "examples"})
RATE_LIMIT = frozenset({"when", "delay", "default_s", "floor_s", "max_wait_s", "examples"})
DELAY = frozenset({"from", "kind"})
IDEMPOTENCY = frozenset({"kind"})
COMPLETENESS = frozenset({"complete_when", "examples"})
OPERATION_LIMITS = frozenset({"max_bytes"})
RECONCILE = frozenset({"operation", "args", "match", "not_before_s"})
EXAMPLES = frozenset({"match", "no_match"})
EXAMPLE = frozenset({"status", "headers", "json", "text"})

UNSUPPORTED: dict[frozenset[str], frozenset[str]] = {
    RULE: frozenset({"evidence", "precheck", "hours"}),
    SHARED: frozenset({"auth", "redirect", "gateway", "async", "batch", "pagination", "scope", "warnings", "mcp"}),
    OPERATION: frozenset(
        {
            "auth", "redirect", "gateway", "async", "batch", "pagination", "scope", "warnings", "mcp",
        }
    ),
    RESPONSE: frozenset({"schema", "body", "end_marker", "lenient_media"}),
    IDENTITY: frozenset({"must_equal", "fallback"}),
    ERROR: frozenset({"reasons", "human_remedy", "complete"}),
    RATE_LIMIT: frozenset({"pace_from"}),
    IDEMPOTENCY: frozenset({"key", "absent_is_success"}),
    COMPLETENESS: frozenset(
        {"incomplete_when", "total", "cap", "full_page_means_cut", "visibility", "consistency", "never_provable"}
    ),
    OPERATION_LIMITS: frozenset({"max_pages", "deadlines"}),
    RECONCILE: frozenset({"decides"}),
}  # fmt: skip
