"""What people do in the Telegram test server's world: the verbs that tests speak.

Chats may be given as Chat, id, title or "@username"; users as User or id; messages as the dict that an earlier
verb returned, or as a message id of that chat. Every verb returns what the platform would now show.
"""

import itertools
from collections.abc import Iterable, Mapping

from servers.telegram_model import (
    ANONYMOUS_ADMIN_ID,
    CHANNEL_BOT_ID,
    DEFAULT_ICON_COLOR,
    GENERAL_TOPIC,
    Chat,
    Json,
    Member,
    Topic,
    User,
)
from servers.telegram_text import stored_text
from servers.telegram_world import ChatRef, MessageRef, UserRef, World


class People(World):
    """A world with people in it."""

    def add_user(
        self, name: str = "Ann", *, id: int | None = None, username: str | None = None, is_bot: bool = False
    ) -> User:
        """Add a person (or another bot)."""
        user = User(id=id or self.new_user_id(), first_name=name, username=username, is_bot=is_bot)
        self.users[user.id] = user
        return user

    def private(self, user: UserRef) -> Chat:
        """Return the private chat of a user with the bot; the first call is the user pressing Start."""
        person = self.user(user)
        chat = self.chats.get(person.id)
        if chat is None:
            chat = Chat(
                id=person.id,
                type="private",
                first_name=person.first_name,
                username=person.username,
                ids=self.box(),
            )
            chat.members = {person.id: Member(), self.bot.id: Member()}
            self.chats[chat.id] = chat
        return chat

    def add_chat(
        self,
        type: str,
        title: str,
        *,
        id: int | None = None,
        username: str | None = None,
        members: Iterable[UserRef] = (),
        bot: str = "member",
        rights: Mapping[str, bool] | None = None,
        linked: ChatRef | None = None,
    ) -> Chat:
        """Add a chat. `type`: group, supergroup, forum or channel; `bot`: the bot's status there (administrators
        have every right that `rights` does not deny); `linked`: a channel's discussion group.
        """
        is_forum = type == "forum"
        kind = "supergroup" if is_forum else type
        chat = Chat(id=id or self.new_chat_id(kind), type=kind, title=title, username=username, is_forum=is_forum)
        if kind == "group":
            chat.ids = self.box()
        chat.members = {self.user(member).id: Member() for member in members}
        chat.members[self.bot.id] = Member(status=bot, rights=dict(rights or {}))
        if linked is not None:
            group = self.chat(linked)
            chat.linked_chat_id, group.linked_chat_id = group.id, chat.id
        self.chats[chat.id] = chat
        return chat

    # talking

    def say(
        self,
        chat: ChatRef,
        user: UserRef,
        text: str | None = None,
        *,
        reply_to: MessageRef | None = None,
        topic: Topic | int | None = None,
        quote: str | None = None,
        external_reply: Json | None = None,
        sender_chat: ChatRef | None = None,
        entities: list[Json] | None = None,
        deliver: bool | None = None,
        extra: Json | None = None,
    ) -> Json:
        """Write a message. `external_reply`: the message of another chat or topic that it answers; `sender_chat`:
        whom it is shown as (the group itself: an anonymous admin); `deliver`: overrides privacy mode; `extra`:
        further fields, such as `photo` and `caption`.
        """
        room = self.chat(chat)
        answered = None if reply_to is None else self.message(room, reply_to)
        content: Json = {}
        if text is not None:
            stored, found = stored_text(text, entities, "")
            content["text"] = stored
            if found:
                content["entities"] = found
        content |= extra or {}
        source = external_reply or answered
        if quote is not None and source is not None:
            content["quote"] = self.quote(source, quote)
        if external_reply is not None:
            content["external_reply"] = self.external(self.chat(external_reply["chat"]["id"]), external_reply)
        speaker, shown = self._shown_as(room, self.user(user), sender_chat)
        message = self.write(
            room,
            content,
            sender=speaker,
            sender_chat=shown,
            topic=self._topic_of(room, topic, answered),
            reply=answered,
            drop_reply=external_reply is not None,
        )
        self.tell(room, message, deliver=deliver)
        return message

    def edit(
        self, message: Json, text: str, *, entities: list[Json] | None = None, deliver: bool | None = None
    ) -> Json:
        """Change a message's text (the same text: an edit without a change, as link previews cause)."""
        room = self.chat(message["chat"]["id"])
        current = self.message(room, message)
        stored, found = stored_text(text, entities, "")
        changed = {k: v for k, v in current.items() if k != "entities"} | {"text": stored, "edit_date": int(self.now())}
        if found:
            changed["entities"] = found
        room.messages[changed["message_id"]] = changed
        self.tell(room, changed, is_edit=True, deliver=deliver)
        return changed

    def channel_post(self, chat: ChatRef, text: str, *, extra: Json | None = None) -> tuple[Json, Json | None]:
        """Post into a channel as itself; return the post and its automatic forward in the linked group, if any.
        A comment is `say(group, user, text, reply_to=forward)`.
        """
        channel = self.chat(chat)
        stored, found = stored_text(text, None, "")
        content: Json = {"text": stored} | ({"entities": found} if found else {}) | (extra or {})
        post = self.write(channel, content, sender=None, sender_chat=channel)
        self.tell(channel, post)
        return post, self.forward_to_discussion(channel, post)

    def service(self, chat: ChatRef, user: UserRef, **content: object) -> Json:
        """Write a service message, such as `new_chat_title="Ops"` or `new_chat_members=[...]`."""
        room = self.chat(chat)
        message = self.write(room, dict(content), sender=self.user(user))
        self.tell(room, message)
        return message

    def topic(self, chat: ChatRef, name: str, *, by: UserRef) -> Topic:
        """Open a topic in a forum, or in a private chat with topics."""
        return self.open_topic(self.chat(chat), name, by=self.user(by), icon_color=DEFAULT_ICON_COLOR)

    def press(self, message: Json, user: UserRef, data: str) -> Json:
        """Press an inline button under a message; return the callback query."""
        room = self.chat(message["chat"]["id"])
        query: Json = {
            "id": self.random_id(),
            "from": self.user(user).wire(),
            "message": self.message(room, message),
            "chat_instance": str(abs(hash(room.id))),
            "data": data,
        }
        self.updates.add("callback_query", query)
        return query

    def react(self, message: Json, user: UserRef, emoji: str) -> Json:
        """React to a message; the bot hears it as an administrator, or in a private chat, if it asked to."""
        room = self.chat(message["chat"]["id"])
        reaction: Json = {
            "chat": room.wire(),
            "message_id": message["message_id"],
            "user": self.user(user).wire(),
            "date": int(self.now()),
            "old_reaction": [],
            "new_reaction": [{"type": "emoji", "emoji": emoji}],
        }
        if room.type == "private" or self.bot_in(room).is_admin:
            self.updates.add("message_reaction", reaction)
        return reaction

    # coming and going

    def block(self, user: UserRef) -> None:
        """A person blocks the bot."""
        self.set_bot_status(self.private(user), "kicked", by=user)

    def unblock(self, user: UserRef) -> None:
        """A person lets the bot in again."""
        self.set_bot_status(self.private(user), "member", by=user)

    def set_bot_status(
        self, chat: ChatRef, status: str, *, by: UserRef, rights: Mapping[str, bool] | None = None
    ) -> None:
        """Change the bot's standing (member, administrator, restricted, left, kicked); sends my_chat_member."""
        room = self.chat(chat)
        old = self.bot_in(room)
        new = Member(status=status, rights=dict(rights or {}))
        room.members[self.bot.id] = new
        self.updates.add(
            "my_chat_member",
            {
                "chat": room.wire(),
                "from": self.user(by).wire(),
                "date": int(self.now()),
                "old_chat_member": old.wire(self.bot, room.type),
                "new_chat_member": new.wire(self.bot, room.type),
            },
        )

    def migrate(self, group: ChatRef, *, by: UserRef, forum: bool = False) -> Chat:
        """Turn a basic group into a supergroup, whose message ids start anew; the old id answers 400 from now on."""
        old = self.chat(group)
        new = self.add_chat("forum" if forum else "supergroup", old.title or "")
        new.members = dict(old.members)
        new.ids = itertools.count(1)
        leaving = self.write(old, {"migrate_to_chat_id": new.id}, sender=self.user(by))
        self.tell(old, leaving)
        old.migrated_to = new.id
        arriving = self.write(new, {"migrate_from_chat_id": old.id}, sender=self.user(by))
        self.tell(new, arriving)
        return new

    def redeliver(self, update: Json | int, *, update_id: int | None = None) -> Json:
        """Send an update (or the one of that id) once more, under its id or another one."""
        if isinstance(update, int):
            update = next(u for u in self.updates.everything if u["update_id"] == update)
        return self.updates.redeliver(update, update_id=update_id)

    # looking

    def posts(self, chat: ChatRef | None = None) -> list[Json]:
        """Return what the bot has sent and not deleted, oldest first, as it now reads."""
        only = None if chat is None else self.chat(chat).id
        kept = []
        for message in self.sent:
            room = self.chats[message["chat"]["id"]]
            if message["message_id"] in room.messages and only in (None, room.id):
                kept.append(room.messages[message["message_id"]])
        return kept

    def update_of(self, message: Json) -> Json | None:
        """Return the newest update that carries this message, or None if the bot does not hear it."""
        spot = (message["chat"]["id"], message["message_id"])
        for update in reversed(self.updates.everything):
            for body in update.values():
                if isinstance(body, dict) and (body.get("chat", {}).get("id"), body.get("message_id")) == spot:
                    return update
        return None

    async def wait_posts(self, count: int = 1, *, chat: ChatRef | None = None, timeout: float = 10) -> list[Json]:
        """Return the bot's posts once there are `count` of them; TimeoutError says how many there were."""
        if not await self.changes.until(lambda: len(self.posts(chat)) >= count, timeout):
            raise TimeoutError(f"{len(self.posts(chat))} of {count} posts after {timeout} s")
        return self.posts(chat)

    async def wait_read(self, timeout: float = 10) -> None:
        """Return once the bot has acknowledged every update."""
        if not await self.changes.until(lambda: not self.updates.pending, timeout):
            raise TimeoutError(f"{len(self.updates.pending)} updates unread after {timeout} s")

    def _shown_as(self, room: Chat, user: User, sender_chat: ChatRef | None) -> tuple[User, Chat | None]:
        if sender_chat is None:
            return user, None
        shown = self.chat(sender_chat)
        return self.users[ANONYMOUS_ADMIN_ID if shown is room else CHANNEL_BOT_ID], shown

    def _topic_of(self, room: Chat, topic: Topic | int | None, answered: Json | None) -> Topic | None:
        if topic is None and answered is not None and answered.get("is_topic_message"):
            topic = int(answered["message_thread_id"])
        if topic is None or topic == GENERAL_TOPIC:
            return None
        return topic if isinstance(topic, Topic) else room.topics[topic]
