"""A SlackPlatform on the Slack test server, as tests of the platform drive it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from servers.slack import SlackServer

from delivery.model import Address, ChatKind, DeliveryId, Inbound, OutgoingPart, PartKind
from delivery.platforms.slack import SlackPlatform
from delivery.targets import Target, parse_target
from delivery.testing import ManualClock

OPS = Address(account="slack", workspace="T0TEAM", chat="C0OPS", chat_kind=ChatKind.CHANNEL)


def target(text: str) -> Target:
    """Read a target text of the account `slack`."""
    return parse_target(f"slack:{text}", {"slack": "slack"})


class Rig:
    """The server, the platform, and what was heard. `clock` stands still until moved."""

    def __init__(self, server: SlackServer, clock: ManualClock, **settings: Any) -> None:
        self.server = server
        self.clock = clock
        self.heard: list[Inbound] = []
        self.gaps: list[str] = []
        self.moves: list[tuple[str, str, str]] = []
        self.refuses: Callable[[Inbound], bool] = lambda _: False
        self._changed = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._numbers = 0
        login = {
            "account": "slack",
            "bot_token": server.bot_token,
            "app_token": server.app_token,
            "base_url": server.api_url,
            "workspace": None,
            "directory": None,
            "now": lambda: datetime.now(UTC),
            "monotonic": clock.monotonic,
            "sleep": clock.sleep,
            "on_gap": self.gaps.append,
            "on_chat_moved": lambda *moved: self.moves.append(moved),
        }
        self.platform = SlackPlatform(**{**login, **settings})

    async def hear(self, inbound: Inbound) -> None:
        """Take a message, or fail as a full disk would."""
        if self.refuses(inbound):
            raise OSError("no space left on device")
        self.heard.append(inbound)
        self._changed.set()

    async def listen(self) -> list[Inbound]:
        """Begin to listen, and return once the socket is open."""
        before = self.server.hub.opened
        self._listening = asyncio.create_task(self.platform.listen(self.hear))
        await self.server.until(lambda: self.server.hub.opened > before)
        return self.heard

    async def stop_listening(self) -> None:
        """Cancel listening and wait for its end."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))
            self._listening = None

    async def until_heard(self, count: int) -> list[Inbound]:
        """Wait until that many messages were heard."""

        async def look() -> None:
            while len(self.heard) < count:
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(look(), 5)
        return self.heard

    async def all_acked(self) -> None:
        """Wait until every event that the server sent so far is acknowledged."""
        await self.server.until(lambda: all(d.acks for d in self.server.deliveries()))

    async def said(self, *stamps: str) -> list[Inbound]:
        """Wait until the events about these messages are acknowledged; return what was heard by then."""
        await self.server.until(lambda: all(self.server.acked(ts) for ts in stamps))
        return self.heard

    async def pass_time(self, seconds: float, step: float = 5.0) -> None:
        """Move the clock on, giving the sockets their time at each step."""
        left = seconds
        while left > 0:
            await self.clock.advance(min(step, left), self.settle)
            left -= step

    async def settle(self) -> None:
        """Give way often enough for frames to go to the server, on the same event loop, and back."""
        for _ in range(60):
            await asyncio.sleep(0)

    def part(self, text: str = "3 builds failed", *, to: Address = OPS, marker: str | None = None) -> OutgoingPart:
        """Make a part of one text."""
        self._numbers += 1
        [rendered] = self.platform.render(text)
        return OutgoingPart(
            delivery_id=DeliveryId("d1"),
            n=self._numbers,
            kind=PartKind.TEXT,
            address=to,
            payload=rendered.payload,
            marker=marker or f"marker-{self._numbers}",
            intent_at=datetime.now(UTC),
        )


@asynccontextmanager
async def slack_rig(*, time_scale: float = 0.001, **settings: Any) -> AsyncIterator[Rig]:
    """Run a server and a platform on it; both are closed at the end."""
    async with SlackServer(time_scale=time_scale) as server:
        rig = Rig(server, ManualClock(), **settings)
        try:
            yield rig
        finally:
            await rig.stop_listening()
            await rig.platform.close()
