"""Reading what people wrote while nobody listened."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from delivery.model import Address, ChatKind, Inbound
from delivery.platforms.slack_calls import CallFailed, CallResult, Calls, Json, Limited, Unclear, account_down, pages
from delivery.platforms.slack_time import is_ts, ts_of
from delivery.platforms.slack_waiting import Budget
from delivery.ports import Hear

log = logging.getLogger(__name__)

READS_PER_MINUTE = 40
"""Slack lets internal and Marketplace apps read 50 times a minute or more."""

PAGE = 200
MOST_MESSAGES = 5_000

ReadMessage = Callable[[Json, str, ChatKind], Awaitable[Inbound | None]]
"""Reads a message of a chat of that kind; None if it is nobody's word to us."""


class Readings:
    """Reads back for one account, within Slack's rate."""

    def __init__(self, calls: Calls, budget: Budget) -> None:
        self._calls = calls
        self._budget = budget

    async def catch_up(self, address: Address, since: datetime, read: ReadMessage, hear: Hear) -> None:
        """Hand over what was written at an address after `since`, oldest first. Raises AccountDown only.

        If Slack stops answering half-way (429 at the latest), what was read is handed over and the rest logged as
        missed; other places are then left alone until Slack allows it again.
        """
        found, failure = await self._read(address, since)
        oldest = ts_of(since)
        written = [one for one in found if is_ts(one.get("ts")) and str(one["ts"]) > oldest]
        for message in sorted(written, key=lambda one: str(one["ts"])):
            if not await _hand_over(message, address, read, hear):
                break
        if failure is None:
            return
        log.warning(
            "What people wrote meanwhile could not be read to the end.",
            extra={"action": "catch_up_incomplete", **_facts(address), "reason": failure.reason},
        )
        down = account_down(failure.result)
        if down is not None:
            raise down

    async def _read(self, address: Address, since: datetime) -> tuple[list[Json], CallFailed | None]:
        where: dict[str, object] = {"channel": address.chat}
        method = "conversations.history"
        if address.root is not None:
            method, where = "conversations.replies", {**where, "ts": address.root}
        found: list[Json] = []
        try:
            async for page in pages(self, method, "messages", oldest=ts_of(since), limit=PAGE, **where):
                found += page
                if len(found) >= MOST_MESSAGES:
                    return found, CallFailed(Unclear(reason=f"there were more than {MOST_MESSAGES} messages"))
        except CallFailed as failed:
            return found, failed
        return found, None

    async def call(self, method: str, args: Mapping[str, object]) -> CallResult:
        """Call when it is within the rate; see `slack_calls.Calls`."""
        await self._budget.turn()
        if self._budget.is_refused:
            return Unclear(reason="Slack asked to be left alone for a while")
        result = await self._calls.call(method, args)
        if isinstance(result, Limited):
            self._budget.refuse_for(result.retry_after)
        return result


async def _hand_over(message: Json, address: Address, read: ReadMessage, hear: Hear) -> bool:
    try:
        inbound = await read(message, address.chat, address.chat_kind)
        if inbound is not None:
            await hear(inbound)
    except Exception as error:  # noqa: BLE001 - around one message: what cannot be stored is read again next time
        log.warning(
            "A message that was read back could not be stored; the next reading begins with it.",
            extra={"action": "catch_up_not_stored", **_facts(address), "reason": type(error).__name__},
        )
        return False
    return True


def _facts(address: Address) -> dict[str, object]:
    return {"account": address.account, "chat": address.chat}
