"""Leases of another home's database are counted: taken and given back on every path, and the own one stays open."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from processbed import Process

from cron import views
from cron.elsewhere import Conversation, Conversations, NoSuchConversation
from delivery.model import Address, ChatKind
from seeding import sessions
from seeding.ports import AnswerFailed
from state.database import Database
from state.errors import DamagedError, NoDatabaseError
from state.ownership import OwnedLease
from state.registry import Lease, Registry

AT = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


class Answers:
    def __init__(self) -> None:
        self.says = "93 %"

    async def answer(self, question: object) -> str:
        if not self.says:
            raise AnswerFailed("It is asleep.")
        return self.says


@dataclass
class House:
    registry: Registry
    own: Lease
    here: Path
    there: Path
    answers: Answers

    def conversations(self, ready: object = None) -> Conversations:
        return Conversations(
            registry=self.registry,
            own=self.own.db,
            answerer=self.answers,  # type: ignore[arg-type]
            now=lambda: AT,
            ready=ready,  # type: ignore[arg-type]
        )

    def taken(self) -> list[str]:
        """The homes whose databases are leased now, one name for each lease."""
        return sorted(leak.path.parent.name for leak in self.registry.leaks())


def _fill(db: Database, name: str) -> None:
    address = Address(account="a", workspace="w", chat="c", chat_kind=ChatKind.DM)
    wanted = sessions.NewSession(id=sessions.SessionId(name), address=address)
    db.write_sync(lambda conn: sessions.create(conn, [wanted], at=AT))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    registry = Registry()
    here, there = tmp_path / "here", tmp_path / "there"

    def prepare() -> Lease:
        with registry.acquire(there / "state.db") as lease:
            _fill(lease.db, "theirs")
        own = registry.acquire(here / "state.db")
        _fill(own.db, "ours")
        return own

    own = await asyncio.to_thread(prepare)
    made = House(registry=registry, own=own, here=here, there=there, answers=Answers())
    yield made
    assert await own.db.read(sessions.list_sessions)  # the daemon's own is open to the end
    await own.aclose()
    assert await asyncio.to_thread(registry.drain) == ()


async def test_a_conversation_of_another_home_owns_its_lease_until_it_is_closed(house: House) -> None:
    talks = house.conversations()
    await talks.open(house.there, "theirs")
    said = await talks.ask(house.there, "theirs", "how full?", author="Kim")
    assert (said, house.taken()) == ("93 %", ["here", "there"])
    await talks.ask(house.there, "theirs", "and now?", author="Kim")
    assert house.taken() == ["here", "there"]
    await talks.close(house.there, "theirs")
    await talks.close(house.there, "theirs")
    assert (house.taken(), talks.live) == (["here"], ())
    async with await house.registry.acquire_async(house.there / "state.db") as lease:
        turns = await lease.db.read(lambda conn: views.transcript(conn, "theirs"))
    assert turns is not None
    assert [turn["text"] for turn in turns] == ["how full?", "93 %", "and now?", "93 %"]


async def test_a_conversation_of_this_home_shares_the_daemons_database_and_closes_nothing(house: House) -> None:
    talks = house.conversations()
    link = house.here.with_name("link")
    link.symlink_to(house.here)
    assert await talks.open(house.here, "ours") is await talks.open(link, "ours")
    assert (await talks.open(house.here, "ours")).db is house.own.db
    assert house.taken() == ["here"]
    await talks.close_all()
    assert house.taken() == ["here"]


async def test_a_session_that_is_not_there_leaves_no_lease(house: House) -> None:
    talks = house.conversations()
    for home, error in ((house.there, NoSuchConversation), (house.here, NoSuchConversation)):
        with pytest.raises(error, match="no session 'none'"):
            await talks.open(home, "none")
    assert (house.taken(), talks.live) == (["here"], ())


async def test_a_home_without_a_database_gets_none(house: House, tmp_path: Path) -> None:
    with pytest.raises(NoDatabaseError):
        await house.conversations().open(tmp_path / "nowhere", "theirs")
    assert not (tmp_path / "nowhere").exists()
    assert house.taken() == ["here"]


async def test_a_database_that_cannot_be_opened_leaves_no_lease(house: House, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "state.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(DamagedError):
        await house.conversations().open(tmp_path / "broken", "theirs")
    assert house.taken() == ["here"]


async def test_one_that_is_live_already_takes_no_second_lease(house: House) -> None:
    talks = house.conversations()
    first = await talks.open(house.there, "theirs")
    assert await talks.open(house.there, "theirs") is first
    assert house.taken() == ["here", "there"]
    await talks.close_all()
    assert house.taken() == ["here"]


async def test_the_losers_of_a_race_give_their_leases_back(house: House) -> None:
    talks = house.conversations()
    all_of_them = await asyncio.gather(*(talks.open(house.there, "theirs") for _ in range(20)))
    assert len({id(one) for one in all_of_them}) == 1
    assert house.taken() == ["here", "there"]
    await talks.close_all()
    assert house.taken() == ["here"]


async def test_a_half_registered_conversation_is_taken_back(house: House) -> None:
    seen: list[list[str]] = []

    async def ready(conversation: Conversation) -> None:
        seen.append(house.taken())
        raise ValueError("no room")

    talks = house.conversations(ready)
    for home, session in ((house.there, "theirs"), (house.here, "ours")):
        with pytest.raises(ValueError, match="no room"):
            await talks.open(home, session)
    assert (seen[0], house.taken(), talks.live) == (["here", "there"], ["here"], ())


@pytest.mark.parametrize("steps", range(12))
async def test_whoever_is_cancelled_at_any_step_leaves_nothing(house: House, steps: int) -> None:
    async def ready(conversation: Conversation) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    talks = house.conversations(ready)
    task = asyncio.create_task(talks.open(house.there, "theirs"))
    for _ in range(steps):
        await asyncio.sleep(0.002)
        if task.done():
            break
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
        await talks.close_all()  # it was quicker than the cancellation
    for _ in range(500):
        if house.taken() == ["here"]:
            break
        await asyncio.sleep(0.01)
    assert (house.taken(), talks.live) == (["here"], ())


async def test_an_agent_that_fails_leaves_the_conversation_live_and_stores_nothing(house: House) -> None:
    talks = house.conversations()
    house.answers.says = ""
    conversation = await talks.open(house.there, "theirs")
    with pytest.raises(AnswerFailed):
        await talks.ask(house.there, "theirs", "how full?", author="Kim")
    assert await conversation.db.read(lambda conn: views.transcript(conn, "theirs")) == []
    await talks.close_all()
    assert house.taken() == ["here"]


async def test_a_single_question_to_another_home_leaves_no_lease(house: House) -> None:
    talks = house.conversations()
    said = await asyncio.gather(*(talks.ask(house.there, "theirs", f"{n}?", author="Kim") for n in range(10)))
    assert (said, house.taken(), talks.live) == (["93 %"] * 10, ["here"], ())
    house.answers.says = ""
    with pytest.raises(AnswerFailed):
        await talks.ask(house.there, "theirs", "how full?", author="Kim")
    assert (house.taken(), talks.live) == (["here"], ())
    async with await house.registry.acquire_async(house.there / "state.db") as lease:
        turns = await lease.db.read(lambda conn: views.transcript(conn, "theirs"))
    assert turns is not None
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 10


async def test_a_lease_is_handed_over_once(house: House) -> None:
    async with OwnedLease(await house.registry.acquire_async(house.there / "state.db")) as owned:
        lease = owned.hand_over()
        with pytest.raises(RuntimeError):
            owned.hand_over()
    assert house.taken() == ["here", "there"]
    await lease.aclose()
    assert house.taken() == ["here"]


async def test_a_conversation_of_another_home_is_continued_from_the_terminal(tmp_path: Path) -> None:
    home = Process(tmp_path)
    home.write("{timezone: UTC, jobs: {fruit: {schedule: '0 9 * * *', text: pears are sold out}}}")
    other = str(tmp_path / "other")
    assert (await home.cli("--home", other, "trigger", "fruit", "--wait"))[0] == 0
    (_, listed, _) = await home.cli("--home", other, "sessions", "--json")
    session = json.loads(listed)[0]["id"]
    code, out, err = await home.cli("chat", session, "--of", other, stdin="what about pears?\n")
    turns = json.loads((await home.cli("--home", other, "transcript", session, "--json"))[1])
    missing = await home.cli("chat", "none", "--of", other, stdin="hello\n")
    nowhere = await home.cli("chat", session, "--of", str(tmp_path / "nowhere"), stdin="hello\n")
    assert (code, "sold out" in out) == (0, True), err
    assert [turn["origin"] for turn in turns] == ["cron", "inbound", "answer"]
    assert (missing[0], "no session 'none'" in missing[2]) == (2, True)
    assert (nowhere[0], "There is no database" in nowhere[2]) == (1, True)
    assert not (tmp_path / "nowhere").exists()
