"""What the platform checks before it carries a call out: parameters, chats, topics, replies.

Source: https://core.telegram.org/bots/api#making-requests, and the wordings of the tdlib server.
"""

import json
from dataclasses import dataclass

from servers.telegram_model import GENERAL_TOPIC, BotApiError, Chat, Json, Member, Topic, bad_request, forbidden
from servers.telegram_world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that came with a request."""

    name: str
    mime_type: str
    content: bytes


@dataclass(slots=True, kw_only=True)
class Params:
    """One call's parameters, as text like on the wire, with the files beside them."""

    values: dict[str, str]
    files: dict[str, Upload]

    def text(self, name: str) -> str:
        """Return a text, empty if absent."""
        return self.values.get(name, "")

    def number(self, name: str, default: int = 0) -> int:
        """Return an integer, the default if absent or no number."""
        try:
            return int(self.values.get(name, default))
        except ValueError:
            return default

    def json(self, name: str) -> object:
        """Return a decoded JSON value, None if absent. Raises BotApiError if it is not JSON."""
        raw = self.values.get(name, "")
        if not raw:
            return None
        try:
            value: object = json.loads(raw)
        except ValueError:
            raise bad_request(f"can't parse {name} JSON object") from None
        return value

    def object(self, name: str) -> Json:
        """Return a decoded JSON object, empty if absent."""
        value = self.json(name)
        return value if isinstance(value, dict) else {}


class Rules:
    """The checks that several methods share; each raises BotApiError in the platform's words."""

    def __init__(self, world: World) -> None:
        self._world = world

    def require_topics(self, chat: Chat, *, right: str = "can_manage_topics") -> None:
        if not self._world.has_topics(chat):
            raise bad_request("the chat is not a forum")
        if chat.type != "private" and not self.me(chat).may(right):
            raise bad_request(
                "not enough rights to create a topic" if right == "can_manage_topics" else "not enough rights"
            )

    def known_topic(self, chat: Chat, params: Params) -> Topic:
        topic = chat.topics.get(params.number("message_thread_id"))
        if topic is None:
            raise bad_request("message thread not found")
        return topic

    def me(self, chat: Chat) -> Member:
        return self._world.bot_in(chat)

    def is_mine(self, message: Json) -> bool:
        sender = message.get("from")
        if sender is None:
            return any(
                m["message_id"] == message["message_id"] and m["chat"] == message["chat"] for m in self._world.sent
            )
        return bool(sender["id"] == self._world.bot.id)

    def found(self, params: Params) -> Chat:
        ref = params.text("chat_id")
        if not ref:
            raise bad_request("chat_id is empty")
        chat = self._world.find(ref) if ref.startswith("@") or ref.lstrip("-").isdigit() else None
        if chat is None or (ref.startswith("@") and chat.type not in ("supergroup", "channel")):
            user = self._world.users.get(int(ref)) if ref.isdigit() else None
            if user is not None and user.is_bot:
                raise forbidden("bots can't send messages to bots")
            if user is not None:
                raise forbidden("bot can't initiate conversation with a user")
            raise bad_request("chat not found")
        if chat.migrated_to is not None:
            raise BotApiError(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                {"migrate_to_chat_id": chat.migrated_to},
            )
        if chat.type != "private" and not self.me(chat).is_present:
            verb = "was kicked from" if self.me(chat).status == "kicked" else "is not a member of"
            raise forbidden(f"bot {verb} the {chat.long_type}")
        return chat

    def writable(self, params: Params) -> Chat:
        chat = self.found(params)
        if chat.type == "private":
            if self._world.users[chat.id].is_deactivated:
                raise forbidden("user is deactivated")
            if self.me(chat).status == "kicked":
                raise forbidden("bot was blocked by the user")
        if chat.type == "channel" and not self.me(chat).may("can_post_messages"):
            raise bad_request("need administrator rights in the channel chat")
        is_muted = chat.is_silenced and not self.me(chat).is_admin
        if is_muted or self.me(chat).status == "restricted":
            raise bad_request("not enough rights to send text messages to the chat")
        return chat

    def topic(self, chat: Chat, thread_id: int) -> Topic | None:
        """Return the topic to post into. A thread id in a group without topics is ignored in silence."""
        if thread_id == 0 or (chat.is_group and not chat.is_forum):
            return None
        topic = chat.topics.get(thread_id)
        if topic is None or thread_id == GENERAL_TOPIC:
            raise bad_request("message thread not found")
        return topic

    def check_open(self, chat: Chat, topic: Topic | None) -> None:
        if topic is not None and topic.is_closed and not self.me(chat).may("can_manage_topics"):
            raise bad_request("TOPIC_CLOSED")

    def reply(self, chat: Chat, params: Params, topic: Topic | None) -> tuple[Json | None, Json]:
        """Return the message of this chat that is answered, and the fields for a quote or a reply elsewhere."""
        wanted = params.object("reply_parameters")
        if not wanted and params.number("reply_to_message_id"):
            wanted = {
                "message_id": params.number("reply_to_message_id"),
                "allow_sending_without_reply": params.text("allow_sending_without_reply").lower() == "true",
            }
        if not wanted:
            return None, {}
        source = chat
        if wanted.get("chat_id") is not None:
            source = self.found(Params(values={"chat_id": str(wanted["chat_id"])}, files={}))
        message = source.messages.get(int(wanted.get("message_id", 0)))
        if message is None:
            if wanted.get("allow_sending_without_reply"):
                return None, {}
            raise bad_request("message to be replied not found")
        fields: Json = {}
        if wanted.get("quote"):
            fields["quote"] = self._world.quote(message, str(wanted["quote"]))
        own_thread = message.get("message_thread_id") if message.get("is_topic_message") else None
        crosses = topic is not None and topic.id != own_thread
        if source is not chat or crosses:
            return None, fields | {"external_reply": self._world.external(source, message)}
        return message, fields
