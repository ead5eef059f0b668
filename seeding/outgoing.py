"""Replies as deliveries: rendered by the platform of the chat, put into the same outbox as briefs."""

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import Connection

from delivery import outbox
from delivery.model import Address, ChatKind, DeliveryId, DeliveryKind, Inbound, InboundId, Surface
from delivery.outbox import NewDelivery
from delivery.ports import Platform
from seeding import keys as spell
from seeding.model import ChatRules


def reply_address(inbound: Inbound, rules: ChatRules) -> Address:
    """Return where the reply to a message goes: the surface that it came from.

    In its thread if it lies in one, else at top level. Where answers quote, it quotes the question, except for
    a plain message in a DM.
    """
    asked = inbound.address
    if rules.has_threads:
        root = asked.root
    else:
        is_plain = asked.chat_kind is ChatKind.DM and asked.root is None
        root = None if is_plain else asked.message
    return Address(
        account=asked.account,
        workspace=asked.workspace,
        chat=asked.chat,
        chat_kind=asked.chat_kind,
        topic=spell.topic_of(asked),
        root=root,
    )


class Replies:
    """Implements `seeding.ports.Outbox` over `delivery.outbox`. `woken` tells the dispatcher."""

    def __init__(self, platforms: Mapping[str, Platform], *, woken: Callable[[], None]) -> None:
        self._platforms = platforms
        self._woken = woken

    def enqueue_answer(
        self,
        conn: Connection,
        *,
        inbound_id: InboundId,
        session_id: str,
        job: str | None,
        address: Address,
        text: str,
        at: datetime,
    ) -> None:
        """See `seeding.ports.Outbox`."""
        self._enqueue(conn, DeliveryKind.ANSWER, inbound_id, session_id, job, address, text, at)

    def enqueue_notice(
        self, conn: Connection, *, inbound_id: InboundId, address: Address, text: str, at: datetime
    ) -> None:
        """See `seeding.ports.Outbox`."""
        self._enqueue(conn, DeliveryKind.NOTICE, inbound_id, None, None, address, text, at)

    def wake(self) -> None:
        """See `seeding.ports.Outbox`."""
        self._woken()

    def _enqueue(
        self,
        conn: Connection,
        kind: DeliveryKind,
        inbound_id: InboundId,
        session_id: str | None,
        job: str | None,
        address: Address,
        text: str,
        at: datetime,
    ) -> None:
        new = NewDelivery(
            id=DeliveryId(f"{kind.value}-{inbound_id}"),
            kind=kind,
            run_id=None,
            inbound_id=inbound_id,
            session_id=session_id,
            job=job,
            target=f"{address.account}:{address.chat}",
            account=address.account,
            surface=Surface.FLAT if address.root is None else Surface.THREAD,
            continues=kind is DeliveryKind.ANSWER,
            address=address,
            parts=self._platforms[address.account].render(text),
        )
        outbox.enqueue(conn, [new], at=at)
