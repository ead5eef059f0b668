"""From what Slack tells us, by a socket or when read back, to what a person said."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from delivery.model import ChatKind, Inbound
from delivery.platforms.slack_calls import Json
from delivery.platforms.slack_events import ChatMoved, Post, Us, inbound_of, read_event, read_slash
from delivery.platforms.slack_names import Names
from state.clock import Now

log = logging.getLogger(__name__)

OnChatMoved = Callable[[str, str, str], None]
"""Told account, old and new id of a chat."""


def us_of(account: str, login: Json) -> Us | None:
    """Read the answer of auth.test: the workspace is the team, or the organisation of an org-wide install."""
    workspace = login.get("enterprise_id") if login.get("is_enterprise_install") else login.get("team_id")
    if not isinstance(workspace, str) or not workspace:
        return None
    return Us(account=account, workspace=workspace, bot_user=login.get("user_id"), bot_id=login.get("bot_id"))


class Hearing:
    """Reads for one account."""

    def __init__(self, *, us: Us, names: Names, now: Now, on_chat_moved: OnChatMoved | None) -> None:
        self._us = us
        self._names = names
        self._now = now
        self._on_chat_moved = on_chat_moved

    async def read(self, kind: str, payload: Json) -> Inbound | None:
        """Read an envelope's payload, by the envelope's type; None: nothing that anybody said to us."""
        if kind == "slash_commands":
            return read_slash(payload, self._us, at=self._now())
        event = payload.get("event")
        if kind != "events_api" or not isinstance(event, Mapping):
            return None
        found = read_event(event, self._us)
        if isinstance(found, ChatMoved):
            self._tell_moved(found)
            return None
        return None if found is None else await self._inbound(found)

    async def read_back(self, message: Json, chat: str, kind: ChatKind, is_edit: bool) -> Inbound | None:
        """Read a message of a chat as history shows it; None: nothing that anybody said to us."""
        found = read_event({**message, "type": "message", "channel": chat}, self._us)
        if not isinstance(found, Post):
            return None
        return await self._inbound(replace(found, kind=kind, is_edit=is_edit))

    async def _inbound(self, post: Post) -> Inbound:
        if post.kind is not None:
            self._names.note_chat(post.chat, post.kind)
        else:
            post = replace(post, kind=self._names.kind(post.chat))
        await self._names.learn(post.people)
        return inbound_of(post, self._us, self._names.name)

    def _tell_moved(self, moved: ChatMoved) -> None:
        log.warning(
            "A channel has a new id.",
            extra={"action": "chat_moved", "account": self._us.account, "chat": moved.old, "new": moved.new},
        )
        if self._on_chat_moved is not None:
            self._on_chat_moved(self._us.account, moved.old, moved.new)
