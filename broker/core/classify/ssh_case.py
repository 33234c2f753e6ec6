"""One attempt over SSH as its judges look at it, and the verdicts that they share.

A read has no effect whatever happens. A write whose effect is not known to be none is never repeated on a judge's own
account: it is looked up where that can tell more, and else put before a human.
"""

from dataclasses import dataclass

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry
from broker.core.outcome import Verdict
from broker.core.ssh.frozen import Exec, FrozenSsh, Put
from broker.core.ssh.model import MarkerMode, SshOperation
from broker.core.ssh.outcome import MarkerState, SshOutcome

_MAY_BE_DONE = " It may have been done, in whole or in part."


@dataclass(frozen=True, slots=True, kw_only=True)
class SshCase:
    frozen: FrozenSsh
    seen: SshOutcome
    prior_doubt: bool

    @property
    def declared(self) -> SshOperation | None:
        return self.frozen.declared

    @property
    def is_write(self) -> bool:
        """Of a look-up it is the earlier action's."""
        return self.frozen.effect is not Effect.READ

    @property
    def has_marker(self) -> bool:
        """Whether the command was to leave a marker on the host."""
        action = self.frozen.action
        return isinstance(action, Exec) and action.marker is not MarkerMode.OFF

    @property
    def is_cut_out(self) -> bool:
        """Whether more of stdout was seen than is kept."""
        return self.seen.stdout_bytes > len(self.seen.stdout)

    @property
    def is_cut_err(self) -> bool:
        return self.seen.stderr_bytes > len(self.seen.stderr)

    @property
    def settle(self) -> Retry:
        """What may be done about a write of unknown effect."""
        action = self.frozen.action
        if isinstance(action, Exec):
            by_marker = self.has_marker and self.seen.marker is not MarkerState.NO_STORE
            can_tell = by_marker or (self.declared is not None and self.declared.reconcile_command is not None)
        else:
            can_tell = isinstance(action, Put)  # the file there is compared with what was sent
        return Retry.RECONCILE_FIRST if can_tell else Retry.AFTER_HUMAN

    @property
    def unless_read(self) -> RemoteEffect:
        return RemoteEffect.UNKNOWN if self.is_write else RemoteEffect.NONE

    def with_effect(self, message: str) -> str:
        return message + _MAY_BE_DONE if self.is_write else message


def unknown(case: SshCase, code: str, message: str, *, retry: Retry | None = None) -> Verdict:
    """It may have started, and nothing settles what became of it. A read may be asked again."""
    return Verdict(
        category=Category.OUTCOME_UNKNOWN,
        code=code,
        retry=retry or (case.settle if case.is_write else Retry.BOUNDED),
        remote_effect=case.unless_read,
        message=case.with_effect(message),
    )


def refused(category: Category, code: str, message: str, *, retry: Retry = Retry.NEVER) -> Verdict:
    """Nothing was done, and that is known."""
    return Verdict(category=category, code=code, retry=retry, remote_effect=RemoteEffect.NONE, message=message)


def done(case: SshCase, message: str, *, code: str = "ok") -> Verdict:
    return Verdict(
        category=Category.SUCCESS,
        code=code,
        retry=Retry.NEVER,
        remote_effect=RemoteEffect.APPLIED if case.is_write else RemoteEffect.NONE,
        message=message,
    )
