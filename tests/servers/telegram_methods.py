"""The Bot API's methods over a world: what a bot may do, and in which words it is refused.

Source: https://core.telegram.org/bots/api#available-methods.
"""

import json
from collections.abc import Awaitable, Callable

from servers.telegram_model import (
    DEFAULT_ICON_COLOR,
    ICON_COLORS,
    BotApiError,
    Chat,
    Json,
    Member,
    User,
    bad_request,
)
from servers.telegram_rules import Params, Rules
from servers.telegram_text import MAX_CAPTION, stored_text
from servers.telegram_world import World

ACTIONS = frozenset(
    [
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    ]
)
MAX_POLL = 50
MAX_TOPIC_NAME = 128


class Methods:
    """Answers calls. Each public coroutine or function below is one method, named as the platform names it in
    lower case; it returns `result` or raises BotApiError.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rules = Rules(world)
        self._commands: dict[str, list[Json]] = {}
        self._table: dict[str, Callable[[Params], object]] = {
            name.lower(): getattr(self, f"_{snake}")
            for name, snake in (
                ("getMe", "get_me"),
                ("getWebhookInfo", "get_webhook_info"),
                ("setWebhook", "set_webhook"),
                ("deleteWebhook", "delete_webhook"),
                ("sendMessage", "send_message"),
                ("sendDocument", "send_document"),
                ("sendMessageDraft", "send_message_draft"),
                ("sendChatAction", "send_chat_action"),
                ("editMessageText", "edit_message_text"),
                ("deleteMessage", "delete_message"),
                ("createForumTopic", "create_forum_topic"),
                ("closeForumTopic", "close_forum_topic"),
                ("reopenForumTopic", "reopen_forum_topic"),
                ("deleteForumTopic", "delete_forum_topic"),
                ("getChat", "get_chat"),
                ("getChatMember", "get_chat_member"),
                ("getChatAdministrators", "get_chat_administrators"),
                ("setMyCommands", "set_my_commands"),
                ("getMyCommands", "get_my_commands"),
                ("deleteMyCommands", "delete_my_commands"),
                ("answerCallbackQuery", "answer_callback_query"),
                ("getFile", "get_file"),
            )
        }

    async def call(self, method: str, params: Params) -> object:
        """Return the result of one call. Raises BotApiError as the platform would."""
        if method.lower() == "getupdates":
            return await self._get_updates(params)
        handler = self._table.get(method.lower())
        if handler is None:
            raise BotApiError(404, "Not Found: method not found")
        return handler(params)

    # the bot itself

    def _get_me(self, params: Params) -> Json:
        world = self._world
        return world.bot.wire() | {
            "can_join_groups": True,
            "can_read_all_group_messages": world.can_read_all_group_messages,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
            "has_topics_enabled": world.has_topics_enabled,
        }

    def _get_updates(self, params: Params) -> Awaitable[list[Json]]:
        allowed = params.json("allowed_updates")
        return self._world.updates.get(
            offset=params.number("offset"),
            limit=min(max(params.number("limit", 100), 1), 100),
            timeout=min(max(params.number("timeout"), 0), MAX_POLL),
            allowed=allowed if isinstance(allowed, list) else None,
        )

    def _get_webhook_info(self, params: Params) -> Json:
        updates = self._world.updates
        info: Json = {
            "url": updates.webhook_url,
            "has_custom_certificate": False,
            "pending_update_count": len(updates.pending),
        }
        return info | ({"allowed_updates": sorted(updates.allowed)} if updates.allowed else {})

    def _set_webhook(self, params: Params) -> bool:
        url = params.text("url")
        if url and not url.startswith("https://"):
            raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
        self._world.updates.webhook_url = url
        self._world.updates.end_poll()
        return True

    def _delete_webhook(self, params: Params) -> bool:
        self._world.updates.webhook_url = ""
        if params.text("drop_pending_updates").lower() == "true":
            self._world.updates.expire()
        return True

    def _set_my_commands(self, params: Params) -> bool:
        commands = params.json("commands")
        wanted = [c for c in commands if isinstance(c, dict)] if isinstance(commands, list) else []
        for command in wanted:
            name, words = str(command.get("command", "")), str(command.get("description", ""))
            if not (name.isascii() and name.replace("_", "a").isalnum() and name.islower() and len(name) <= 32):
                raise bad_request("BOT_COMMAND_INVALID")
            if not 1 <= len(words) <= 256:
                raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
        self._commands[self._scope(params)] = wanted
        return True

    def _get_my_commands(self, params: Params) -> list[Json]:
        return self._commands.get(self._scope(params), [])

    def _delete_my_commands(self, params: Params) -> bool:
        self._commands.pop(self._scope(params), None)
        return True

    def _scope(self, params: Params) -> str:
        return json.dumps([params.object("scope") or {"type": "default"}, params.text("language_code")])

    # messages

    def _send_message(self, params: Params) -> Json:
        chat = self._rules.writable(params)
        text, entities = stored_text(params.text("text"), params.json("entities"), params.text("parse_mode"))
        if not text:
            raise bad_request("message text is empty")
        content: Json = {"text": text} | ({"entities": entities} if entities else {})
        return self._post(chat, content, params)

    def _send_document(self, params: Params) -> Json:
        chat = self._rules.writable(params)
        value = params.text("document")
        upload = params.files.get(value.removeprefix("attach://") if value else "document")
        if upload is None:
            raise bad_request("there is no document in the request")
        if not upload.content:
            raise bad_request("file must be non-empty")
        caption, entities = stored_text(
            params.text("caption"), params.json("caption_entities"), params.text("parse_mode"), limit=MAX_CAPTION
        )
        file_id = self._world.random_id()
        self._world.files[file_id] = upload.content
        document = {
            "file_id": file_id,
            "file_unique_id": file_id[:12],
            "file_name": upload.name,
            "mime_type": upload.mime_type,
            "file_size": len(upload.content),
        }
        content: Json = {"document": document} | ({"caption": caption} if caption else {})
        return self._post(chat, content | ({"caption_entities": entities} if entities else {}), params)

    def _send_message_draft(self, params: Params) -> bool:
        chat = self._rules.writable(params)
        if chat.type != "private":
            raise bad_request("chat not found")
        if params.number("draft_id") == 0:
            raise bad_request("RANDOM_ID_EMPTY")
        stored_text(params.text("text"), params.json("entities"), params.text("parse_mode"))
        self._rules.topic(chat, params.number("message_thread_id"))
        return True

    def _send_chat_action(self, params: Params) -> bool:
        chat = self._rules.writable(params)
        if params.text("action") not in ACTIONS:
            raise bad_request("wrong parameter action in request")
        if chat.type == "channel":
            raise bad_request("chat actions aren't supported in channel chats")
        self._rules.topic(chat, params.number("message_thread_id"))
        return True

    def _post(self, chat: Chat, content: Json, params: Params) -> Json:
        world = self._world
        topic = self._rules.topic(chat, params.number("message_thread_id"))
        reply, elsewhere = self._rules.reply(chat, params, topic)
        if topic is None and reply is not None and reply.get("is_topic_message"):
            topic = chat.topics.get(int(reply["message_thread_id"]))
        self._rules.check_open(chat, topic)
        if "reply_markup" in params.values:
            content = content | {"reply_markup": params.object("reply_markup")}
        is_channel = chat.type == "channel"
        message = world.write(
            chat,
            content | elsewhere,
            sender=None if is_channel else world.bot,
            sender_chat=chat if is_channel else None,
            topic=topic,
            reply=reply,
            drop_reply="external_reply" in elsewhere,
        )
        world.sent.append(message)
        if is_channel:
            world.forward_to_discussion(chat, message)
        return message

    def _edit_message_text(self, params: Params) -> Json:
        chat = self._rules.writable(params)
        message = chat.messages.get(params.number("message_id"))
        if message is None:
            raise bad_request("message to edit not found")
        if not self._rules.is_mine(message) or "text" not in message:
            raise bad_request("message can't be edited")
        text, entities = stored_text(params.text("text"), params.json("entities"), params.text("parse_mode"))
        if not text:
            raise bad_request("message text is empty")
        changed = {k: v for k, v in message.items() if k not in ("entities", "reply_markup", "edit_date")}
        changed |= {"text": text} | ({"entities": entities} if entities else {})
        if "reply_markup" in params.values:
            changed["reply_markup"] = params.object("reply_markup")
        if changed == {k: v for k, v in message.items() if k != "edit_date"}:
            raise bad_request(
                "message is not modified: specified new message content and reply markup are exactly the same "
                "as a current content and reply markup of the message"
            )
        changed["edit_date"] = int(self._world.now())
        chat.messages[changed["message_id"]] = changed
        self._world.changes.touch()
        return changed

    def _delete_message(self, params: Params) -> bool:
        chat = self._rules.writable(params)
        message = chat.messages.get(params.number("message_id"))
        if message is None:
            raise bad_request("message to delete not found")
        may = self._rules.is_mine(message) or chat.type == "private" or self._rules.me(chat).may("can_delete_messages")
        if "forum_topic_created" in message or not may:
            raise bad_request("message can't be deleted")
        del chat.messages[message["message_id"]]
        self._world.changes.touch()
        return True

    def _answer_callback_query(self, params: Params) -> bool:
        if not params.text("callback_query_id"):
            raise bad_request("query is too old and response timeout expired or query ID is invalid")
        return True

    def _get_file(self, params: Params) -> Json:
        file_id = params.text("file_id")
        if file_id not in self._world.files:
            raise bad_request("invalid file_id")
        size = len(self._world.files[file_id])
        return {
            "file_id": file_id,
            "file_unique_id": file_id[:12],
            "file_size": size,
            "file_path": f"documents/{file_id}",
        }

    # topics

    def _create_forum_topic(self, params: Params) -> Json:
        chat = self._rules.writable(params)
        self._rules.require_topics(chat)
        name = " ".join(params.text("name").split())[:MAX_TOPIC_NAME]
        if not name:
            raise bad_request("topic name must be non-empty")
        color = params.number("icon_color", DEFAULT_ICON_COLOR)
        if color not in ICON_COLORS:
            raise bad_request("TOPIC_ICON_COLOR_INVALID")
        return self._world.open_topic(chat, name, by=self._world.bot, icon_color=color).wire()

    def _close_forum_topic(self, params: Params) -> bool:
        return self._turn_topic(params, is_closed=True)

    def _reopen_forum_topic(self, params: Params) -> bool:
        return self._turn_topic(params, is_closed=False)

    def _turn_topic(self, params: Params, *, is_closed: bool) -> bool:
        chat = self._rules.writable(params)
        if chat.type == "private":
            raise bad_request("the chat is not a forum")
        self._rules.require_topics(chat)
        topic = self._rules.known_topic(chat, params)
        if topic.is_closed == is_closed:
            raise bad_request("TOPIC_NOT_MODIFIED")
        topic.is_closed = is_closed
        content: Json = {"forum_topic_closed" if is_closed else "forum_topic_reopened": {}}
        self._world.tell(chat, self._world.write(chat, content, sender=self._world.bot, topic=topic))
        return True

    def _delete_forum_topic(self, params: Params) -> bool:
        chat = self._rules.writable(params)
        self._rules.require_topics(chat, right="can_delete_messages")
        topic = self._rules.known_topic(chat, params)
        del chat.topics[topic.id]
        chat.messages = {k: m for k, m in chat.messages.items() if m.get("message_thread_id") != topic.id}
        self._world.changes.touch()
        return True

    # chats

    def _get_chat(self, params: Params) -> Json:
        return self._rules.found(params).full_wire()

    def _get_chat_member(self, params: Params) -> Json:
        chat = self._rules.found(params)
        user = self._world.users.get(params.number("user_id"))
        if user is None:
            raise bad_request("invalid user_id specified")
        member = chat.members.get(user.id, Member(status="left"))
        if chat.type == "channel" and user is not self._world.bot and not self._rules.me(chat).is_admin:
            raise bad_request("member list is inaccessible")
        return member.wire(user, chat.type)

    def _get_chat_administrators(self, params: Params) -> list[Json]:
        chat = self._rules.found(params)
        if chat.type == "private":
            raise bad_request("there are no administrators in the private chat")
        users: dict[int, User] = self._world.users
        return [m.wire(users[i], chat.type) for i, m in chat.members.items() if m.is_admin]
