"""Notice that the machine slept, or that somebody set the clock: the wall clock against the monotonic one."""

from datetime import datetime, timedelta

from state.clock import Monotonic, Now

JUMP = timedelta(seconds=2)  # less than that is how clocks are kept in step


class ClockWatch:
    """Compares the two clocks each time that it is asked to look."""

    def __init__(self, now: Now, monotonic: Monotonic) -> None:
        self._now = now
        self._monotonic = monotonic
        self._wall = now()
        self._steady = monotonic()

    def look(self) -> timedelta:
        """Return by how much the wall clock jumped since the last look; zero if it did not."""
        wall, steady = self._now(), self._monotonic()
        jumped = (wall - self._wall) - timedelta(seconds=steady - self._steady)
        self._wall, self._steady = wall, steady
        return jumped if abs(jumped) > JUMP else timedelta(0)

    @property
    def seen_at(self) -> datetime:
        """What the wall clock said at the last look."""
        return self._wall
