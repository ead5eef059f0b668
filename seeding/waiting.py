"""A bell that a loop sleeps by: rung, or woken every few moments while something is under way."""

import asyncio

from state.clock import Sleep


class Bell:
    """Ring it from the event loop; rings while nobody waits are remembered as one."""

    def __init__(self, sleep: Sleep, *, every: float) -> None:
        """`every`: seconds after which a wait ends by itself, unless it is told to last."""
        self._sleep = sleep
        self._every = every
        self._rung = asyncio.Event()
        self.is_stopped = False

    def ring(self) -> None:
        """End the present wait, or the next one at once."""
        self._rung.set()

    def stop(self) -> None:
        """End all waits from now on."""
        self.is_stopped = True
        self._rung.set()

    async def wait(self, *, forever: bool) -> None:
        """Wait until the bell is rung, or (unless `forever`) until the time is over."""
        if forever:
            await self._rung.wait()
        else:
            ringing = asyncio.ensure_future(self._rung.wait())
            napping = asyncio.ensure_future(self._sleep(self._every))
            try:
                await asyncio.wait({ringing, napping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ringing.cancel()
                napping.cancel()
        if not self.is_stopped:
            self._rung.clear()
