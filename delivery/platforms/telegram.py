"""Telegram: one bot, heard by long polling. The only file that knows python-telegram-bot.

What is read and decided stands in the `telegram_*` files beside it, over plain JSON; here are the platform's verbs
and the one seam to the network.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import datetime
from typing import Any

from telegram import Bot
from telegram.error import TelegramError
from telegram.request import BaseRequest, RequestData

from delivery.model import (
    Address,
    CannotTell,
    ChatKind,
    FindResult,
    OutgoingPart,
    PartKind,
    Receipt,
    Rejected,
    SendResult,
    Sent,
)
from delivery.platforms import telegram_answers as answers
from delivery.platforms.telegram_answers import Failure, Refusal, Unclear, Unreachable
from delivery.platforms.telegram_book import ChatBook
from delivery.platforms.telegram_hearing import Hearing
from delivery.platforms.telegram_memory import Memory
from delivery.platforms.telegram_places import Json, kind_of, name_of
from delivery.platforms.telegram_polling import Poller, login_refused
from delivery.platforms.telegram_updates import ALLOWED, Me
from delivery.platforms.telegram_wire import CONNECT_TIMEOUT, WRITE_TIMEOUT, Wire
from delivery.ports import AccountDown, Chat, Hear, Opening, TargetUnresolved
from delivery.render import RenderedPart, render_telegram
from delivery.targets import Target
from state.clock import Monotonic, Now, Sleep

SERVER = "https://api.telegram.org"
READ_TIMEOUT = 20.0
POLL_SECONDS, POLL_GRACE = 30, 5.0
TYPING_EVERY = 4.5
"""A chat action is shown for five seconds."""
LONGEST_TOPIC_NAME = 128
_LINK = re.compile(r"\S\.\S")
"""What Telegram may take for a link, and show a preview of, looks like this; a plain sentence does not."""

log = logging.getLogger(__name__)


class TelegramPlatform:
    """One bot. See `delivery.ports.Platform`; every method may be called from several tasks at once."""

    kind = "telegram"
    pace = 1.0
    """Seconds between two posts into one chat: the platform allows about one a second. In a group it allows 20 a
    minute; what is over that it refuses and says for how long, which costs no try."""

    def __init__(
        self,
        *,
        account: str,
        token: str,
        base_url: str | None,
        workspace: str | None,
        directory: ChatBook,
        now: Now,
        monotonic: Monotonic,
        sleep: Sleep,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        """`base_url` is the server's root, None: Telegram's own. `read_timeout`: seconds to wait for an answer."""
        self.request_timeout = CONNECT_TIMEOUT + WRITE_TIMEOUT + read_timeout
        self._account = account
        self._workspace = workspace
        self._now = now
        self._sleep = sleep
        self._client = _Client(token, (base_url or SERVER).rstrip("/"), read_timeout)
        self._me: Me | None = None
        self._memory = Memory()
        self._hearing = Hearing(
            account=account,
            book=directory,
            memory=self._memory,
            press=lambda query: self._client.ask("answerCallbackQuery", callback_query_id=query),
        )
        self._poller: Poller | None = None

    @property
    def account(self) -> str:
        return self._account

    @property
    def workspace(self) -> str | None:
        return self._workspace

    @property
    def me(self) -> Me | None:
        """What getMe said of the bot (its name, privacy mode, topics); None until `connect` has succeeded."""
        return self._me

    @property
    def trouble(self) -> str | None:
        """Why nothing is heard at present although the account is up (such as another poller), in a sentence."""
        return None if self._poller is None else self._poller.trouble

    # --- being there ----------------------------------------------------------------------------------

    async def connect(self) -> str:
        got = await self._client.ask("getMe")
        if isinstance(got, Refusal) and answers.is_login_refused(got):
            raise AccountDown(login_refused(self._account, got))
        if isinstance(got, Refusal):
            raise AccountDown(f"Telegram refused to say who the bot is: {got.description}")
        if isinstance(got, Unreachable | Unclear):
            raise AccountDown(f"Telegram cannot be reached: {got.reason}")
        if not isinstance(got, Mapping) or not isinstance(got.get("id"), int):
            raise AccountDown("what answers at base_url is no Telegram Bot API server")
        self._me = Me(
            account=self._account,
            id=got["id"],
            username=got.get("username"),
            reads_all=bool(got.get("can_read_all_group_messages")),
            has_topics=bool(got.get("has_topics_enabled")),
        )
        self._workspace = self._me.workspace
        return self._workspace

    async def listen(self, hear: Hear) -> None:
        if self._poller is not None:
            raise RuntimeError(f"account {self._account} is listened to already")
        me = await self._connected()

        async def take(update: Json) -> None:
            await self._hearing.take(update, me, hear)

        self._poller = Poller(
            account=self._account,
            fetch=self._client.updates,
            take=take,
            drop_webhook=lambda: self._client.ask("deleteWebhook", drop_pending_updates=False),
            now=self._now,
            sleep=self._sleep,
        )
        try:
            await self._hearing.chats()  # so that only news is written
            await self._poller.run()
        finally:
            self._poller = None

    async def catch_up(self, address: Address, since: datetime, hear: Hear) -> None:
        """Do nothing: the platform keeps what was not heard, for a day, and cannot be asked for more."""

    async def close(self) -> None:
        await self._client.hang_up()

    async def _connected(self) -> Me:
        if self._me is None:
            await self.connect()
        assert self._me is not None
        return self._me

    # --- places ---------------------------------------------------------------------------------------

    async def chats(self) -> Sequence[Chat]:
        """List what the bot has met: the platform lists nothing."""
        return await self._hearing.chats()

    async def resolve(self, target: Target) -> Address:
        me = await self._connected()
        found = await self._find_chat(target)
        chat = str(int(found["id"]))
        await self._hearing.see(Chat(chat=chat, name=name_of(found), kind=kind_of(found)))
        return Address(
            account=self._account,
            workspace=me.workspace,
            chat=chat,
            chat_kind=kind_of(found),
            topic=None if target.topic == "1" else target.topic,
        )

    async def _find_chat(self, target: Target) -> Json:
        got = await self._client.ask("getChat", chat_id=target.chat)
        if isinstance(got, Refusal) and got.moved_to is not None:
            await self._hearing.has_moved(target.chat, got.moved_to)
            got = await self._client.ask("getChat", chat_id=got.moved_to)
        if isinstance(got, Refusal) and answers.is_login_refused(got):
            raise AccountDown(login_refused(self._account, got))
        if isinstance(got, Refusal):
            reason = answers.explain(got, chat=target.chat)
            raise TargetUnresolved(f"{target}: {reason}", final=got.status != 429)
        if isinstance(got, Unreachable | Unclear):
            raise TargetUnresolved(f"{target} could not be looked up: {got.reason}", final=False)
        if not isinstance(got, Mapping) or "id" not in got or "type" not in got:
            raise TargetUnresolved(f"{target}: the server's answer names no chat", final=False)
        return got

    # --- speaking -------------------------------------------------------------------------------------

    def render(self, markdown: str) -> tuple[RenderedPart, ...]:
        return render_telegram(markdown)

    def opening(self, address: Address, title: str) -> Opening | None:
        """Open a topic where there can be some, unless the place is a topic already or a message is answered."""
        is_dm_with_topics = address.chat_kind is ChatKind.DM and self._me is not None and self._me.has_topics
        has_topics = address.chat_kind is ChatKind.FORUM or is_dm_with_topics
        if not has_topics or answers.asked_topic(address) is not None or address.root is not None:
            return None
        name = " ".join(title.split())[:LONGEST_TOPIC_NAME].rstrip() or "Brief"
        return Opening(kind=PartKind.TOPIC, payload={"name": name}, text=title)

    async def send(self, part: OutgoingPart) -> SendResult:
        result = await (self._open_topic(part) if part.kind is PartKind.TOPIC else self._post(part))
        address = part.address
        if isinstance(result, Rejected) and result.chat_is_gone:
            self._hearing.is_lost(address.chat)
        if isinstance(result, Sent):
            landed = result.receipt.address
            self._memory.posted.put((landed.chat, landed.message or ""), True)
        return result

    async def _post(self, part: OutgoingPart) -> SendResult:
        remark = None
        text, entities = str(part.payload["text"]), part.payload.get("entities") or None
        message = self._message(part.address)
        if entities is not None or _LINK.search(text):
            message["link_preview_options"] = {"is_disabled": True}
        got = await self._client.ask("sendMessage", **message, text=text, entities=entities)
        if entities is not None and isinstance(got, Refusal) and answers.is_formatting_refused(got):
            # A 400 is certain: nothing was posted. This is the same one attempt, without what was refused.
            remark = f"posted without formatting, which Telegram refused ({got.description})"
            got = await self._client.ask("sendMessage", **message, text=text)
        if isinstance(got, Refusal | Unreachable | Unclear):
            return answers.unsent(got, part.address)
        return answers.posted(got, part, self._workspace_of(part), remark)

    def _message(self, address: Address) -> dict[str, object]:
        message: dict[str, object] = {"chat_id": address.chat}
        topic = self._thread_id(address)
        if topic is not None:
            message["message_thread_id"] = topic
        if address.root is not None and address.root.isdecimal():
            message["reply_parameters"] = {"message_id": int(address.root), "allow_sending_without_reply": True}
        return message

    def _thread_id(self, address: Address) -> int | None:
        """Return the topic to name in a call. General is none; nor does a private chat without topics have any."""
        topic = answers.asked_topic(address)
        if topic is None or not topic.isdecimal():
            return None
        is_plain_dm = address.chat_kind is ChatKind.DM and self._me is not None and not self._me.has_topics
        return None if is_plain_dm else int(topic)

    async def _open_topic(self, part: OutgoingPart) -> SendResult:
        got = await self._client.ask("createForumTopic", chat_id=part.address.chat, name=part.payload["name"])
        if isinstance(got, Refusal | Unreachable | Unclear):
            return answers.unsent(got, part.address)
        result = answers.opened(got, part, self._workspace_of(part), self._now())
        if isinstance(result, Sent):
            self._memory.claim(part.address.chat, result.receipt.address.topic or "")
        return result

    def _workspace_of(self, part: OutgoingPart) -> str:
        return part.address.workspace if self._workspace is None else self._workspace

    async def find(self, part: OutgoingPart) -> FindResult:
        """Look for a topic among those whose opening was heard; the platform cannot be asked for anything else."""
        if part.kind is not PartKind.TOPIC:
            return CannotTell(reason="Telegram cannot be asked whether a message has arrived")
        chat = part.address.chat
        topic = self._memory.find_topic(chat, str(part.payload["name"]), since=part.intent_at)
        if topic is None:
            return CannotTell(reason="Telegram has not told of a new topic of that name")
        self._memory.claim(chat, topic.topic)
        return answers.topic_receipt(part, self._workspace_of(part), topic.topic, topic.at)

    def working(self, address: Address) -> AbstractAsyncContextManager[None]:
        """Show "typing" there. Channels have no such sign."""
        return nullcontext() if address.chat_kind is ChatKind.CHANNEL else self._typing(address)

    @asynccontextmanager
    async def _typing(self, address: Address) -> AsyncIterator[None]:
        typing = asyncio.create_task(self._type(address))
        try:
            yield
        finally:
            typing.cancel()
            await asyncio.wait((typing,))

    async def _type(self, address: Address) -> None:
        """Say so again before it fades; a refusal ends it, since a call during a flood wait makes that longer."""
        action: dict[str, object] = {"chat_id": address.chat, "action": "typing"}
        topic = self._thread_id(address)
        if topic is not None:
            action["message_thread_id"] = topic
        while not isinstance(await self._client.ask("sendChatAction", **action), Refusal):
            await self._sleep(TYPING_EVERY)

    async def retract(self, receipt: Receipt) -> bool:
        place = receipt.address
        got = await self._client.ask("deleteMessage", chat_id=place.chat, message_id=place.message)
        is_gone = got is True or (isinstance(got, Refusal) and got.says("message to delete not found"))
        if not is_gone:
            log.warning(
                "A message of ours could not be deleted.",
                extra={"action": "retract_failed", "account": self._account, "chat": place.chat},
            )
        return is_gone


# --- the SDK ----------------------------------------------------------------------------------------------


class CallFailed(TelegramError):
    """A call that did not end well, told by what may be done next instead of by the SDK's exception classes."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(type(failure).__name__)
        self.failure = failure


