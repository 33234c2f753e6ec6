"""The audit log: sealed, append-only, chained and signed; written also while the vault is locked, checked by anyone."""

from broker.audit.faults import AuditError

__all__ = ["AuditError"]
