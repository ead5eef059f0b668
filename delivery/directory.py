"""The channel directory: what each account can reach, by id and by name, cached in the database.

A platform's `resolve` asks it; it never decides about a topic or a thread, those stay as they were written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select

from delivery.chats import UP, gate
from delivery.model import Address, ChatKind
from delivery.ports import AccountDown, Chat, Platform, TargetUnresolved
from delivery.targets import Target
from state import schema
from state.clock import Now, Sleep
from state.database import Database
from state.errors import StateError

DIRECTORY = schema.directory

EVERY = timedelta(minutes=5)
NOT_AGAIN_FOR = timedelta(seconds=30)
"""A name that is missing makes the list be read anew, but not more often than this."""

NAMED = 5
"""How many candidates an error names."""

ListChats = Callable[[], Awaitable[Sequence[Chat]]]


def replace_chats(conn: Connection, account: str, chats: Sequence[Chat], *, at: datetime) -> None:
    """Let the directory hold exactly these chats for an account."""
    conn.execute(delete(DIRECTORY).where(DIRECTORY.c.account == account))
    rows = {(one.chat, one.topic): one for one in chats}
    if rows:
        conn.execute(
            insert(DIRECTORY),
            [
                {
                    "account": account,
                    "chat": one.chat,
                    "topic": one.topic,
                    "name": one.name,
                    "kind": one.kind,
                    "members": one.members,
                    "updated_at": at,
                }
                for one in rows.values()
            ],
        )


def known_chats(conn: Connection, account: str) -> list[Chat]:
    """Return what the directory holds for an account, by name."""
    rows = conn.execute(
        select(DIRECTORY).where(DIRECTORY.c.account == account).order_by(DIRECTORY.c.name, DIRECTORY.c.chat)
    )
    return [
        Chat(chat=row.chat, name=row.name, kind=ChatKind(row.kind), topic=row.topic, members=row.members)
        for row in rows
    ]


def lookup(conn: Connection, account: str, name: str) -> Chat | None:
    """Find a chat: exact id, else exact name, else a unique beginning of one; None if there is none.

    Names are compared without their '#' or '@' and without regard to case; '#' never means a person, '@' means
    one if there is one. Raises TargetUnresolved, with the candidates, if several fit equally well.
    """
    return choose(known_chats(conn, account), account, name)


def choose(chats: Sequence[Chat], account: str, name: str) -> Chat | None:
    """Do what `lookup` does, on a list. Pure."""
    whole = [chat for chat in chats if not chat.topic]
    for chat in whole:
        if chat.chat == name:
            return chat
    wanted = _plain(name)
    if not wanted:
        return None
    meant = [chat for chat in whole if not (name.startswith("#") and chat.kind is ChatKind.DM)]
    for fits in (
        [chat for chat in meant if _plain(chat.name) == wanted],
        [chat for chat in meant if _plain(chat.name).startswith(wanted)],
    ):
        people = [chat for chat in fits if chat.kind is ChatKind.DM]
        found = people if name.startswith("@") and people else fits
        if len(found) == 1:
            return found[0]
        if found:
            raise TargetUnresolved(_several(account, name, found), final=True)
    return None


def _plain(name: str) -> str:
    return name.strip().lstrip("#@").casefold()


def _several(account: str, name: str, found: Sequence[Chat]) -> str:
    named = ", ".join(f"{chat.name} ({account}:{chat.chat})" for chat in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f'"{name}" may mean {named}{more}: write the one that is meant by its id'


def address_of(target: Target, chat: Chat, workspace: str) -> Address:
    """Name the place of a target in a chat that was found. What was written of topic and thread always stays."""
    topic = target.topic if target.topic is not None else (chat.topic or None)
    return Address(
        account=target.account,
        workspace=workspace,
        chat=chat.chat,
        chat_kind=chat.kind,
        topic=topic,
        root=target.thread,
    )


class Directory:
    """The directory of one account. Several calls at once read the list once."""

    def __init__(self, *, db: Database, account: str, now: Now) -> None:
        self._db = db
        self._account = account
        self._now = now
        self._refreshed_at: datetime | None = None
        self._refreshing = asyncio.Lock()

    async def find(self, name: str, list_chats: ListChats) -> Chat:
        """Return the chat of this id or name; a miss makes `list_chats` (the platform's `chats`) be asked anew.

        Raises TargetUnresolved (final), AccountDown.
        """
        found = await self._lookup(name)
        if found is None and self._may_refresh():
            await self.refresh(list_chats)
            found = await self._lookup(name)
        if found is None:
            raise TargetUnresolved(
                f'"{name}" is nowhere to be found on {self._account}: `hermes-cron targets {self._account}` lists'
                " what it reaches; is the bot a member there?",
                final=True,
            )
        return found

    async def lookup(self, name: str) -> Chat | None:
        """Return the chat of this id or name if the directory knows it; nobody is asked. Raises TargetUnresolved."""
        return await self._lookup(name)

    async def refresh(self, list_chats: ListChats) -> None:
        """Read the list anew. Raises AccountDown; the old list then stays."""
        asked_at = self._now()
        async with self._refreshing:
            if self._refreshed_at is not None and self._refreshed_at >= asked_at:
                return  # somebody did while we waited
            chats = tuple(await list_chats())
            at = self._now()
            await self._db.write(lambda conn: replace_chats(conn, self._account, chats, at=at))
            self._refreshed_at = at

    def _may_refresh(self) -> bool:
        return self._refreshed_at is None or self._now() - self._refreshed_at >= NOT_AGAIN_FOR

    async def _lookup(self, name: str) -> Chat | None:
        return await self._db.read(lambda conn: lookup(conn, self._account, name))


class DirectoryKeeper:
    """Reads every account's list when it comes up, and every few minutes."""

    def __init__(
        self,
        *,
        db: Database,
        platforms: Mapping[str, Platform],
        directories: Mapping[str, Directory],
        now: Now,
        sleep: Sleep,
        log: logging.Logger | None = None,
    ) -> None:
        self._db = db
        self._platforms = platforms
        self._directories = directories
        self._now = now
        self._sleep = sleep
        self._log = log or logging.getLogger(__name__)

    async def run(self) -> None:
        """Keep the lists fresh until cancelled."""
        while True:
            for name in tuple(self._directories):
                await self.refresh(name)
            await self._sleep(EVERY.total_seconds())

    async def refresh(self, name: str) -> None:
        """Read one account's list, if it is up and may be called. What goes wrong is logged; the old list stays."""
        platform = self._platforms.get(name)
        if platform is None or not await self._may_call(name):
            return
        try:
            await self._directories[name].refresh(platform.chats)
        except (AccountDown, StateError) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - around one account: the other lists are read all the same
            reason = f"{type(error).__name__}: {error}"
        else:
            return
        self._log.warning(
            "The list of chats could not be read; the old one stays.",
            extra={"action": "directory_not_refreshed", "account": name, "reason": reason},
        )

    async def _may_call(self, name: str) -> bool:
        here = await self._db.read(lambda conn: gate(conn, name, None))
        return here.account == UP and (here.not_before is None or here.not_before <= self._now())
