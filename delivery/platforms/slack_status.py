"""Showing in a thread that an answer is being written."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from delivery.model import Address
from delivery.platforms.slack_calls import Answered, Calls, sentence
from state.clock import Sleep

log = logging.getLogger(__name__)

STATUS = "is thinking..."
RENEWED_EVERY = 90.0
"""Seconds; Slack lets a status lapse after two minutes."""


@asynccontextmanager
async def thinking(calls: Calls, address: Address, sleep: Sleep) -> AsyncIterator[None]:
    """Show the status of a thread while the context is open; at top level there is none. The answer clears it.

    https://docs.slack.dev/reference/methods/assistant.threads.setStatus
    """
    if address.root is None:
        yield
        return
    task = asyncio.create_task(_show(calls, address.chat, address.root, sleep))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def _show(calls: Calls, chat: str, root: str, sleep: Sleep) -> None:
    while True:
        result = await calls.call(
            "assistant.threads.setStatus", {"channel_id": chat, "thread_ts": root, "status": STATUS}
        )
        if not isinstance(result, Answered):
            log.debug(
                "A status could not be shown.",
                extra={"action": "status_failed", "chat": chat, "reason": sentence(result)},
            )
            return
        await sleep(RENEWED_EVERY)
