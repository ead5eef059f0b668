"""Conversations that are continued from here, in this home's database or in another home's.

The own database is shared and never closed here. Another home's is leased: owned by whoever opens a conversation,
handed to the conversation when it is registered, given back on every other way out, closed with the conversation.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from cron.home import state_path
from seeding import aside, sessions
from seeding.model import Session
from seeding.ports import Answerer
from state.clock import Now
from state.database import Database
from state.errors import NoDatabaseError
from state.ownership import OwnedLease
from state.registry import Lease, Registry

Key = tuple[Path, str]


class NoSuchConversation(LookupError):
    """There is no session of that id in that home. The message is one sentence."""


@dataclass(slots=True, kw_only=True, eq=False)
class Conversation:
    """One session that is continued from here. `lease` None: its database is shared, somebody else closes it."""

    session: Session
    db: Database
    lease: Lease | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # one question at a time
    is_kept: bool = False  # opened to stay, until `close`
    users: int = 0  # questions at hand

    async def close(self) -> None:
        """Give back what it owns. Idempotent."""
        lease, self.lease = self.lease, None
        if lease is not None:
            await lease.aclose()


Ready = Callable[[Conversation], Awaitable[None]]


class Conversations:
    """The conversations that are live, by database and session: one each, whoever asks. `home` None: this one."""

    def __init__(
        self, *, registry: Registry, own: Database, answerer: Answerer, now: Now, ready: Ready | None = None
    ) -> None:
        """`ready` is told of each new conversation before it is returned; if it fails, that one is taken back."""
        self._registry = registry
        self._own = own
        self._answerer = answerer
        self._now = now
        self._ready = ready
        self._live: dict[Key, Conversation] = {}

    @property
    def live(self) -> tuple[Key, ...]:
        """Which conversations are live."""
        return tuple(self._live)

    async def open(self, home: Path | None, session_id: str) -> Conversation:
        """Return the live conversation, making it live if it is not; it stays so until `close`.

        Raises NoSuchConversation, NoDatabaseError, and what opening a database raises; then nothing is leased.
        """
        conversation = await self._open(home, session_id)
        conversation.is_kept = True
        return conversation

    async def _open(self, home: Path | None, session_id: str) -> Conversation:
        key = path, _ = self._key(home, session_id)
        if (live := self._live.get(key)) is not None:
            return live
        if path == self._own.path:
            return await self._begin(key, self._own, None)
        if not path.exists():
            raise NoDatabaseError(path)  # leasing would make one
        async with OwnedLease(await self._registry.acquire_async(path)) as owned:
            return await self._begin(key, owned.db, owned)

    async def ask(self, home: Path | None, session_id: str, text: str, *, author: str) -> str:
        """Ask the session's agent and keep both turns there; nothing is posted. Raises as `open`, and AnswerFailed.

        A conversation that is live for this question only is closed after it.
        """
        conversation = await self._open(home, session_id)
        while conversation not in self._live.values():  # it ended while we gave a lease back that was not needed
            conversation = await self._open(home, session_id)
        conversation.users += 1
        try:
            async with conversation.turn:
                return await self._ask(conversation, text, author)
        finally:
            conversation.users -= 1
            if not (conversation.users or conversation.is_kept):
                await self.close(home, session_id)

    async def _ask(self, conversation: Conversation, text: str, author: str) -> str:
        asked_at, session_id = self._now(), conversation.session.id
        question = await conversation.db.read(
            lambda conn: aside.question_of(conn, session_id, text, author=author, at=asked_at)
        )
        if question is None:
            raise _missing(session_id)
        answer = await self._answerer.answer(question)
        at = self._now()
        await conversation.db.write(lambda conn: aside.store(conn, question, answer, asked_at=asked_at, at=at))
        return answer

    async def close(self, home: Path | None, session_id: str) -> None:
        """End a conversation; what it owns is given back. Idempotent."""
        conversation = self._live.pop(self._key(home, session_id), None)
        if conversation is not None:
            await conversation.close()

    async def close_all(self) -> None:
        """End every conversation; the own database stays open."""
        while self._live:
            _, conversation = self._live.popitem()
            await conversation.close()

    def _key(self, home: Path | None, session_id: str) -> Key:
        return (self._own.path if home is None else state_path(home).resolve()), session_id

    async def _begin(self, key: Key, db: Database, owned: OwnedLease | None) -> Conversation:
        session = await db.read(lambda conn: sessions.get(conn, key[1]))
        if session is None:
            raise _missing(key[1])
        if (winner := self._live.get(key)) is not None:
            return winner  # somebody was quicker; our lease goes back
        conversation = Conversation(session=session, db=db)
        self._live[key] = conversation
        if owned is not None:
            conversation.lease = owned.hand_over()
        try:
            if self._ready is not None:
                await self._ready(conversation)
        except BaseException:
            if self._live.get(key) is conversation:
                del self._live[key]
            await conversation.close()
            raise
        return conversation


def _missing(session_id: str) -> NoSuchConversation:
    return NoSuchConversation(f"There is no session {session_id[:80]!r}; `hermes-cron sessions` lists them.")
