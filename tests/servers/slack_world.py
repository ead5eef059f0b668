"""The workspace that the Slack test server plays: people, channels, messages and their timestamps."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = dict[str, Any]


class Kind(StrEnum):
    """The kinds of conversation; the value is what Slack calls them in `types=` of conversations.list."""

    PUBLIC = "public_channel"
    PRIVATE = "private_channel"
    IM = "im"
    MPIM = "mpim"

    @property
    def channel_type(self) -> str:
        """Return the word that message events carry."""
        return _CHANNEL_TYPES[self]

    @property
    def scope(self) -> str:
        """Return the prefix of the scopes that read it, as in `groups:history`."""
        return _SCOPES[self]


_CHANNEL_TYPES = {Kind.PUBLIC: "channel", Kind.PRIVATE: "group", Kind.IM: "im", Kind.MPIM: "mpim"}
_SCOPES = {Kind.PUBLIC: "channels", Kind.PRIVATE: "groups", Kind.IM: "im", Kind.MPIM: "mpim"}


@dataclass(slots=True, kw_only=True)
class User:
    """A person or a bot; `team` differs from the workspace's in shared channels."""

    id: str
    name: str
    team: str
    is_bot: bool = False
    deleted: bool = False

    def as_json(self) -> Json:
        """Return it as users.info does."""
        return {
            "id": self.id,
            "team_id": self.team,
            "name": self.name,
            "deleted": self.deleted,
            "real_name": self.name.title(),
            "tz": "Europe/Berlin",
            "tz_label": "Central European Time",
            "tz_offset": 3600,
            "profile": {"real_name": self.name.title(), "display_name": self.name, "team": self.team},
            "is_admin": False,
            "is_bot": self.is_bot,
            "is_app_user": False,
            "updated": 1700000000,
        }


@dataclass(slots=True, kw_only=True)
class Message:
    """One stored message; `hidden` and `broadcast` (a reply that is in the channel too) decide who shows it."""

    channel: str
    ts: str
    user: str | None
    text: str
    team: str | None = None
    thread_ts: str | None = None
    subtype: str | None = None
    broadcast: bool = False
    hidden: bool = False  # accepted under a malformed thread_ts: nobody ever sees it
    bot_id: str | None = None
    username: str | None = None
    blocks: list[Json] | None = None
    attachments: list[Json] | None = None
    metadata: Json | None = None
    files: list[Json] | None = None
    edited: Json | None = None
    reactions: dict[str, list[str]] = field(default_factory=dict)
    by_us: bool = False
    deleted: bool = False
    edits: list[str] = field(default_factory=list)  # earlier texts, oldest first
    extra: Json = field(default_factory=dict)

    @property
    def is_reply(self) -> bool:
        """Say whether it is below a thread's root (a root's own thread_ts is its ts)."""
        return self.thread_ts is not None and self.thread_ts != self.ts


@dataclass(slots=True, kw_only=True)
class Channel:
    """A conversation with its messages by ts, and who is in it."""

    id: str
    name: str
    kind: Kind
    members: set[str] = field(default_factory=set)
    is_archived: bool = False
    is_ext_shared: bool = False
    user: str | None = None  # the other side of an im
    refusal: str | None = None  # a restricted_action... code, or any other, that posts here are answered with
    created: int = 1700000000
    messages: dict[str, Message] = field(default_factory=dict)

    def top_level(self) -> list[Message]:
        """Return what conversations.history may show, oldest first: no replies, but broadcast ones."""
        visible = (m for m in self.messages.values() if not m.hidden and not m.deleted)
        return [m for m in visible if not m.is_reply or m.broadcast]

    def replies(self, root: str) -> list[Message]:
        """Return the replies under that root, oldest first."""
        visible = (m for m in self.messages.values() if not m.hidden and not m.deleted)
        return [m for m in visible if m.thread_ts == root and m.is_reply]

    def find(self, ts: str) -> Message | None:
        """Return the visible message with that ts."""
        found = self.messages.get(ts)
        return None if found is None or found.hidden or found.deleted else found


