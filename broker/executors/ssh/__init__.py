"""The SSH executor: one attempt per permit on connections of its own, measured event by event."""

from broker.executors.ssh.client import SshExecutor
from broker.executors.ssh.faults import SshExecutorError

__all__ = ["SshExecutor", "SshExecutorError"]
