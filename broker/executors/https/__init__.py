"""The HTTP executor: one attempt per permit, measured phase by phase."""

from broker.executors.https.client import HttpsExecutor, assert_fast_parser
from broker.executors.https.faults import ExecutorError

__all__ = ["ExecutorError", "HttpsExecutor", "assert_fast_parser"]