class Clock:
    """Gives message timestamps: text with six decimals, strictly increasing.

    The last two digits are always zeros. Real ones often end so, and a program that keeps a ts as a
    number loses them.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = 0

    def next_ts(self) -> str:
        """Return a ts later than every one before."""
        self._last = max(self._last + 1, int(self._now() * 10_000))
        return f"{self._last // 10_000}.{self._last % 10_000:04d}00"

    def seconds(self) -> int:
        """Return the present second, for event_time."""
        return int(self._now())


class World:
    """One workspace with one installed app, changed by the Web API and by the test."""

    team = "T0TEAM"
    team_name = "Testers"
    app = "A0APP"
    bot_id = "B0BOT"
    bot_user = "U0BOT"

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.enterprise: str | None = None
        self.clock = Clock(now)
        self.users: dict[str, User] = {}
        self.channels: dict[str, Channel] = {}
        self._numbers: Iterator[int] = itertools.count(1)
        self.add_user("hermes", id=self.bot_user, is_bot=True)
        for name in ("kim", "alex"):
            self.add_user(name)
        self.add_channel("general", members=["kim", "alex", "hermes"])
        self.add_channel("ops", members=["kim", "alex", "hermes"])

    def fresh(self, prefix: str) -> str:
        """Return an id that nothing else has, such as `F000000001`."""
        return f"{prefix}{next(self._numbers):09d}"

    def add_user(self, name: str, *, id: str | None = None, team: str | None = None, is_bot: bool = False) -> User:
        """Add a person; the id is `U0` and the name in capitals unless given."""
        user = User(id=id or f"U0{name.upper()}", name=name, team=team or self.team, is_bot=is_bot)
        self.users[user.id] = user
        return user

    def add_channel(
        self,
        name: str,
        *,
        kind: Kind | str = Kind.PUBLIC,
        id: str | None = None,
        members: list[str] | None = None,
        is_ext_shared: bool = False,
    ) -> Channel:
        """Add a conversation; the id is `C0` and the name in capitals unless given. `members` are names or ids."""
        channel = Channel(
            id=id or f"C0{name.upper().replace('-', '')}",
            name=name,
            kind=Kind(kind),
            members={self.user(m).id for m in members or ["hermes"]},
            is_ext_shared=is_ext_shared,
        )
        self.channels[channel.id] = channel
        return channel

    def open_im(self, user: str) -> Channel:
        """Return the direct conversation between the app and that person, made when there is none."""
        person = self.user(user)
        for channel in self.channels.values():
            if channel.kind is Kind.IM and channel.user == person.id:
                return channel
        channel = Channel(
            id=f"D0{person.id[2:]}",
            name="",
            kind=Kind.IM,
            user=person.id,
            members={person.id, self.bot_user},
        )
        self.channels[channel.id] = channel
        return channel

    def open_mpim(self, users: list[str]) -> Channel:
        """Return the group conversation of the app and those people, made when there is none."""
        members = {self.user(u).id for u in users} | {self.bot_user}
        for channel in self.channels.values():
            if channel.kind is Kind.MPIM and channel.members == members:
                return channel
        names = "--".join(sorted(self.users[m].name for m in members))
        channel = Channel(id=self.fresh("C"), name=f"mpdm-{names}-1", kind=Kind.MPIM, members=members)
        self.channels[channel.id] = channel
        return channel

    def user(self, ref: str) -> User:
        """Return the person with that id or name. Raises KeyError."""
        if ref in self.users:
            return self.users[ref]
        for user in self.users.values():
            if user.name == ref.removeprefix("@"):
                return user
        raise KeyError(f"no user {ref!r}; there are {sorted(u.name for u in self.users.values())}")

    def channel(self, ref: str) -> Channel:
        """Return the conversation with that id, name, `#name` or `@person`. Raises KeyError."""
        if ref in self.channels:
            return self.channels[ref]
        if ref.startswith("@"):
            return self.open_im(ref)
        for channel in self.channels.values():
            if channel.name and channel.name == ref.removeprefix("#"):
                return channel
        raise KeyError(f"no channel {ref!r}; there are {sorted(self.channels)}")

    def is_member(self, channel: Channel) -> bool:
        """Say whether our app's bot user is in it."""
        return self.bot_user in channel.members

    def store(self, message: Message) -> Message:
        """Keep a message in its channel."""
        self.channels[message.channel].messages[message.ts] = message
        return message
