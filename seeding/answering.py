"""The rows behind answers: who is next, claiming a question, and how it ends. Functions on a Connection."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, and_, bindparam, or_, select, update

from delivery.model import DeliveryKind, DeliveryState, Inbound, InboundId, PartKind
from seeding import delivered, mirror, sessions
from seeding.inbox import COMMAND, InboundState
from seeding.model import Origin, Role
from seeding.payload import from_payload
from state.schema import deliveries
from state.schema import inbound as table

_OPEN = (
    select(
        table.c.id,
        table.c.account,
        table.c.session_id,
        table.c.state,
        table.c.attempts,
        table.c.at,
        deliveries.c.id.label("delivery_id"),
        deliveries.c.state.label("delivery_state"),
        deliveries.c.error,
    )
    .select_from(table.outerjoin(deliveries, deliveries.c.inbound_id == table.c.id))
    .where(
        table.c.state.in_((InboundState.ROUTED.value, InboundState.ANSWERING.value)),
        or_(table.c.reason.is_(None), table.c.reason != COMMAND),
    )
    .order_by(table.c.id)
)
_CUT_OFF = select(table.c.id).where(
    table.c.state == InboundState.ANSWERING.value,
    table.c.reason == COMMAND,
    table.c.updated_at < bindparam("before"),
)
_MESSAGE = select(table.c.payload).where(table.c.id == bindparam("which"))
_CLAIM = (
    update(table)
    .where(
        and_(
            table.c.id == bindparam("which"),
            table.c.attempts == bindparam("tries"),
            table.c.state.in_((InboundState.ROUTED.value, InboundState.ANSWERING.value)),
        )
    )
    .values(state=InboundState.ANSWERING.value, attempts=table.c.attempts + 1, updated_at=bindparam("when"))
)
_CLOSE = (
    update(table)
    .where(table.c.id == bindparam("which"))
    .values(state=bindparam("to"), reason=bindparam("why"), updated_at=bindparam("when"))
)

_GIVE_UP = (
    update(table)
    .where(
        table.c.state.in_((InboundState.STORED.value, InboundState.ROUTED.value, InboundState.ANSWERING.value)),
        table.c.id.not_in(select(deliveries.c.inbound_id).where(deliveries.c.inbound_id.is_not(None))),
    )
    .values(state=bindparam("to"), reason=bindparam("why"), updated_at=bindparam("when"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A question that is not settled: waiting, with its agent, or on its way back."""

    id: InboundId
    account: str
    session_id: str | None
    state: InboundState
    attempts: int
    at: datetime
    delivery_id: str | None
    delivery_state: DeliveryState | None
    error: str | None

    @property
    def lane(self) -> str:
        """Return what may have only one question at a time: the session, or the message by itself."""
        return self.session_id if self.session_id is not None else f"inbound {self.id}"


def heads(conn: Connection) -> tuple[OpenQuestion, ...]:
    """Return the oldest open question of every session."""
    first: dict[str, OpenQuestion] = {}
    for row in conn.execute(_OPEN):
        one = OpenQuestion(
            id=InboundId(row.id),
            account=row.account,
            session_id=row.session_id,
            state=InboundState(row.state),
            attempts=row.attempts,
            at=row.at,
            delivery_id=row.delivery_id,
            delivery_state=None if row.delivery_state is None else DeliveryState(row.delivery_state),
            error=row.error,
        )
        first.setdefault(one.lane, one)
    return tuple(first.values())


def cut_off_commands(conn: Connection, *, before: datetime) -> tuple[InboundId, ...]:
    """Return the commands that were begun before this process and never ended."""
    return tuple(InboundId(row.id) for row in conn.execute(_CUT_OFF, {"before": before}))


def message(conn: Connection, inbound_id: InboundId) -> Inbound:
    """Return a stored message that is known to be there."""
    return from_payload(conn.execute(_MESSAGE, {"which": inbound_id}).scalar_one())


def claim(conn: Connection, inbound_id: InboundId, attempts: int, *, at: datetime) -> bool:
    """Take a question for the next try. False: somebody else has, or it is settled."""
    return conn.execute(_CLAIM, {"which": inbound_id, "tries": attempts, "when": at}).rowcount == 1


def close(
    conn: Connection, inbound_id: InboundId, state: InboundState, *, at: datetime, reason: str | None = None
) -> None:
    """Write how a message ended."""
    conn.execute(_CLOSE, {"which": inbound_id, "to": state.value, "why": reason, "when": at})


def give_up_waiting(conn: Connection, reason: str, *, at: datetime) -> int:
    """Close every message that waits and has no reply yet; nobody is told. Returns how many."""
    return conn.execute(_GIVE_UP, {"to": InboundState.GAVE_UP.value, "why": reason, "when": at}).rowcount


def store_unconfirmed(conn: Connection, delivery_id: str, *, at: datetime) -> None:
    """Store an answer of which nobody knows whether it arrived, marked so; its question is settled. Idempotent.

    When a part is proven later, the settlement replaces the turn and takes the mark away.
    """
    one = delivered.load(conn, delivery_id)
    if one is None or one.kind is not DeliveryKind.ANSWER or one.inbound_id is None:
        return
    if one.session_id is not None and one.session_id not in mirror.holding(conn, one.id):
        text = "".join(part.text for part in one.parts if part.kind is PartKind.TEXT)
        row = mirror.turn_row(
            one.session_id,
            role=Role.ASSISTANT,
            text=text,
            at=at,
            origin=Origin.ANSWER,
            job=one.job,
            delivery_id=one.id,
            is_unconfirmed=True,
        )
        mirror.insert_turns(conn, [row])
        sessions.touch(conn, [one.session_id], at=at)
    close(conn, InboundId(one.inbound_id), InboundState.ANSWERED, at=at, reason="nobody knows whether it arrived")
