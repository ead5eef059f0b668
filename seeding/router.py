"""Takes stored messages to their sessions: chats in parallel, each chat in order, after the briefs in flight."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection, bindparam, select

from delivery.model import Inbound, InboundId
from seeding import answering, books, reset
from seeding.chat_commands import NOT_ALLOWED, Command, CommandKind, may_command, parse_command
from seeding.inbox import COMMAND, InboundState
from seeding.model import ChatRules
from seeding.outgoing import reply_address
from seeding.payload import from_payload
from seeding.place import Placer, chats_meant
from seeding.ports import Commands, Outbox, Rulebook, Store
from seeding.waiting import Bell
from state.clock import Monotonic, Now, Sleep
from state.schema import inbound as table

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""How many seconds a message waits for a brief that is being sent to its chat."""
LOOK_EVERY = 0.1

_CHATS = select(table.c.account, table.c.chat).where(table.c.state == InboundState.STORED.value).distinct()
_NEXT = (
    select(table.c.id, table.c.payload)
    .where(
        table.c.account == bindparam("account"),
        table.c.chat == bindparam("chat"),
        table.c.state == InboundState.STORED.value,
    )
    .order_by(table.c.id)
    .limit(1)
)

Chat = tuple[str, str]


class Router:
    """Routes what the inbox stored. `routed` is called, in the event loop, when a question waits for its agent."""

    def __init__(
        self,
        db: Store,
        *,
        placer: Placer,
        rules: Rulebook,
        commands: Commands,
        outbox: Outbox,
        routed: Callable[[], None],
        now: Now,
        sleep: Sleep,
        monotonic: Monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self._db = db
        self._placer = placer
        self._rules = rules
        self._commands = commands
        self._outbox = outbox
        self._routed = routed
        self._now = now
        self._sleep = sleep
        self._monotonic = monotonic
        self._patience = patience
        self._bell = Bell(sleep, every=LOOK_EVERY)
        self._busy: dict[Chat, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Say that something was stored. From the event loop; `Inbox` calls it."""
        self._bell.ring()

    async def run(self) -> None:
        """Route until cancelled or stopped. What is stored before the start is routed first."""
        try:
            while not self._bell.is_stopped:
                await self.look()
                await self._bell.wait(forever=True)
        except asyncio.CancelledError:
            for task in list(self._busy.values()):
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)
            raise

    async def stop(self) -> None:
        """Begin nothing more and let the messages at hand be routed; the rest is stored and waits."""
        self._bell.stop()
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def look(self) -> None:
        """Begin to serve every chat in which a message waits."""
        for account, chat in await self._db.read(_waiting_chats):
            if (account, chat) not in self._busy:
                task = asyncio.create_task(self._serve((account, chat)), name=f"route {account} {chat}")
                self._busy[account, chat] = task
                task.add_done_callback(partial(self._end, (account, chat)))

    def _end(self, chat: Chat, task: asyncio.Task[None]) -> None:
        self._busy.pop(chat, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # not even the failure could be written down: it waits for the next message or start
            log.error("A message's end was not stored.", exc_info=error, extra={"action": "routing_unsettled"})
            return
        self.wake()

    async def _serve(self, chat: Chat) -> None:
        while not self._bell.is_stopped:
            found = await self._db.read(lambda conn: _next(conn, chat))
            if found is None:
                return
            await self._serve_one(*found)

    async def _serve_one(self, inbound_id: InboundId, inbound: Inbound) -> None:
        """Route one message. Its failure is written down and stays its own."""
        facts = {"inbound": inbound_id, "account": inbound.address.account, "chat": inbound.address.chat}
        try:
            rules = self._rules.for_chat(inbound.address)
            command = parse_command(inbound)
            if command is None:
                await self._route(inbound_id, inbound, rules, facts)
            else:
                await self._obey(command, inbound_id, inbound, rules, facts)
        except Exception as error:
            log.exception("A message could not be routed.", extra={"action": "routing_failed", **facts})
            at, reason = self._now(), f"{type(error).__name__}"
            await self._db.write(
                lambda conn: answering.close(conn, inbound_id, InboundState.GAVE_UP, at=at, reason=reason)
            )

    async def _route(self, inbound_id: InboundId, inbound: Inbound, rules: ChatRules, facts: dict[str, object]) -> None:
        for chat in chats_meant(inbound):
            await self._wait_for_briefs(inbound.address.account, chat)
        at = self._now()
        routed = await self._db.write(lambda conn: self._placer.route(conn, inbound_id, rules, at=at))
        if routed is None:
            return
        if routed.session_id is None:
            log.debug("A message woke nothing.", extra={"action": "message_ignored", **facts})
            return
        log.info("A message was routed.", extra={"action": "message_routed", "session": routed.session_id, **facts})
        self._routed()

    async def _wait_for_briefs(self, account: str, chat: str) -> None:
        """Let a brief that is being sent to this chat arrive first: the message may well be about it."""
        ends = self._monotonic() + self._patience
        while await self._db.read(lambda conn: books.is_in_flight(conn, account, chat)):
            if self._monotonic() >= ends:
                log.info("Did not wait longer for a brief.", extra={"action": "brief_not_awaited", "chat": chat})
                return
            await self._sleep(LOOK_EVERY)

    async def _obey(
        self, command: Command, inbound_id: InboundId, inbound: Inbound, rules: ChatRules, facts: dict[str, object]
    ) -> None:
        at = self._now()
        if command.kind is CommandKind.NEW:
            await self._db.write(lambda conn: self._start_over(conn, inbound_id, inbound, rules))
        elif not may_command(inbound, rules):
            await self._reply(inbound_id, inbound, rules, NOT_ALLOWED)
        else:
            # What a command does cannot be undone, so a restart does not do it again: claimed first.
            await self._db.write(
                lambda conn: answering.close(conn, inbound_id, InboundState.ANSWERING, at=at, reason=COMMAND)
            )
            await self._reply(inbound_id, inbound, rules, await self._commands.run(command.words, inbound))
        self._outbox.wake()
        log.info("A command was carried out.", extra={"action": "command_done", "command": command.kind.value, **facts})

    async def _reply(self, inbound_id: InboundId, inbound: Inbound, rules: ChatRules, words: str) -> None:
        at = self._now()

        def write(conn: Connection) -> None:
            answering.close(conn, inbound_id, InboundState.ANSWERED, at=at, reason=COMMAND)
            place = reply_address(inbound, rules)
            self._outbox.enqueue_notice(conn, inbound_id=inbound_id, address=place, text=words, at=at)

        await self._db.write(write)

    def _start_over(self, conn: Connection, inbound_id: InboundId, inbound: Inbound, rules: ChatRules) -> None:
        at = self._now()
        done = self._placer.start_over(conn, inbound, rules, at=at)
        answering.close(conn, inbound_id, InboundState.ANSWERED, at=at, reason=COMMAND)
        place = reply_address(inbound, rules)
        self._outbox.enqueue_notice(conn, inbound_id=inbound_id, address=place, text=reset.words_for(done), at=at)


def _waiting_chats(conn: Connection) -> list[Chat]:
    return [(row.account, row.chat) for row in conn.execute(_CHATS)]


def _next(conn: Connection, chat: Chat) -> tuple[InboundId, Inbound] | None:
    row = conn.execute(_NEXT, {"account": chat[0], "chat": chat[1]}).one_or_none()
    return None if row is None else (InboundId(row.id), from_payload(row.payload))
