"""What people (and Slack itself) do in the workspace, as a test says it."""

from servers.slack_events import Events, MentionOrder
from servers.slack_render import message_json
from servers.slack_sockets import Delivery, Hub
from servers.slack_world import Channel, Json, Kind, Message, User, World


class People:
    """Stores what happens and emits the events that Slack would. Names or ids stand for people and channels."""

    def __init__(self, world: World, events: Events, hub: Hub) -> None:
        self.responses: list[Json] = []  # what the app posted to response_url
        self._world = world
        self._events = events
        self._hub = hub

    def add_user(self, name: str, *, team: str | None = None) -> User:
        """Add a person, of another workspace if `team` says so."""
        return self._world.add_user(name, team=team)

    def add_channel(
        self,
        name: str,
        *,
        kind: Kind | str = Kind.PUBLIC,
        members: list[str] | None = None,
        shared: bool = False,
    ) -> Channel:
        """Add a channel; by default the bot alone is in it. `members=["kim"]` leaves the bot out."""
        return self._world.add_channel(name, kind=kind, members=members, is_ext_shared=shared)

    def message(self, channel: str, ts: str) -> Message:
        """Return a stored message. Raises KeyError."""
        return self._world.channel(channel).messages[ts]

    def say(
        self,
        channel: str,
        user: str,
        text: str,
        thread_ts: str | None = None,
        broadcast: bool = False,
        mention: bool = False,
        *,
        order: MentionOrder = "after",
        subtype: str | None = None,
        files: list[Json] | None = None,
        extra: Json | None = None,
    ) -> str:
        """Let a person write; return the ts.

        `@name` as channel is their direct conversation with the app. `broadcast`: also send to channel.
        `mention`: the bot's mention is put in front if it is not in the text, and app_mention comes `after`
        the message event, `before` it or `alone`. `subtype`: me_message, file_share and the like; `extra`
        overrides fields of the message.
        """
        where, who = self._world.channel(channel), self._world.user(user)
        name = f"<@{self._world.bot_user}>"
        message = Message(
            channel=where.id,
            ts=self._world.clock.next_ts(),
            user=who.id,
            team=who.team,
            text=f"{name} {text}" if mention and name not in text else text,
            thread_ts=thread_ts,
            broadcast=broadcast,
            subtype="thread_broadcast" if broadcast else subtype,
            files=files,
            extra={"client_msg_id": self._world.fresh("client-"), **(extra or {})},
        )
        self._world.store(message)
        self._events.posted(message, mention=order if mention and where.kind is not Kind.IM else None)
        return message.ts

    def bot_says(self, channel: str, text: str, *, thread_ts: str | None = None, name: str = "other") -> str:
        """Let another app's old-style bot write: subtype bot_message, a bot_id, no user."""
        message = Message(
            channel=self._world.channel(channel).id,
            ts=self._world.clock.next_ts(),
            user=None,
            text=text,
            thread_ts=thread_ts,
            subtype="bot_message",
            bot_id="B0OTHER",
            username=name,
        )
        self._world.store(message)
        self._events.posted(message)
        return message.ts

    def edit(self, channel: str, ts: str, text: str) -> None:
        """Change a message's text, as its author does."""
        message = self.message(channel, ts)
        previous = message_json(self._world, message)
        message.edits.append(message.text)
        message.text = text
        message.edited = {"user": message.user, "ts": self._world.clock.next_ts()}
        self._events.changed(message, previous=previous)

    def touch(self, channel: str, ts: str) -> None:
        """Emit message_changed with the text unchanged, as for language detection."""
        message = self.message(channel, ts)
        previous = message_json(self._world, message)
        message.extra["language"] = {"locale": "en", "is_reliable": True}
        self._events.changed(message, previous=previous)

    def unfurl(self, channel: str, ts: str, url: str = "https://example.com/") -> None:
        """Attach a link's preview: message_changed with the text unchanged."""
        message = self.message(channel, ts)
        previous = message_json(self._world, message)
        preview = {"from_url": url, "original_url": url, "fallback": url, "id": 1, "title": "Example"}
        message.attachments = [*(message.attachments or []), preview]
        self._events.changed(message, previous=previous)

    def react(self, channel: str, user: str, ts: str, name: str = "thumbsup", *, remove: bool = False) -> None:
        """Add a reaction, or take it back."""
        message, who = self.message(channel, ts), self._world.user(user).id
        users = message.reactions.setdefault(name, [])
        if remove:
            users.remove(who)
        else:
            users.append(who)
        if not users:
            del message.reactions[name]
        self._events.reaction("reaction_removed" if remove else "reaction_added", who, name, message)

    def change_channel_id(self, channel: str, new: str) -> None:
        """Move a conversation to a new id, as when a private channel becomes shared; timestamps stay."""
        where = self._world.channel(channel)
        old, where.id = where.id, new
        where.is_ext_shared = True
        self._world.channels = {c.id: c for c in self._world.channels.values()}
        for message in where.messages.values():
            message.channel = new
        self._events.channel_id_changed(old, new)

    def emit(self, channel: str, event: Json, *, author_team: str | None = None) -> str | None:
        """Send any event as it is; return its event_id, or None if the bot is not in the channel."""
        return self._events.emit(self._world.channel(channel).id, event, author=author_team)

    def slash(self, channel: str, user: str, command: str, text: str = "") -> Delivery:
        """Let a person type a registered slash command; Slack offers none in threads."""
        where = self._world.channel(channel)
        payload = self._pressed() | {
            "command": command,
            "text": text,
            "channel_id": where.id,
            "channel_name": where.name or "directmessage",
            "user_id": self._world.user(user).id,
            "user_name": self._world.user(user).name,
            "team_id": self._world.team,
            "team_domain": self._world.team_name.lower(),
            "is_enterprise_install": "false",
        }
        return self._hub.publish(payload, type="slash_commands", accepts=True)

    def click(self, channel: str, user: str, ts: str, action_id: str, value: str = "") -> Delivery:
        """Let a person press a button on a message: interactive, block_actions."""
        where, message = self._world.channel(channel), self.message(channel, ts)
        action = {"type": "button", "action_id": action_id, "block_id": "b", "value": value}
        who, team = self._world.user(user), {"id": self._world.team, "domain": self._world.team_name.lower()}
        container: Json = {"type": "message", "message_ts": ts, "channel_id": where.id, "is_ephemeral": False}
        if message.thread_ts is not None:
            container["thread_ts"] = message.thread_ts
        payload = self._pressed() | {
            "type": "block_actions",
            "user": {"id": who.id, "username": who.name, "name": who.name, "team_id": who.team},
            "container": container,
            "team": team,
            "channel": {"id": where.id, "name": where.name or "directmessage"},
            "message": message_json(self._world, message, all_metadata=True),
            "state": {"values": {}},
            "actions": [{**action, "action_ts": self._world.clock.next_ts()}],
        }
        return self._hub.publish(payload, type="interactive")

    def redeliver(self, delivery: Delivery, reason: str = "timeout") -> None:
        """Send a delivery again now, though it was acknowledged."""
        self._hub.again(delivery, reason=reason)

    def _pressed(self) -> Json:
        return {
            "token": "verification-token",
            "api_app_id": self._world.app,
            "trigger_id": self._world.fresh("trigger-"),
            "response_url": f"{self._url()}/response/{self._world.fresh('r')}",
        }

    def _url(self) -> str:
        raise NotImplementedError
