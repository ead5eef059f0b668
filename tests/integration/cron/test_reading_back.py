"""What was missed is read back in the end, whatever comes between; nothing is forgotten and nobody is waited for."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from seedbed import Clock, Conversation, Rules, opened, place, said
from sqlalchemy import select

from cron.reading_back import GAP_MARGIN, ReadingBack
from delivery.model import Address
from delivery.ports import AccountDown
from state.schema import meta


class Places:
    """An account whose places are read as long as `gate` is open; notes what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Address, datetime]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.down: str | None = None

    async def catch_up(self, address: Address, since: datetime, _hear: object) -> None:
        self.asked.append((address, since))
        await self.gate.wait()
        if self.down is not None:
            raise AccountDown(self.down)


class NoList:
    async def refresh(self, _account: str) -> None:
        """There is no list of chats to be read."""


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Conversation]:
    with opened(tmp_path) as db:
        yield Conversation(db, Clock(), Rules())


def reading_of(talk: Conversation, places: Places) -> ReadingBack:
    return ReadingBack(
        talk.db,
        platforms=lambda: {"slack": places},
        directory=NoList(),
        hear=talk.inbox.hear,
        now=talk.clock.now,
    )


async def ended(reading: ReadingBack) -> None:
    while reading._tasks:
        await asyncio.wait_for(asyncio.wait(list(reading._tasks.values())), 5)


async def until(look) -> None:
    async def looking() -> None:
        while not look():
            await asyncio.sleep(0)

    await asyncio.wait_for(looking(), 5)


async def kept(talk: Conversation) -> list[str]:
    rows = await talk.db.read(lambda conn: conn.execute(select(meta.c.key)).scalars().all())
    return [key for key in rows if key.startswith("reading back")]


async def test_a_restart_in_the_midst_of_reading_loses_nothing_although_newer_messages_are_stored(talk: Conversation):
    began = talk.clock.at
    _, [message] = await talk.post(place(), "a brief")
    talk.clock.advance(hours=2)
    places = Places()
    places.gate.clear()
    reading = reading_of(talk, places)
    await reading.begin("slack")
    await until(lambda: places.asked)
    await talk.hear(said("live", talk.clock.at, mentioned=True))
    await asyncio.wait_for(reading.stop("slack"), 5)  # does not wait for Slack

    places = Places()
    reading = reading_of(talk, places)
    await reading.begin("slack")
    await ended(reading)
    assert dict(places.asked) == {place(): began, place(root=message): began}
    assert await kept(talk) == []


async def test_a_gap_while_it_is_reading_lets_the_place_be_read_again_once(talk: Conversation):
    began = talk.clock.at
    await talk.post(place(root="5.0"), "a brief")
    places = Places()
    places.gate.clear()
    reading = reading_of(talk, places)
    await reading.begin("slack")
    await until(lambda: places.asked)
    for _ in range(3):
        await reading.after_gap("slack")
    places.gate.set()
    await ended(reading)
    assert [(one.root, since) for one, since in places.asked] == [
        (None, began),
        ("5.0", began - GAP_MARGIN),
        (None, began - GAP_MARGIN),
    ]


async def test_what_an_account_that_went_down_did_not_read_is_read_when_it_is_back(talk: Conversation):
    began = talk.clock.at
    _, [message] = await talk.post(place(), "a brief")
    places = Places()
    places.down = "no network"
    reading = reading_of(talk, places)
    await reading.begin("slack")
    await ended(reading)
    assert len(places.asked) == 1
    await talk.hear(said("live", talk.clock.advance(hours=3), mentioned=True))
    places.down = None
    places.asked.clear()
    await reading.begin("slack")
    await ended(reading)
    assert dict(places.asked) == {place(): began, place(root=message): began}


async def test_after_an_account_was_stopped_a_late_gap_begins_nothing(talk: Conversation):
    await talk.post(place(), "a brief")
    places = Places()
    reading = reading_of(talk, places)
    await reading.begin("slack")
    await reading.stop("slack")
    places.asked.clear()
    await reading.after_gap("slack")
    assert (reading._tasks, places.asked) == ({}, [])


async def test_what_is_owed_for_more_than_a_week_is_not_read_from_its_beginning(talk: Conversation):
    await talk.post(place(root="5.0"), "a brief")
    places = Places()
    places.down = "no network"
    reading = reading_of(talk, places)
    await reading.begin("slack")
    await ended(reading)
    at = talk.clock.advance(days=9)
    again = Places()
    reading = reading_of(talk, again)
    await reading.begin("slack")
    await ended(reading)
    assert {since for _, since in again.asked} == {at - timedelta(days=7)}


async def test_what_was_heard_live_and_is_read_back_is_answered_once(talk: Conversation):
    await talk.post(place(), "a brief")
    message = said("why?", talk.clock.advance(hours=1), mentioned=True)

    class Again(Places):
        async def catch_up(self, address, since, hear):
            await hear(message)
            await hear(replace(message, is_edit=True))

    reading = reading_of(talk, Again())
    await reading.begin("slack")
    await talk.hear(message)
    await ended(reading)
    await reading.after_gap("slack")
    await ended(reading)
    await talk.route()
    await talk.respond()
    assert [one.text for one in talk.agent.asked] == ["why?"]
