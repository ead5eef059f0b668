"""After an older copy was put back, nothing that may have been sent is sent again, and nobody is answered twice."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select

from cron.rewind import settle_rewind
from state import schema
from state.books import REWOUND
from state.database import Database
from state.migrate import bring_up_to_date

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with contextlib.closing(Database.open((tmp_path / "state.db").resolve(), prepare=bring_up_to_date)) as made:
        yield made


def delivery(conn: Connection, name: str, account: str, part: str, *, inbound: int | None = None) -> None:
    values = {"id": name, "kind": "brief", "target": "x", "surface": "flat", "continues": True, "address_key": name}
    values |= {"account": account, "workspace": "w", "chat": "c", "chat_kind": "dm", "inbound_id": inbound}
    conn.execute(insert(schema.deliveries).values(**values, state=part, created_at=NOW, updated_at=NOW))
    row = {"delivery_id": name, "n": 1, "kind": "text", "state": part, "payload": {}, "text": "words", "marker": name}
    conn.execute(insert(schema.parts).values(**row, attempts=0, asked=0))


def heard(conn: Connection, number: int, state: str) -> None:
    text = {"account": "a", "workspace": "w", "chat": "c", "message": str(number), "fingerprint": ""}
    row = insert(schema.inbound).values(id=number, **text, payload={}, mentioned=False, state=state, attempts=0)
    conn.execute(row.values(at=NOW, received_at=NOW, updated_at=NOW))


def states(conn: Connection, table: str) -> dict[object, str]:
    known = schema.metadata.tables[table]
    key = known.c.delivery_id if table == "parts" else known.c.id
    return {row[0]: row[1] for row in conn.execute(select(key, known.c.state))}


async def test_what_waits_is_in_doubt_and_what_was_asked_is_given_up(db: Database) -> None:
    def fill(conn: Connection) -> None:
        conn.execute(insert(schema.meta).values(key=REWOUND, value="0"))
        for part in ("pending", "sending", "held", "sent", "rejected"):
            delivery(conn, part, "slack", part)
        delivery(conn, "page", "local", "pending")
        for number, state in enumerate(("stored", "routed", "answering", "answered", "answering"), start=1):
            heard(conn, number, state)
        delivery(conn, "answer", "slack", "pending", inbound=5)

    await db.write(fill)
    await db.write(lambda conn: settle_rewind(conn, NOW, at=NOW))
    parts = await db.read(lambda conn: states(conn, "parts"))
    questions = await db.read(lambda conn: states(conn, "inbound"))
    asks = await db.read(
        lambda conn: conn.execute(
            select(schema.parts.c.not_before).where(schema.parts.c.delivery_id == "pending")
        ).scalar_one()
    )
    doubtful = dict.fromkeys(("pending", "sending", "held", "answer"), "in_doubt")
    assert parts == doubtful | {"sent": "sent", "rejected": "rejected", "page": "pending"}
    assert questions == {1: "gave_up", 2: "gave_up", 3: "gave_up", 4: "answered", 5: "answering"}
    assert asks >= NOW + timedelta(seconds=30)  # the platform is asked, once that means something
    assert await db.read(
        lambda conn: conn.execute(select(schema.meta.c.key).order_by(schema.meta.c.key)).scalars().all()
    ) == ["batch", "uuid"]
