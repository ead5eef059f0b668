"""Have an agent compose within the job's time limit, and end it for certain when that is over."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from cron.agents.ports import Agent, BriefRequest, Composed, ComposeFailed, Started
from cron.model import AgentSpec

log = logging.getLogger(__name__)

ABANDON_AFTER = 15.0  # seconds that an agent has to end after it was told to; a process is killed before that


class Asker:
    """Asks agents. Those that do not end are kept in sight until they do."""

    def __init__(self, agent: Callable[[AgentSpec], Agent]) -> None:
        self._agent = agent
        self._abandoned: set[asyncio.Task[Composed]] = set()

    async def ask(self, request: BriefRequest, started: Started) -> Composed:
        """Have the agent compose within the job's timeout. Raises ComposeFailed.

        A try is repeated only when this one is known to have ended: an agent that does not end is abandoned, and
        what it writes later is dropped.
        """
        job = request.job
        composing = asyncio.ensure_future(self._agent(job.writer).compose(request, started))
        try:
            done, _ = await asyncio.wait([composing], timeout=job.timeout.total_seconds())
        except asyncio.CancelledError:
            await self._end(composing, request)
            raise
        if done:
            return composing.result()
        reason = f"It took longer than its timeout of {spoken(job.timeout)} and was ended."
        if await self._end(composing, request):
            raise ComposeFailed(reason, is_transient=True)
        raise ComposeFailed(
            f"It took longer than its timeout of {spoken(job.timeout)} and could not be ended; whether it did its "
            "work is not known.",
            is_transient=False,
            is_known=False,
        )

    async def _end(self, composing: asyncio.Task[Composed], request: BriefRequest) -> bool:
        """Tell an agent to end; True if it did."""
        composing.cancel()
        done, _ = await asyncio.wait([composing], timeout=ABANDON_AFTER)
        if done:
            _ = composing.cancelled() or composing.exception()  # seen, whatever it was: it came too late
            return True
        log.error(
            "An agent did not end; it is abandoned, and what it writes is dropped.",
            extra={"action": "agent_abandoned", "job": request.job.name, "run": request.run_id},
        )
        self._abandoned.add(composing)
        composing.add_done_callback(partial(self._came_late, request.run_id))
        return False

    def _came_late(self, run_id: str, composing: asyncio.Task[Composed]) -> None:
        self._abandoned.discard(composing)
        _ = composing.cancelled() or composing.exception()
        log.warning("An abandoned agent ended.", extra={"action": "abandoned_agent_ended", "run": run_id})


def spoken(length: timedelta) -> str:
    """Write a length as people do: 10m, 90s."""
    seconds = length.total_seconds()
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.3g}s" if seconds < 60 else f"{seconds:.0f}s"
