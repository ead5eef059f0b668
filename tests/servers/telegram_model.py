"""The Telegram test server's nouns: users, chats, members, topics, and how each looks on the wire.

Source: https://core.telegram.org/bots/api#available-types.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

SERVICE_USER_ID = 777000
"""Telegram itself: the sender of automatic forwards into a discussion group."""
ANONYMOUS_ADMIN_ID = 1087968824
CHANNEL_BOT_ID = 136817688
DEFAULT_ICON_COLOR = 7322096
ICON_COLORS = (7322096, 16766590, 13338331, 9367192, 16749490, 16478047)
GENERAL_TOPIC = 1

ADMIN_RIGHTS = (
    "can_manage_chat",
    "can_delete_messages",
    "can_manage_video_chats",
    "can_restrict_members",
    "can_promote_members",
    "can_change_info",
    "can_invite_users",
    "can_post_stories",
    "can_edit_stories",
    "can_delete_stories",
)
CHANNEL_RIGHTS = ("can_post_messages", "can_edit_messages", "can_manage_direct_messages")
GROUP_RIGHTS = ("can_pin_messages", "can_manage_topics")


class BotApiError(Exception):
    """A refusal in the platform's own words; `parameters` is its ResponseParameters, if it sends any."""

    def __init__(self, code: int, description: str, parameters: Json | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def wire(self) -> Json:
        """Return the response body as the platform writes it."""
        body: Json = {"ok": False, "error_code": self.code, "description": self.description}
        if self.parameters is not None:
            body["parameters"] = self.parameters
        return body


def bad_request(words: str) -> BotApiError:
    """Return a 400 whose description begins as the platform's do."""
    return BotApiError(400, f"Bad Request: {words}")


def forbidden(words: str) -> BotApiError:
    """Return a 403 whose description begins as the platform's do."""
    return BotApiError(403, f"Forbidden: {words}")


@dataclass(slots=True, kw_only=True, eq=False)
class User:
    """A person or a bot."""

    id: int
    first_name: str
    username: str | None = None
    is_bot: bool = False
    is_deactivated: bool = False

    def wire(self) -> Json:
        """Return the User object."""
        body: Json = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        if self.username is not None:
            body["username"] = self.username
        return body


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One user's standing in one chat; `rights` overrides an administrator's defaults (all true)."""

    status: str = "member"
    rights: Mapping[str, bool] = field(default_factory=dict)
    is_anonymous: bool = False

    @property
    def is_admin(self) -> bool:
        """Whether this member administers the chat."""
        return self.status in ("creator", "administrator")

    @property
    def is_present(self) -> bool:
        """Whether this member is in the chat at all."""
        return self.status not in ("left", "kicked")

    def may(self, right: str) -> bool:
        """Return whether an administrator has that right; anyone else has none."""
        return self.status == "creator" or (self.is_admin and self.rights.get(right, True))

    def wire(self, user: User, chat_type: str) -> Json:
        """Return the ChatMember object of this kind of chat."""
        body: Json = {"user": user.wire(), "status": self.status}
        if self.status == "creator":
            body["is_anonymous"] = self.is_anonymous
        elif self.status == "administrator":
            names = ADMIN_RIGHTS + (CHANNEL_RIGHTS if chat_type == "channel" else GROUP_RIGHTS)
            body |= {"can_be_edited": False, "is_anonymous": self.is_anonymous}
            body |= {name: self.may(name) for name in names}
        elif self.status == "kicked":
            body["until_date"] = 0
        return body


@dataclass(slots=True, kw_only=True, eq=False)
class Topic:
    """A forum topic; its id is the message id of the service message that opened it."""

    id: int
    name: str
    icon_color: int = DEFAULT_ICON_COLOR
    is_closed: bool = False

    def wire(self) -> Json:
        """Return the ForumTopic object."""
        return {"message_thread_id": self.id, "name": self.name, "icon_color": self.icon_color}


@dataclass(slots=True, kw_only=True, eq=False)
class Chat:
    """A chat with its whole history. `ids` hands out message ids: private chats and basic groups share
    one series, as on the platform; each supergroup and channel has its own, in which 1 is its own creation (the
    reason why General is topic 1).
    """

    id: int
    type: str
    title: str | None = None
    username: str | None = None
    first_name: str | None = None
    is_forum: bool = False
    is_silenced: bool = False
    linked_chat_id: int | None = None
    migrated_to: int | None = None
    last_bot_id: int | None = None
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(2))
    members: dict[int, Member] = field(default_factory=dict)
    topics: dict[int, Topic] = field(default_factory=dict)
    messages: dict[int, Json] = field(default_factory=dict)

    @property
    def is_group(self) -> bool:
        """Whether several people talk here (basic group or supergroup)."""
        return self.type in ("group", "supergroup")

    @property
    def long_type(self) -> str:
        """The kind of chat as error texts name it."""
        return f"{self.type} chat"

    def wire(self) -> Json:
        """Return the Chat object that messages carry."""
        body: Json = {"id": self.id, "type": self.type}
        for name in ("title", "username", "first_name"):
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        if self.is_forum:
            body["is_forum"] = True
        return body

    def full_wire(self) -> Json:
        """Return the ChatFullInfo object of getChat."""
        body = self.wire() | {
            "accent_color_id": 0,
            "max_reaction_count": 11,
            "accepted_gift_types": dict.fromkeys(
                (
                    "unlimited_gifts",
                    "limited_gifts",
                    "unique_gifts",
                    "premium_subscription",
                    "gifts_from_channels",
                ),
                self.type == "private",
            ),
        }
        if self.linked_chat_id is not None:
            body["linked_chat_id"] = self.linked_chat_id
        if self.is_group:
            body["permissions"] = {"can_send_messages": not self.is_silenced}
        return body
