"""The Telegram test server's world: who there is, what was written, and what of it the bot hears."""

import itertools
import random
from collections.abc import Callable

from servers.telegram_model import (
    ANONYMOUS_ADMIN_ID,
    CHANNEL_BOT_ID,
    SERVICE_USER_ID,
    Chat,
    Json,
    Member,
    Topic,
    User,
    bad_request,
)
from servers.telegram_text import utf16_slice
from servers.telegram_updates import Changes, Updates

_SERVICE_KEYS = frozenset(
    {
        "new_chat_members",
        "left_chat_member",
        "new_chat_title",
        "pinned_message",
        "migrate_to_chat_id",
        "migrate_from_chat_id",
        "forum_topic_created",
        "forum_topic_edited",
        "forum_topic_closed",
        "forum_topic_reopened",
        "group_chat_created",
        "supergroup_chat_created",
        "message_auto_delete_timer_changed",
    }
)

ChatRef = Chat | int | str
UserRef = User | int
MessageRef = Json | int


class World:
    """Everything that exists. `now` returns Unix seconds."""

    def __init__(self, *, bot: User, now: Callable[[], float]) -> None:
        self.bot = bot
        self.now = now
        self.can_read_all_group_messages = False
        """True: privacy mode is off."""
        self.has_topics_enabled = False
        """True: private chats with the bot have topics."""
        self.changes = Changes()
        self.updates = Updates(self.changes)
        self.users: dict[int, User] = {bot.id: bot}
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, bytes] = {}
        self.sent: list[Json] = []
        self._box = itertools.count(101)
        self._user_ids = itertools.count(1001)
        self._chat_ids = itertools.count(1)
        for user_id, name, username in (
            (SERVICE_USER_ID, "Telegram", None),
            (ANONYMOUS_ADMIN_ID, "Group", "GroupAnonymousBot"),
            (CHANNEL_BOT_ID, "Channel", "Channel_Bot"),
        ):
            is_bot = user_id != SERVICE_USER_ID
            self.users[user_id] = User(id=user_id, first_name=name, username=username, is_bot=is_bot)

    # who there is

    def user(self, ref: UserRef) -> User:
        """Return that user; an unknown id is a mistake in the test."""
        return ref if isinstance(ref, User) else self.users[ref]

    def chat(self, ref: ChatRef) -> Chat:
        """Return the chat of that id, title or @username; an unknown one is a mistake in the test."""
        if isinstance(ref, Chat):
            return ref
        found = self.find(ref)
        if found is None:
            raise LookupError(f"no chat {ref!r} in this world: {[c.title or c.id for c in self.chats.values()]}")
        return found

    def find(self, ref: int | str) -> Chat | None:
        """Return the chat of that id, @username or title, or None."""
        if isinstance(ref, str) and not ref.lstrip("-").isdigit():
            name = ref.removeprefix("@").casefold()
            for chat in self.chats.values():
                names = (chat.username, chat.title) if not ref.startswith("@") else (chat.username,)
                if name in [n.casefold() for n in names if n is not None]:
                    return chat
            return None
        return self.chats.get(int(ref))

    def bot_in(self, chat: Chat) -> Member:
        """Return the bot's own standing in a chat."""
        return chat.members.setdefault(self.bot.id, Member(status="left"))

    def has_topics(self, chat: Chat) -> bool:
        """Return whether topics exist in this chat."""
        return chat.is_forum or (chat.type == "private" and self.has_topics_enabled)

    def new_user_id(self) -> int:
        """Return an id that no user has."""
        return next(i for i in self._user_ids if i not in self.users)

    def new_chat_id(self, chat_type: str) -> int:
        """Return an unused id of the shape that this kind of chat has."""
        number = next(self._chat_ids)
        return -(4_000_000 + number) if chat_type == "group" else -(1_002_000_000_000 + number)

    def box(self) -> "itertools.count[int]":
        """Return the series of message ids that private chats and basic groups share."""
        return self._box

    # what is written

    def message(self, chat: Chat, ref: MessageRef) -> Json:
        """Return a stored message; an unknown one is a mistake in the test."""
        return chat.messages[ref if isinstance(ref, int) else int(ref["message_id"])]

    def write(
        self,
        chat: Chat,
        content: Json,
        *,
        sender: User | None,
        sender_chat: Chat | None = None,
        topic: Topic | None = None,
        reply: Json | None = None,
        drop_reply: bool = False,
    ) -> Json:
        """Store one message and return it as the platform shows it. `drop_reply` leaves the opening message of
        a topic out of a message that replies elsewhere.
        """
        message: Json = {"message_id": next(chat.ids)}
        if sender is not None:
            message["from"] = sender.wire()
        if sender_chat is not None:
            message["sender_chat"] = sender_chat.wire()
        message |= {"chat": chat.wire(), "date": int(self.now())}
        message |= self._thread_fields(chat, topic, reply, message["message_id"])
        if reply is None and topic is not None and not drop_reply and message["message_id"] != topic.id:
            reply = chat.messages.get(topic.id)
        if reply is not None:
            message["reply_to_message"] = {k: v for k, v in reply.items() if k != "reply_to_message"}
        message |= content
        chat.messages[message["message_id"]] = message
        if sender is not None and sender.is_bot and sender.id not in (ANONYMOUS_ADMIN_ID, CHANNEL_BOT_ID):
            chat.last_bot_id = sender.id
        self.changes.touch()
        return message

    def open_topic(self, chat: Chat, name: str, *, by: User, icon_color: int) -> Topic:
        """Store the service message that opens a topic; its id is the topic's. The bot hears it even if it
        opened the topic itself.
        """
        topic = Topic(id=0, name=name, icon_color=icon_color)
        content = {"forum_topic_created": {"name": name, "icon_color": icon_color}}
        opening = self.write(chat, content, sender=by)
        topic.id = opening["message_id"]
        opening |= {"message_thread_id": topic.id, "is_topic_message": True}
        chat.topics[topic.id] = topic
        self.tell(chat, opening)
        return topic

    def forward_to_discussion(self, channel: Chat, post: Json) -> Json | None:
        """Put the automatic forward of a channel post into the linked group, and return it."""
        if channel.linked_chat_id is None:
            return None
        group = self.chats[channel.linked_chat_id]
        content = {k: v for k, v in post.items() if k not in ("message_id", "sender_chat", "chat", "date", "from")}
        content |= {
            "is_automatic_forward": True,
            "forward_origin": {
                "type": "channel",
                "chat": channel.wire(),
                "message_id": post["message_id"],
                "date": post["date"],
            },
        }
        copy = self.write(group, content, sender=self.users[SERVICE_USER_ID], sender_chat=channel)
        self.tell(group, copy)
        return copy

    def quote(self, answered: Json, quoted: str) -> Json:
        """Return the TextQuote for part of a message. Raises BotApiError if it is no part of it."""
        text = str(answered.get("text", answered.get("caption", "")))
        at = text.find(quoted)
        if at < 0:
            raise bad_request("QUOTE_TEXT_INVALID")
        return {"text": quoted, "position": len(text[:at].encode("utf-16-le")) // 2, "is_manual": True}

    def external(self, chat: Chat, message: Json) -> Json:
        """Return the ExternalReplyInfo about a message of another chat or topic."""
        origin: Json = {"date": message["date"]}
        if chat.type == "channel":
            origin |= {"type": "channel", "chat": chat.wire(), "message_id": message["message_id"]}
        elif "sender_chat" in message:
            origin |= {"type": "chat", "sender_chat": message["sender_chat"]}
        else:
            origin |= {"type": "user", "sender_user": message["from"]}
        info: Json = {"origin": origin, "message_id": message["message_id"]}
        if chat.type in ("supergroup", "channel"):
            info["chat"] = chat.wire()
        return info

    # what the bot hears

    def tell(self, chat: Chat, message: Json, *, is_edit: bool = False, deliver: bool | None = None) -> Json | None:
        """Queue the update for a message if the bot hears it; `deliver` decides instead, if given."""
        heard = self.hears(chat, message) if deliver is None else deliver
        if not heard:
            return None
        kind = "channel_post" if chat.type == "channel" else "message"
        return self.updates.add(f"edited_{kind}" if is_edit else kind, message)

    def hears(self, chat: Chat, message: Json) -> bool:
        """Return whether the platform shows the bot this message of somebody else.

        Source: https://core.telegram.org/bots/features#privacy-mode.
        """
        me = self.bot_in(chat)
        if not me.is_present or chat.migrated_to is not None:
            return False
        if chat.type == "private" or _SERVICE_KEYS & message.keys():
            return True
        if chat.type == "channel":
            return me.is_admin
        if self._is_other_bot(message):
            return False
        return me.is_admin or self.can_read_all_group_messages or self._is_for_me(chat, message)

    def _is_other_bot(self, message: Json) -> bool:
        sender = message.get("from", {})
        return bool(sender.get("is_bot")) and "sender_chat" not in message

    def _is_for_me(self, chat: Chat, message: Json) -> bool:
        answered = message.get("reply_to_message")
        is_plain = answered is not None and answered.get("forum_topic_created") is not None
        if answered is not None and not is_plain:
            author = answered.get("from", {})
            if author.get("id") == self.bot.id:
                return True
            if author.get("is_bot") and "sender_chat" not in answered:
                return False
        text = str(message.get("text", message.get("caption", "")))
        entities: list[Json] = message.get("entities") or message.get("caption_entities") or []
        return any(self._names_me(chat, text, entity) for entity in entities)

    def _names_me(self, chat: Chat, text: str, entity: Json) -> bool:
        if entity["type"] == "text_mention":
            return bool(entity["user"]["id"] == self.bot.id)
        part = utf16_slice(text, entity["offset"], entity["length"]).casefold()
        me = (self.bot.username or "").casefold()
        if entity["type"] == "mention":
            return part == f"@{me}"
        if entity["type"] == "bot_command":
            _, at, addressee = part.partition("@")
            return addressee == me if at else chat.last_bot_id == self.bot.id
        return False

    def _thread_fields(self, chat: Chat, topic: Topic | None, reply: Json | None, own_id: int) -> Json:
        if topic is not None:
            return {"message_thread_id": topic.id, "is_topic_message": True}
        if chat.type == "supergroup" and reply is not None:
            return {"message_thread_id": reply.get("message_thread_id", reply["message_id"])}
        return {}

    def random_id(self) -> str:
        """Return an opaque id, as files, callbacks and the like have."""
        return "".join(random.choices("ABCDEFGHJKMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789", k=24))
