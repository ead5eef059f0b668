"""From a brief to deliveries: find each place once, format for it, and say how a thread is opened there.

Nothing is written here. What comes back is enqueued in the transaction that stores the brief, and from then on
neither resolved nor rendered nor split again.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from cron.model import Config
from delivery.model import Address, DeliveryId, DeliveryKind, Surface
from delivery.outbox import NewDelivery
from delivery.ports import AccountDown, Opening, Platform, TargetUnresolved
from delivery.render.parts import RenderedPart
from delivery.targets import TargetError, format_target

LONG = 10_000  # characters of a brief beyond which formatting it could hold up the event loop


class Posting:
    """Prepares deliveries with the platforms that are configured now."""

    def __init__(self, *, platforms: Callable[[], Mapping[str, Platform]], config: Callable[[], Config]) -> None:
        self._platforms = platforms
        self._config = config
        # Of a thousand briefs in one second each would wait for the interpreter's lock again after reading urandom.
        self._ids = random.Random(uuid4().int)

    async def prepare(
        self,
        markdown: str,
        targets: Sequence[str],
        *,
        kind: DeliveryKind,
        job: str | None,
        run_id: str | None = None,
        surface: Surface = Surface.FLAT,
        continues: bool = False,
        title: str = "",
    ) -> list[NewDelivery]:
        """Make one delivery per target, in order. A target that names no place gives a failed one; never raises."""
        return [
            await self._prepare_one(markdown, text, kind, job, run_id, surface, continues, title) for text in targets
        ]

    async def _prepare_one(
        self,
        markdown: str,
        text: str,
        kind: DeliveryKind,
        job: str | None,
        run_id: str | None,
        surface: Surface,
        continues: bool,
        title: str,
    ) -> NewDelivery:
        def made(
            account: str, address: Address | None, opening: Opening | None = None, error: str | None = None
        ) -> NewDelivery:
            return NewDelivery(
                id=DeliveryId(f"dlv_{self._ids.getrandbits(48):012x}"),
                kind=kind,
                run_id=run_id,
                inbound_id=None,
                session_id=None,
                job=job,
                target=text,
                account=account,
                surface=surface,
                continues=continues,
                address=address,
                parts=parts,
                opening=opening,
                place=place,
                title=title,
                error=error,
            )

        place = text
        parts: tuple[RenderedPart, ...] = ()
        try:
            target = self._config().target(text).target
        except TargetError as error:
            return made(text.partition(":")[0], None, error=str(error))
        place = format_target(target)
        platform = self._platforms().get(target.account)
        parts = await _rendered(platform, markdown)
        if platform is None:
            return made(target.account, None, error=f"There is no account named {target.account!r} in jobs.yaml.")
        try:
            address = await platform.resolve(target)
        except TargetUnresolved as error:
            return made(target.account, None, error=error.reason if error.final else None)
        except AccountDown:
            return made(target.account, None)
        wants_thread = surface is Surface.THREAD and address.root is None
        return made(target.account, address, platform.opening(address, title) if wants_thread else None)


async def _rendered(platform: Platform | None, markdown: str) -> tuple[RenderedPart, ...]:
    """Format a brief; a long one in a thread, for it may take seconds."""
    if platform is None:
        return ()
    if len(markdown) < LONG:
        return platform.render(markdown)
    return await asyncio.to_thread(platform.render, markdown)
