"""So many at a time, first come first served."""

import asyncio
from collections import deque
from types import TracebackType


class Places:
    """Like a semaphore, but the number may change while it is in use: a jobs.yaml was read again."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def resize(self, count: int) -> None:
        """Allow so many from now on; whoever has a place keeps it."""
        self._count = count
        self._let_in()

    async def __aenter__(self) -> None:
        if self._taken < self._count and not self._waiting:
            self._taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            else:
                self._waiting.remove(turn)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._taken -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._taken < self._count:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
