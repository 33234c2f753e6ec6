"""The evidence of one attempt: how far it got, when, and what was seen. Phases only go forward.

`restart` begins anew on another connection; it is allowed only while nothing can have started.
"""

import asyncio
from dataclasses import replace

from broker.core.ssh.frozen import SshDeadlines
from broker.core.ssh.outcome import HostKeySeen, SshFault, SshOutcome, SshPhase
from broker.executors.ssh.faults import SshExecutorError, StoppedError

_ORDER = {phase: position for position, phase in enumerate(SshPhase)}
_MAY_HAVE_STARTED = _ORDER[SshPhase.CHANNEL_OPEN]


class Attempt:
    """One permit's way to the host. Times are of the event loop's clock."""

    def __init__(self, deadlines: SshDeadlines) -> None:
        self.deadlines = deadlines
        self.phase = SshPhase.BUILT
        self.host_key: HostKeySeen | None = None
        self._clock = asyncio.get_running_loop().time
        self._started_s = self._clock()
        self._marks: dict[str, int] = {}

    @property
    def total_at_s(self) -> float:
        return self._started_s + self.deadlines.total_s

    @property
    def may_have_started(self) -> bool:
        return _ORDER[self.phase] >= _MAY_HAVE_STARTED

    def reach(self, phase: SshPhase) -> None:
        if _ORDER[phase] > _ORDER[self.phase]:
            self.phase = phase
            self._marks[phase.value] = self.elapsed_ms()

    def restart(self) -> None:
        """Raises SshExecutorError where something may have started."""
        if self.may_have_started:
            raise SshExecutorError("an attempt that may have started something is not begun again")
        self.phase = SshPhase.BUILT

    def aside(self) -> "Attempt":
        """For something done before the action itself: the same time counts, the phases are its own."""
        other = Attempt(replace(self.deadlines, idle_s=self.deadlines.exec_s))
        other._started_s = self._started_s
        return other

    def take_over(self, host_key: HostKeySeen | None) -> None:
        """A connection that is logged in already, with the key that its host had shown."""
        self.host_key = host_key
        self.reach(SshPhase.LOGGED_IN)

    def by(self, seconds: float) -> float:
        """When a phase that begins now has to be over: after that time, or with the total."""
        return min(self._clock() + seconds, self.total_at_s)

    def timed_out(self, fault: SshFault) -> StoppedError:
        """The end by a phase's deadline, or by the total one."""
        return StoppedError(SshFault.TOTAL_TIMEOUT if self._clock() >= self.total_at_s else fault)

    def elapsed_ms(self) -> int:
        return round((self._clock() - self._started_s) * 1000)

    def outcome(self, seen: SshOutcome | None = None) -> SshOutcome:
        """What was seen, with how far it got and how long it took."""
        return replace(
            seen or SshOutcome(phase=self.phase),
            phase=self.phase,
            host_key=self.host_key,
            elapsed_ms=self.elapsed_ms(),
            phase_ms=dict(self._marks),
        )

    def ended(self, end: StoppedError) -> SshOutcome:
        return self.outcome(SshOutcome(phase=self.phase, fault=end.fault, said=end.said))
