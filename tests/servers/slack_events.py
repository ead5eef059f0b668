"""The events that Slack sends to the app, built from what happened in the workspace.

Shapes: https://docs.slack.dev/apis/events-api and https://docs.slack.dev/reference/events/message
"""

from collections.abc import Callable
from typing import Literal

from servers.slack_render import message_json
from servers.slack_world import Channel, Json, Message, World

MentionOrder = Literal["after", "before", "alone"]
"""Where app_mention comes: after the message event, before it, or without it."""

Publish = Callable[[Json], str]
"""Hands one event_callback to the sockets and returns its event_id."""


class Events:
    """Emits what the app is subscribed to and has the scopes for, where its bot user is in."""

    def __init__(self, world: World, publish: Publish, scopes: set[str]) -> None:
        self._world = world
        self._publish = publish
        self._scopes = scopes

    def posted(self, message: Message, *, mention: MentionOrder | None = None) -> None:
        """Emit the message event, app_mention beside it if asked, and a broadcast's second event."""
        event = self._message(message)
        named = {k: v for k, v in event.items() if k not in ("channel_type", "subtype", "root")}
        named["type"] = "app_mention"
        order = {None: [event], "after": [event, named], "before": [named, event], "alone": [named]}[mention]
        for one in order:
            self.emit(message.channel, one, author=message.team)
        if message.subtype == "thread_broadcast":
            self.changed(message, previous=message_json(self._world, message))

    def changed(self, message: Message, *, previous: Json) -> None:
        """Emit message_changed, whatever it was that changed."""
        now = message_json(self._world, message)
        if message.team is not None:
            now = {**now, "source_team": message.team, "user_team": message.team}
        event = self._hidden(message.channel, "message_changed")
        self.emit(message.channel, {**event, "message": now, "previous_message": previous})

    def deleted(self, message: Message, *, previous: Json) -> None:
        """Emit message_deleted."""
        event = self._hidden(message.channel, "message_deleted")
        self.emit(message.channel, {**event, "deleted_ts": message.ts, "previous_message": previous})

    def reaction(self, kind: str, user: str, name: str, message: Message) -> None:
        """Emit reaction_added or reaction_removed."""
        event: Json = {
            "type": kind,
            "user": user,
            "reaction": name,
            "item": {"type": "message", "channel": message.channel, "ts": message.ts},
            "event_ts": self._world.clock.next_ts(),
        }
        if message.user is not None:
            event["item_user"] = message.user
        self.emit(message.channel, event)

    def channel_id_changed(self, old: str, new: str) -> None:
        """Emit channel_id_changed, as when a private channel becomes shared."""
        stamp = self._world.clock.next_ts()
        event = {"type": "channel_id_changed", "old_channel_id": old, "new_channel_id": new}
        self.emit(new, {**event, "event_ts": stamp})

    def emit(self, channel: str, event: Json, *, author: str | None = None) -> str | None:
        """Send one event if our bot user is in the channel; return its event_id.

        In a shared channel the outer team is the author's, not ours.
        """
        world = self._world
        where = world.channels[channel]
        if not world.is_member(where) or not self._may_hear(event["type"], where):
            return None
        outer = author if author is not None and where.is_ext_shared else world.team
        return self._publish(self.envelope(event, outer=outer, is_ext_shared=where.is_ext_shared))

    def envelope(self, event: Json, *, outer: str, is_ext_shared: bool = False) -> Json:
        """Return the event_callback around an event."""
        world = self._world
        return {
            "token": "verification-token",
            "team_id": outer,
            "enterprise_id": world.enterprise,
            "context_team_id": world.team,
            "context_enterprise_id": world.enterprise,
            "api_app_id": world.app,
            "event": event,
            "type": "event_callback",
            "event_id": world.fresh("Ev"),
            "event_time": world.clock.seconds(),
            "authorizations": [
                {
                    "enterprise_id": world.enterprise,
                    "team_id": world.team,
                    "user_id": world.bot_user,
                    "is_bot": True,
                    "is_enterprise_install": world.enterprise is not None,
                }
            ],
            "is_ext_shared_channel": is_ext_shared,
            "event_context": f"4-{world.fresh('ctx')}",
        }

    def _may_hear(self, kind: str, where: Channel) -> bool:
        if kind == "message":
            return f"{where.kind.scope}:history" in self._scopes
        return kind != "app_mention" or "app_mentions:read" in self._scopes

    def _message(self, message: Message) -> Json:
        channel = self._world.channels[message.channel]
        event = message_json(self._world, message)
        event.pop("metadata", None)  # comes only as message_metadata_posted, to whoever subscribed to that
        if message.team is not None and message.team != self._world.team:
            event |= {"user_team": message.team, "source_team": message.team}
        return {
            **event,
            "channel": channel.id,
            "event_ts": message.ts,
            "channel_type": channel.kind.channel_type,
        }

    def _hidden(self, channel: str, subtype: str) -> Json:
        stamp = self._world.clock.next_ts()
        return {
            "type": "message",
            "subtype": subtype,
            "hidden": True,
            "channel": channel,
            "channel_type": self._channel(channel).kind.channel_type,
            "ts": stamp,
            "event_ts": stamp,
        }

    def _channel(self, id: str) -> Channel:
        return self._world.channels[id]
