"""An event loop whose time stands still until it is moved, so that a day passes in no time and in one order."""

import asyncio

from typing_extensions import override

from tests.fakes.clock import SetClock

TURNS = 60  # more than anything between two waits takes


class SetLoop(asyncio.SelectorEventLoop):
    """Its time is the clock's."""

    def __init__(self, clock: SetClock) -> None:
        self._clock = clock
        super().__init__()

    @override
    def time(self) -> float:
        return self._clock.monotonic_s()

    def turn(self) -> None:
        """Let everything happen that can happen now."""

        async def several() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.run_until_complete(several())

    def advance(self, *, seconds: int) -> None:
        """Let time pass, and all that was waiting for it happen."""
        self._clock.advance(seconds=seconds)
        self.turn()
