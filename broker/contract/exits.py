"""Exit codes of the command line by category. Plain data, so that the thin client can read it without cost."""

EXIT_CODES = {
    "success": 0,
    "partial": 3,
    "local_failure": 10,
    "authentication_failed": 11,
    "authorization_denied": 12,
    "confirmed_failure": 13,
    "rate_limited": 14,
    "malformed_response": 15,
    "outcome_unknown": 16,
    "command_failed": 17,
    "policy_denied": 20,
    "session_denied": 21,
    "call_denied": 22,
    "approval_timeout": 23,
    "approval_pending": 24,
    "evidence_required": 25,
    "reconcile_required": 26,
    "vault_locked": 30,
    "broker_unavailable": 31,
    "invalid_request": 64,
}
FAULTS_FOUND = 1  # the command itself failed, or checked and found faults, or a wrong passphrase
USAGE = 64
