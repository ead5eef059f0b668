"""The getUpdates loop: nothing is confirmed to the platform before it was taken.

The platform keeps every update (for a day) until a later call names a higher offset, so nothing about offsets is
stored: what was not confirmed comes again. https://core.telegram.org/bots/api#getupdates
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from delivery.platforms.telegram_answers import (
    Failure,
    Refusal,
    Unclear,
    Unreachable,
    is_login_refused,
    wait_of,
)
from delivery.platforms.telegram_places import Json
from delivery.ports import AccountDown
from delivery.retry import CONNECTS
from state.clock import Now, Sleep

KEPT_FOR = timedelta(hours=24)
"""How long the platform keeps updates that nobody fetched."""

CONFLICT = "another program polls this bot: stop it, or give it a bot of its own"

log = logging.getLogger(__name__)

Fetch = Callable[[int | None], Awaitable[object | Failure]]
"""Asks for updates from an offset on; None: for all that are not confirmed."""

Take = Callable[[Json], Awaitable[None]]
"""Returns once an update is durable. Raises if it could not be stored: then it is not confirmed, and taken again."""


class Poller:
    """Hears one bot. `trouble` says in a sentence why it does not at present, None if it does."""

    def __init__(
        self,
        *,
        account: str,
        fetch: Fetch,
        take: Take,
        drop_webhook: Callable[[], Awaitable[object]],
        now: Now,
        sleep: Sleep,
    ) -> None:
        self.trouble: str | None = None
        self._account = account
        self._fetch = fetch
        self._take = take
        self._drop_webhook = drop_webhook
        self._now = now
        self._sleep = sleep
        self._offset: int | None = None
        self._heard_at: datetime | None = None

    async def run(self) -> None:
        """Hear until cancelled. Raises AccountDown if the login is refused; from everything else it recovers."""
        failures = 0
        while True:
            got = await self._fetch(self._offset)
            if isinstance(got, Refusal | Unreachable | Unclear) or not isinstance(got, list):
                failures += 1
                await self._sleep(await self._after(got, failures))
                continue
            failures = 0
            self._is_heard()
            await self._take_all(got)

    async def _take_all(self, updates: list[object]) -> None:
        """Take a batch in order. After an empty one nothing is open, so the next call asks for all there is.

        (After an idle week the platform's numbers start somewhere else, maybe lower.)
        """
        if not updates:
            self._offset = None
        for update in updates:
            number = update.get("update_id") if isinstance(update, Mapping) else None
            if not isinstance(update, Mapping) or not isinstance(number, int):
                log.warning("An update without a number is skipped.", extra=self._facts("update_unreadable"))
                continue
            await self._take_one(update)
            self._offset = number + 1

    async def _take_one(self, update: Json) -> None:
        failures = 0
        while True:
            try:
                return await self._take(update)
            except Exception as error:  # noqa: BLE001 - around one inbound: what is not stored is not confirmed
                failures += 1
                log.error(
                    "A message could not be taken in; it is not confirmed and is taken again.",
                    extra=self._facts("inbound_not_stored", update=update["update_id"], reason=type(error).__name__),
                )
                await self._sleep(CONNECTS.wait(failures).total_seconds())

    async def _after(self, failure: object, failures: int) -> float:
        """See to what went wrong; return the seconds to wait."""
        wait = CONNECTS.wait(failures).total_seconds()
        match failure:
            case Refusal(status=429):
                self._is_in_trouble("polling_throttled", "Telegram wants to be left alone for a while")
                return wait_of(failure)
            case Refusal(status=409) if failure.says("webhook"):
                self._is_in_trouble("webhook_dropped", "a webhook was set for this bot; it is taken down")
                await self._drop_webhook()
            case Refusal(status=409):
                self._is_in_trouble("another_poller", CONFLICT)
            case Refusal() if is_login_refused(failure):
                raise AccountDown(login_refused(self._account, failure))
            case Refusal():
                self._is_in_trouble("polling_refused", f"Telegram refused it: {failure.description}")
            case Unreachable() | Unclear():
                self._is_in_trouble("polling_interrupted", failure.reason)
            case _:
                self._is_in_trouble("polling_interrupted", "the server's answer is no list of updates")
        return wait

    def _is_in_trouble(self, action: str, reason: str) -> None:
        if self.trouble != reason:
            log.warning("Telegram is not heard at present; sends go on.", extra=self._facts(action, reason=reason))
        self.trouble = reason

    def _is_heard(self) -> None:
        if self.trouble is not None:
            log.info("Telegram is heard again.", extra=self._facts("polling_resumed"))
        self.trouble = None
        at = self._now()
        if self._heard_at is not None and at - self._heard_at > KEPT_FOR:
            log.warning(
                "Telegram keeps messages for a day and was not heard for longer: older ones are lost.",
                extra=self._facts("updates_lost", since=self._heard_at.isoformat()),
            )
        self._heard_at = at

    def _facts(self, action: str, **more: object) -> dict[str, object]:
        return {"action": action, "account": self._account, **more}


def login_refused(account: str, refusal: Refusal) -> str:
    """Say that the token is wrong, and where a right one comes from."""
    return (
        f"Telegram refused the token of account {account} ({refusal.description}):"
        " take the bot's token from @BotFather into jobs.yaml"
    )
