"""Answers people: one question at a time per session, in order; sessions do not wait for each other."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import Connection

from delivery.model import Address, DeliveryId, DeliveryState, InboundId
from delivery.ports import Platform, Settled, Settlement
from seeding import answering
from seeding.answering import OpenQuestion
from seeding.inbox import InboundState
from seeding.model import ChatRules, Question
from seeding.outgoing import reply_address
from seeding.ports import Answerer, AnswerFailed, Outbox, Rulebook, Store
from seeding.questions import question_for
from seeding.waiting import Bell
from state.clock import Now, Sleep

T = TypeVar("T")

log = logging.getLogger(__name__)

MOST_TRIES = 2
FRESH_FOR = timedelta(hours=1)
"""How old a question may be whose agent died while answering; older ones are noted and told."""
GAVE_UP = "I was interrupted while I answered this, and could not finish. Please ask again."
CUT_OFF = "I was interrupted while I carried this out. Please look whether it was done before you repeat it."
WENT_WRONG = "Something went wrong while I answered this; it has been noted in the log."


class Responder:
    """Asks the agents and hands their answers to the outbox. One instance per database and process."""

    def __init__(
        self,
        db: Store,
        *,
        answerer: Answerer,
        outbox: Outbox,
        settlement: Settlement,
        platforms: Mapping[str, Platform],
        working: Callable[[Address], AbstractAsyncContextManager[None]] | None = None,
        rules: Rulebook,
        now: Now,
        sleep: Sleep,
        at_once: int = 8,
        look_every: float = 0.5,
        fresh_for: timedelta = FRESH_FOR,
    ) -> None:
        """Take the parts; nothing runs before `run`.

        `working` shows that an answer is being written: the dispatcher's, which leaves a chat alone that asked for
        quiet; else the platform's own. `at_once`: how many agents may be at work. `look_every`: seconds between
        looks at answers on their way.
        """
        self._db = db
        self._answerer = answerer
        self._outbox = outbox
        self._settlement = settlement
        self._platforms = platforms
        self._working = working or (lambda address: platforms[address.account].working(address))
        self._rules = rules
        self._now = now
        self._began_at = now()
        self._bell = Bell(sleep, every=look_every)
        self._room = asyncio.Semaphore(at_once)
        self._fresh_for = fresh_for
        self._busy: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Say that a question was routed, or that an answer arrived. From the event loop."""
        self._bell.ring()

    async def run(self) -> None:
        """Answer until cancelled or stopped. What is being answered then goes on until `drain`."""
        await self._give_up_commands()
        while not self._bell.is_stopped:
            has_more = await self.look()
            await self._bell.wait(forever=not has_more)

    async def drain(self, grace: float, sleep: Sleep) -> None:
        """Take no more questions and let those that are with an agent finish, for `grace` seconds at most.

        What is cut off is answered after the next start.
        """
        self._bell.stop()
        at_work: set[asyncio.Future[None]] = set(self._busy.values())
        alarm: asyncio.Future[None] = asyncio.ensure_future(sleep(grace))
        waiting = set(at_work)
        while waiting and not alarm.done():
            await asyncio.wait({alarm, *waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting = {task for task in waiting if not task.done()}
        for task in {alarm, *waiting}:
            task.cancel()
        await asyncio.gather(alarm, *at_work, return_exceptions=True)

    async def look(self) -> bool:
        """Begin what can be begun; return whether something is under way that ends without a ring."""
        heads = await self._db.read(answering.heads)
        for one in heads:
            if one.lane not in self._busy:
                await self._take(one)
        return bool(heads)

    async def _take(self, one: OpenQuestion) -> None:
        """Do what the state of a session's oldest question asks for."""
        if one.account not in self._platforms:
            await self._close(one, InboundState.GAVE_UP, f"there is no account {one.account} any more")
            return
        match one.delivery_state:
            case None if one.state is InboundState.ROUTED:
                self._begin(one)
            case None:
                await self._take_up(one)
            case DeliveryState.IN_DOUBT:
                assert one.delivery_id is not None
                doubtful = one.delivery_id
                await self._write(lambda conn, at: answering.store_unconfirmed(conn, doubtful, at=at))
                self.wake()
            case DeliveryState.FAILED:
                reason = f"the answer could not be delivered: {one.error or 'no reason given'}"
                await self._close(one, InboundState.GAVE_UP, reason)
            case DeliveryState.SENT | DeliveryState.DEGRADED:
                await self._settle(one)
            case _:
                return  # on its way

    async def _take_up(self, one: OpenQuestion) -> None:
        """Decide about a question that nobody works on any more: the process died with it."""
        is_fresh = self._now() - one.at <= self._fresh_for
        if one.attempts < MOST_TRIES and is_fresh:
            self._begin(one)
            return
        await self._give_up(one.id, GAVE_UP, "interrupted")

    async def _settle(self, one: OpenQuestion) -> None:
        """Close a question whose reply has arrived; its turn was not written with the receipt, so write it now."""
        assert one.delivery_id is not None
        delivery_id = DeliveryId(one.delivery_id)
        await self._write(lambda conn, at: self._settlement.settled(conn, Settled(delivery_id=delivery_id, at=at)))
        await self._close(one, InboundState.ANSWERED, None)

    def _begin(self, one: OpenQuestion) -> None:
        task = asyncio.create_task(self._serve(one), name=f"answer {one.id}")
        self._busy[one.lane] = task
        task.add_done_callback(lambda done: self._end(one.lane, done))

    def _end(self, lane: str, task: asyncio.Task[None]) -> None:
        self._busy.pop(lane, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # not even the failure could be written down: the row says where it stands
            log.error("An answer's end was not stored.", exc_info=error, extra={"action": "answer_unsettled"})
            return
        self.wake()

    async def _serve(self, one: OpenQuestion) -> None:
        """Answer one question. Its failure stays its own."""
        async with self._room:
            try:
                await self._answer(one)
            except AnswerFailed as failed:
                await self._give_up(one.id, failed.reason, failed.reason)
            except Exception:
                log.exception(
                    "A question could not be answered.", extra={"action": "answer_crashed", "inbound": one.id}
                )
                await self._give_up(one.id, WENT_WRONG, "an error")

    async def _answer(self, one: OpenQuestion) -> None:
        question = await self._claim(one)
        if question is None:
            return
        async with self._working(question.address):
            text = await self._answerer.answer(question)
        if not text.strip():
            raise AnswerFailed("The agent had nothing to say.")
        place = await self._db.read(lambda conn: self._reply_place(conn, one.id))
        await self._write(
            lambda conn, at: self._outbox.enqueue_answer(
                conn,
                inbound_id=one.id,
                session_id=question.session_id,
                job=question.job,
                address=place,
                text=text,
                at=at,
            )
        )
        self._outbox.wake()
        facts = {"inbound": one.id, "session": question.session_id, "job": question.job}
        log.info("A question was answered.", extra={"action": "question_answered", **facts})

    async def _claim(self, one: OpenQuestion) -> Question | None:
        def take(conn: Connection, at: datetime) -> Question | None:
            if not answering.claim(conn, one.id, one.attempts, at=at):
                return None
            question = question_for(conn, one.id, self._rules_of(conn, one.id), at=at)
            if question is None:
                answering.close(conn, one.id, InboundState.GAVE_UP, at=at, reason="its session was removed")
            return question

        return await self._write(take)

    async def _give_up(self, inbound_id: InboundId, words: str, reason: str) -> None:
        def note(conn: Connection, at: datetime) -> None:
            answering.close(conn, inbound_id, InboundState.GAVE_UP, at=at, reason=reason)
            place = self._reply_place(conn, inbound_id)
            self._outbox.enqueue_notice(conn, inbound_id=inbound_id, address=place, text=words, at=at)

        await self._write(note)
        self._outbox.wake()
        log.warning(
            "A question was given up.", extra={"action": "question_given_up", "inbound": inbound_id, "why": reason}
        )

    async def _close(self, one: OpenQuestion, state: InboundState, reason: str | None) -> None:
        await self._write(lambda conn, at: answering.close(conn, one.id, state, at=at, reason=reason))
        if state is InboundState.GAVE_UP:
            log.warning("An answer was not delivered.", extra={"action": "answer_lost", "inbound": one.id})
        self.wake()

    def _rules_of(self, conn: Connection, inbound_id: InboundId) -> ChatRules:
        return self._rules.for_chat(answering.message(conn, inbound_id).address)

    def _reply_place(self, conn: Connection, inbound_id: InboundId) -> Address:
        inbound = answering.message(conn, inbound_id)
        return reply_address(inbound, self._rules.for_chat(inbound.address))

    async def _give_up_commands(self) -> None:
        """Tell those whose command was cut off by the last end of the process: it is not carried out twice."""
        for inbound_id in await self._db.read(lambda conn: answering.cut_off_commands(conn, before=self._began_at)):
            await self._give_up(inbound_id, CUT_OFF, "interrupted")

    async def _write(self, fn: Callable[[Connection, datetime], T]) -> T:
        at = self._now()
        return await self._db.write(lambda conn: fn(conn, at))
