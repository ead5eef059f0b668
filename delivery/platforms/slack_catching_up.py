"""Reading what people wrote while nobody listened."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeGuard

from delivery.model import Address, ChatKind, Inbound
from delivery.platforms.slack_calls import (
    DOUBTFUL,
    LATER,
    CallFailed,
    CallResult,
    Calls,
    Json,
    Limited,
    Refused,
    Unclear,
    Unreached,
    account_down,
    pages,
    sentence,
)
from delivery.platforms.slack_time import is_ts, ts_of
from delivery.platforms.slack_waiting import Budget
from delivery.ports import Hear
from state.clock import Monotonic, Sleep

log = logging.getLogger(__name__)

READS_PER_MINUTE = 40
"""Slack lets internal and Marketplace apps read 50 times a minute or more."""

PAGE = 200
MOST_MESSAGES = 5_000
PATIENCE = 3_600.0
"""How many seconds a place may take. An app that may read once a minute gets through 60 pages."""

TROUBLE_WAITS = (5.0, 30.0, 120.0)
"""Seconds before a call that did not work, for a reason that passes, is made again."""

EDITS_BACK = timedelta(days=1)
"""How far before the gap a message may lie whose edit is still noticed."""

ReadMessage = Callable[[Json, str, ChatKind, bool], Awaitable[Inbound | None]]
"""Reads a message of a chat of that kind, as an edit or not; None if it is nobody's word to us."""


class Readings:
    """Reads back for one account, within Slack's rate."""

    def __init__(self, calls: Calls, *, monotonic: Monotonic, sleep: Sleep) -> None:
        self._calls = calls
        self._budget = Budget(READS_PER_MINUTE, monotonic, sleep)
        self._monotonic = monotonic
        self._sleep = sleep

    async def catch_up(self, address: Address, since: datetime, read: ReadMessage, hear: Hear) -> None:
        """Hand over what was written or edited at an address after `since`, oldest first. Raises AccountDown only.

        As long as Slack asks to wait, it waits, an hour at most. If reading then still does not come to its end,
        what was read is handed over and the rest logged as missed.
        """
        found, failure = await self._read(address, since)
        oldest = ts_of(since)
        for message in sorted(found, key=lambda one: str(one["ts"])):
            is_edit = _edited(message) > oldest
            if (is_edit or str(message["ts"]) > oldest) and not await _hand_over(message, address, is_edit, read, hear):
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
        calls = _Patient(self._calls, self._budget, address, monotonic=self._monotonic, sleep=self._sleep)
        found: list[Json] = []
        oldest = ts_of(since)
        try:
            async for page in pages(calls, method, "messages", oldest=ts_of(since - EDITS_BACK), limit=PAGE, **where):
                found += [one for one in page if is_ts(one.get("ts"))]
                if len(found) >= MOST_MESSAGES:
                    return found, CallFailed(Unclear(reason=f"there were more than {MOST_MESSAGES} messages"))
                # newest first; for edits alone no further page is asked for (threads come oldest first)
                if address.root is None and any(str(one["ts"]) <= oldest for one in found):
                    break
        except CallFailed as failed:
            return found, failed
        return found, None


class _Patient:
    """The calls for one place; see `slack_calls.Calls`. Waits as long as Slack asks, and while trouble may pass."""

    def __init__(self, calls: Calls, budget: Budget, address: Address, *, monotonic: Monotonic, sleep: Sleep) -> None:
        self._calls = calls
        self._budget = budget
        self._address = address
        self._sleep = sleep
        self._until = monotonic() + PATIENCE

    async def call(self, method: str, args: Mapping[str, object]) -> CallResult:
        troubles = iter(TROUBLE_WAITS)
        while True:
            missing = await self._budget.turn(self._until)
            if missing > 0:
                return Limited(retry_after=missing)
            result = await self._calls.call(method, args)
            if isinstance(result, Limited):
                self._budget.refuse_for(result.retry_after)
                self._tell(result, result.retry_after)
            elif _may_pass(result) and (wait := next(troubles, None)) is not None:
                self._tell(result, wait)
                await self._sleep(wait)
            else:
                return result

    def _tell(self, result: Refused | Limited | Unreached | Unclear, seconds: float) -> None:
        log.info(
            "Reading what people wrote meanwhile has to wait.",
            extra={"action": "catch_up_waits", **_facts(self._address), "reason": sentence(result), "seconds": seconds},
        )


def _may_pass(result: CallResult) -> TypeGuard[Refused | Unreached | Unclear]:
    return isinstance(result, Unreached | Unclear) or (isinstance(result, Refused) and result.code in DOUBTFUL | LATER)


def _edited(message: Json) -> str:
    """Return when a person last changed a message, as a timestamp; empty if nobody did."""
    edited = message.get("edited")
    ts = edited.get("ts") if isinstance(edited, Mapping) else None
    return str(ts) if is_ts(ts) else ""


async def _hand_over(message: Json, address: Address, is_edit: bool, read: ReadMessage, hear: Hear) -> bool:
    try:
        inbound = await read(message, address.chat, address.chat_kind, is_edit)
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
