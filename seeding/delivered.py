"""What of a delivery really arrived: its row, its parts and their receipts, read with one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, exists, select

from delivery.model import Address, ChatKind, DeliveryId, DeliveryKind, DeliveryState, PartKind, PartState
from seeding.model import Landed
from seeding.prepared import Prepared
from state.schema import deliveries, directory, parts, receipts, seeds, turns


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredPart:
    """One part as stored; `address` and `at` are those of its receipt, None without one."""

    n: int
    kind: PartKind
    state: PartState
    text: str
    address: Address | None
    at: datetime | None
    intent_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One delivery as stored, its parts in order."""

    id: DeliveryId
    kind: DeliveryKind
    job: str | None
    inbound_id: int | None
    session_id: str | None
    continues: bool
    state: DeliveryState
    flat_session: str | None
    thread_session: str | None
    flat_seeded: bool | None
    thread_seeded: bool | None
    chat_name: str | None  # as the directory knows it
    is_on_the_books: bool
    has_turns: bool
    parts: tuple[DeliveredPart, ...]
    texts: tuple[DeliveredPart, ...]  # the pieces of the text, whatever became of them
    arrived: tuple[DeliveredPart, ...]  # those that the platform confirmed
    landed: tuple[Landed, ...]  # all confirmed parts, the opening included

    @property
    def is_brief_to_seed(self) -> bool:
        """Whether it is a brief that answers continue, of which something arrived."""
        return self.kind is DeliveryKind.BRIEF and self.continues and bool(self.arrived)

    @property
    def is_called_sent(self) -> bool:
        """Whether it is such a brief, but only a person says that its text arrived: no message of it is known."""
        has_text = any(part.state is PartState.SENT for part in self.texts)
        return self.kind is DeliveryKind.BRIEF and self.continues and has_text and not self.arrived

    @property
    def begun_at(self) -> datetime | None:
        """Return when its text was first about to be sent, as far as that is known."""
        return min((part.intent_at for part in self.texts if part.intent_at is not None), default=None)

    @property
    def arrived_at(self) -> datetime | None:
        """Return when the first piece of the text arrived, by the platform's word."""
        return next((part.at for part in self.arrived), None)


_DELIVERED = Prepared(
    select(
        deliveries.c.id,
        deliveries.c.kind,
        deliveries.c.job,
        deliveries.c.inbound_id,
        deliveries.c.session_id,
        deliveries.c.continues,
        deliveries.c.state,
        deliveries.c.flat_session,
        deliveries.c.thread_session,
        deliveries.c.flat_seeded,
        deliveries.c.thread_seeded,
        directory.c.name.label("chat_name"),
        exists().where(seeds.c.delivery_id == deliveries.c.id).label("is_on_the_books"),
        exists().where(turns.c.delivery_id == deliveries.c.id).label("has_turns"),
        parts.c.n,
        parts.c.kind.label("part_kind"),
        parts.c.state.label("part_state"),
        parts.c.text,
        parts.c.intent_at,
        receipts.c.account,
        receipts.c.workspace,
        receipts.c.chat,
        receipts.c.chat_kind,
        receipts.c.topic,
        receipts.c.message,
        receipts.c.root,
        receipts.c.at,
    )
    .select_from(
        deliveries.join(parts, parts.c.delivery_id == deliveries.c.id)
        .outerjoin(receipts, (receipts.c.delivery_id == parts.c.delivery_id) & (receipts.c.n == parts.c.n))
        .outerjoin(
            directory,
            (directory.c.account == receipts.c.account)
            & (directory.c.chat == receipts.c.chat)
            & (directory.c.topic == ""),
        )
    )
    .where(deliveries.c.id == bindparam("delivery"))
    .order_by(parts.c.n)
)


def load(conn: Connection, delivery_id: str) -> Delivered | None:
    """Read one delivery with its parts and receipts; None if it is not there (or has no part)."""
    rows = _DELIVERED.all(conn, {"delivery": delivery_id})
    if not rows:
        return None
    first = rows[0]
    found = tuple(_part(row) for row in rows)
    texts = tuple(part for part in found if part.kind is PartKind.TEXT)
    return Delivered(
        id=DeliveryId(first.id),
        kind=DeliveryKind(first.kind),
        job=first.job,
        inbound_id=first.inbound_id,
        session_id=first.session_id,
        continues=first.continues,
        state=DeliveryState(first.state),
        flat_session=first.flat_session,
        thread_session=first.thread_session,
        flat_seeded=first.flat_seeded,
        thread_seeded=first.thread_seeded,
        chat_name=next((row.chat_name for row in rows if row.chat_name is not None), None),
        is_on_the_books=bool(first.is_on_the_books),
        has_turns=bool(first.has_turns),
        parts=found,
        texts=texts,
        arrived=tuple(part for part in texts if part.address is not None),
        landed=tuple(Landed(kind=part.kind, address=part.address) for part in found if part.address is not None),
    )


def _part(row: Any) -> DeliveredPart:
    return DeliveredPart(
        n=row.n,
        kind=PartKind(row.part_kind),
        state=PartState(row.part_state),
        text=row.text,
        address=None if row.message is None else _address(row),
        at=row.at,
        intent_at=row.intent_at,
    )


def _address(row: Any) -> Address:
    return Address(
        account=row.account,
        workspace=row.workspace,
        chat=row.chat,
        chat_kind=ChatKind(row.chat_kind),
        topic=row.topic,
        message=row.message,
        root=row.root,
    )


def text_of(texts: Sequence[DeliveredPart]) -> str:
    """Return the text as delivered: all confirmed pieces in a row, a missing one marked on a line of its own.

    A piece without a receipt of which a person says that it arrived is there too.
    """
    pieces: list[str] = []
    for place, part in enumerate(texts, start=1):
        if part.address is not None or part.state is PartState.SENT:
            pieces.append(part.text)
            continue
        before = "" if not pieces or pieces[-1].endswith("\n") else "\n"
        after = "\n" if place < len(texts) else ""
        pieces.append(f"{before}[part {place} of {len(texts)} {_FATE[part.state]}]{after}")
    return "".join(pieces)


_FATE = {
    PartState.PENDING: "has not arrived yet",
    PartState.SENDING: "has not arrived yet",
    PartState.IN_DOUBT: "may not have arrived",
    PartState.REJECTED: "did not arrive",
    PartState.HELD: "has not arrived yet",
}