class _Client(Bot):
    """The SDK's bot with raw answers: a field that it cannot read must not cost a receipt, or a batch of updates."""

    def __init__(self, token: str, root: str, read_timeout: float) -> None:
        super().__init__(
            token,
            base_url=f"{root}/bot",
            base_file_url=f"{root}/file/bot",
            request=_Request(Wire(token=token, keeps_open=False), read_timeout),
            get_updates_request=_Request(Wire(token=token, keeps_open=True), read_timeout),
        )

    async def ask(self, method: str, **params: object) -> Any | Failure:
        """Make one call; return its `result`, or how it failed. Raises nothing."""
        return await self._ask(method, params)

    async def updates(self, offset: int | None) -> Any | Failure:
        """Make one getUpdates, which waits for something to happen."""
        params: dict[str, object] = {"offset": offset, "timeout": POLL_SECONDS, "allowed_updates": ALLOWED}
        return await self._ask("getUpdates", params, read_timeout=POLL_SECONDS + POLL_GRACE)

    async def _ask(self, method: str, params: dict[str, object], **more: float) -> Any | Failure:
        try:
            return await self._post(method, params, **more)  # type: ignore[arg-type]  # only timeouts
        except CallFailed as failed:
            return failed.failure
        except TelegramError as error:
            return Unclear(reason=f"the SDK gave up: {type(error).__name__}")

    async def hang_up(self) -> None:
        """Close the connections. (The SDK's own `close` is a method of the Bot API.)"""
        for request in self._request:
            await request.shutdown()


class _Request(BaseRequest):
    """Lends the SDK our wire."""

    def __init__(self, wire: Wire, read_timeout: float) -> None:
        self._wire = wire
        self._read_timeout = read_timeout

    @property
    def read_timeout(self) -> float:
        return self._read_timeout

    async def initialize(self) -> None:
        """Do nothing: the wire opens with its first request."""

    async def shutdown(self) -> None:
        await self._wire.close()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: object = BaseRequest.DEFAULT_NONE,
        write_timeout: object = BaseRequest.DEFAULT_NONE,
        connect_timeout: object = BaseRequest.DEFAULT_NONE,
        pool_timeout: object = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        """Make one attempt. Raises CallFailed for everything but a success."""
        answer = await self._wire.request(
            method,
            url,
            agent=self.USER_AGENT,
            data=None if request_data is None else request_data.json_parameters,
            read_timeout=read_timeout if isinstance(read_timeout, int | float) else self._read_timeout,
        )
        if isinstance(answer, Refusal | Unreachable | Unclear):
            raise CallFailed(answer)
        return answer
