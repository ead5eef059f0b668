"""Showing on a platform that an answer is being written, and stopping at once when the chat asked for quiet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from delivery.model import Address
from delivery.ports import Platform


class Signals:
    """The signs that are shown now. A chat that is to be left alone loses its sign at once."""

    def __init__(self) -> None:
        self._shown: dict[asyncio.Event, Address] = {}

    @asynccontextmanager
    async def show(self, platform: Platform, address: Address) -> AsyncIterator[None]:
        """Show the sign while the context is open, or until `silence`."""
        over = asyncio.Event()
        self._shown[over] = address
        task = asyncio.create_task(_show(platform, address, over))
        try:
            yield
        finally:
            del self._shown[over]
            over.set()
            await asyncio.wait((task,))

    def silence(self, account: str, chat: str | None) -> None:
        """Take the signs of a chat down; None: those of the whole account."""
        for over, address in self._shown.items():
            if address.account == account and chat in (None, address.chat):
                over.set()


async def _show(platform: Platform, address: Address, over: asyncio.Event) -> None:
    async with platform.working(address):
        await over.wait()
